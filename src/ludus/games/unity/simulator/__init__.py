"""A stand-in for Unity builds: it connects, registers and answers like a build, and simulates the tank tasks in Python.

It is for tests, for development, and for trying Ludus without Unity. It identifies itself as a stand-in when it starts,
in the log of every endpoint, and in every answer (`compressed_image.header.frame_id`).
"""
