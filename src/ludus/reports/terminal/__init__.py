"""The terminal dashboard, `ludus watch`: data from the files of a run, redrawn every second."""
