"""Beyond one process: what runs on Ray when a config has a `scale:` section."""
