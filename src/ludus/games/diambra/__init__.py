"""DIAMBRA Arena's fighting games, played through the official client; `standin/` is an engine that needs no ROMs."""
