"""A search for hyperparameters: many trials of one config, steered by Optuna."""
