"""Training on several processes or machines with Ray, for configs with a `scale:` section."""
