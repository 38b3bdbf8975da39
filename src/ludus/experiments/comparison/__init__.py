"""Comparison of several experiments over several seeds: plan, run, read, analyse, show."""
