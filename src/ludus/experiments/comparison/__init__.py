"""Several experiments over several seeds: plan, run, read, count, show."""
