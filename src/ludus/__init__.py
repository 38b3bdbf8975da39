"""Ludus trains agents that play."""

__version__ = "0.1.0"
