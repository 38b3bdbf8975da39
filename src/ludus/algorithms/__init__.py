"""The native algorithms, one file each, with its hyperparameters. `config/registry.py` names them."""
