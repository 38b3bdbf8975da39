"""An engine without ROMs: a small fighting game behind DIAMBRA's real protocol, for tests and for trying Ludus.

`fight` is the game, `opponent` who plays the other side, `drawing` its frames, `match` rounds and stages, `server` the
protocol. It is not DIAMBRA's software and says so in every frame.
"""
