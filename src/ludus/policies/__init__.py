"""Policies and their parts: networks, feature extractors and action distributions."""
