"""Environments: building them by name, wrapping, masking, validating; `vector/` runs many of them at once."""
