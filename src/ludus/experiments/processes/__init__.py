"""Several trainings in parallel: each in its own process, forked from one with torch loaded."""
