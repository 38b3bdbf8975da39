"""Stable-Baselines3 and sb3-contrib as an engine, and exchange of models with them.

SB3 keeps its own two steps, `collect_rollouts` and `train`; the loop of Ludus calls them in turn, so that checkpoints,
resume, evaluation and metrics are those of every other run.
"""
