"""One training run on disk: its directory, its checkpoints, its lock, its random streams, stop signals."""
