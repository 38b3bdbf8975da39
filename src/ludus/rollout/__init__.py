"""Collectors: they play with the current policy and return experience."""
