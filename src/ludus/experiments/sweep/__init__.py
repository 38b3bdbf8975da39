"""Hyperparameter search: many trials of one config, chosen by Optuna."""
