"""Displays of runs: pages, the terminal dashboard, the web dashboard. They read run files, never a policy."""
