"""Experiments with many runs: benchmarks against other libraries, comparisons and sweeps."""
