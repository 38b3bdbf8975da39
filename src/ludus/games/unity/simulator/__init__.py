"""A stand-in for Unity builds: connects, registers and answers as one does, and simulates the tank tasks in Python.

It is for tests, for development, and for trying Ludus without Unity. It says that it is no Unity build when it starts,
in the log of every endpoint it connects to, and in every answer (`compressed_image.header.frame_id`).
"""
