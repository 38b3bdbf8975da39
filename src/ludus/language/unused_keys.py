"""Config keys that only runs on envs use, and what a language run has in their place."""

from __future__ import annotations

NOT_FOR_LANGUAGE = {
    "env": "the games of a language run are in games",
    "n_envs": "games.open is the number of games that are played at a time",
    "policy": "language.model and language.adapter say what is trained",
    "vector": "a language run plays text games, see games.open",
    "kernels": "a language run has no fused kernels for networks",
    "precision": "the precision of a language model is language.dtype",
    "deterministic": "a language run has no deterministic GPU kernels",
    "normalize_obs": "a language model reads text",
    "normalize_reward": "rewards of text games are changed by rewards",
    "curriculum": "text games have no difficulty to raise",
    "evaluation.max_steps": "a text game is cut off after max_turns of its section in games",
    "video": "videos of text games are not recorded; `ludus games RUN` shows them",
    "scale.collectors": "the processes that play text games are scale.num_actors",
    "scale.cpus_per_collector": "use scale.cpus_per_actor",
    "scale.max_staleness": "it belongs to scale.mode: async, which language runs do not have",
}
