"""DIAMBRA Arena's fighting games, played through the official client; `standin/` is an engine without ROMs."""
