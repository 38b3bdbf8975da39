"""What a run is asked to do: the config model, YAML files, presets, and the registry of algorithms."""
