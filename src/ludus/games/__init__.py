"""Games that Ludus ships, one plugin per folder."""
