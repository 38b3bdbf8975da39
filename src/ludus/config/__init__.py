"""Configuration of a run: the config model, YAML files, presets, and the registry of algorithms."""
