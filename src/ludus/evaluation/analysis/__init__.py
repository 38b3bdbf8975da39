"""A policy replayed to be studied: `recording` has the steps, `export` writes them, `charts` says what to draw."""
