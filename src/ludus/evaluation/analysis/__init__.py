"""Analysis of a policy: `recording` records its steps, `export` writes them, `charts` prepares the charts."""
