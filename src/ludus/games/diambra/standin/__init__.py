"""A stand-in engine without ROMs: a small fighting game with DIAMBRA's real protocol, for tests and for trying Ludus.

`fight` is the game, `opponent` the computer player, `drawing` its frames, `match` rounds and stages, `server` the
protocol. It is not DIAMBRA's software, and every frame says so.
"""
