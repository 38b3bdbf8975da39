"""A policy replayed to be studied: `recording` has the steps, `charts` what is drawn of them, the rest writes files."""
