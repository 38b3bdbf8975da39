"""Trainings side by side: each in a process of its own, forked from one that has torch loaded."""
