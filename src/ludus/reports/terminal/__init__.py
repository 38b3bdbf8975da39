"""The terminal dashboard, `ludus watch`: what the files of a run say, drawn anew every second."""
