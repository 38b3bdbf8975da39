"""Commands for language runs."""
