"""Pictures of runs: pages, the terminal dashboard, the web dashboard. Run files are read, never a policy."""
