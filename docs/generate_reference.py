"""Writes the tables of docs/reference/configuration.md from the models themselves, between their markers.

python docs/generate_reference.py           write them
python docs/generate_reference.py --check   exit 1 when they are not what the models say
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ludus.config.describe import describe, section_in
from ludus.config.hyperparameters import HYPERPARAMETER_ALIASES
from ludus.config.registry import LANGUAGE, find_algorithm
from ludus.config.schedule import Schedule
from ludus.config.schema import FIELD_ALIASES, TrainerConfig
from ludus.config.when import When

PAGE = Path(__file__).parent / "reference" / "configuration.md"
ALGORITHMS = ("PPO", "A2C", "DQN", "SAC")
LANGUAGE_ALGORITHMS = ("REINFORCE", "A2C", "PPO", "GRPO")

# What a key means where its model does not say; a key that stands in neither place is an error.
MEANINGS = {
    "env": "which environment; a text is short for `{id: …}`",
    "env.frame_stack": "show the last so many observations as one",
    "env.frame_skip": "repeat each action so many times and sum the rewards",
    "env.max_episode_steps": "truncate episodes here; null: the env's own limit",
    "n_envs": "copies of the env, stepped side by side",
    "vector": "where the envs run; auto: `process` when one step takes over 1 ms, else `serial`",
    "total_timesteps": "how long to train in all, also after a resume",
    "seed": "where all randomness of the run comes from",
    "hyperparams": "the algorithm's own, see below; what is left out takes the algorithm's default",
    "policy": "the network",
    "policy.features_extractor_kwargs": "more arguments for the extractor's class",
    "policy.log_std_init": "starting log of the standard deviation of Box actions (PPO, A2C)",
    "normalize_obs": "observations to mean 0 and spread 1, by running statistics that are saved with the policy",
    "normalize_reward": "scale rewards by the spread of the discounted return; reported rewards stay raw. "
    "Not given: false for algorithms with a replay buffer (DQN, SAC, …)",
    "curriculum": "difficulty that rises with success; null: none",
    "curriculum.initial": "difficulty of the first episodes",
    "curriculum.increment": "how much it rises at a time",
    "curriculum.maximum": "where it stops rising; null: nowhere",
    "curriculum.success_threshold": "share of successes in the window that raises it",
    "curriculum.window": "episodes over which the share is taken",
    "checkpoint": "when checkpoints are saved, how many are kept; null: at the end and when stopped only",
    "checkpoint.every": "interval between checkpoints",
    "evaluation": "on envs of its own, during training and at the end; null: none (`ludus eval RUN` plays afterwards)",
    "evaluation.every": "interval between evaluations, and at the end; null: none",
    "evaluation.episodes": "episodes per evaluation",
    "evaluation.deterministic": "take the likeliest action instead of sampling",
    "early_stopping": "conditions that end the run before its total",
    "video": "videos of the policy during training (extra `video`)",
    "video.every": "interval between videos, each recorded after the update that reaches it; null: none",
    "tracking": "metric rows and who follows them; null: no TensorBoard",
    "tracking.tensorboard": "write TensorBoard events into the run directory",
    "tracking.wandb": "follow with Weights & Biases (extra `wandb`); null: no",
    "tracking.wandb.project": "the project's name there",
    "tracking.wandb.entity": "the user or team",
    "tracking.wandb.group": "group of runs",
    "tracking.wandb.mode": "null leaves the choice to W&B and `WANDB_MODE`",
    "language.sampler": "how completions are drawn",
    "language.adapter": "low-rank weights that learn; null: all weights of the model do",
    "games.eval": "the games of evaluations; default: those of training",
    "league": "who sits opposite the learner",
    "rewards": "what a game's result becomes before anything learns from it",
    "guard": "when a run counts as collapsed and goes back; null: never",
    "save_dir": "runs go to `<save_dir>/<env>/<algorithm>/<name>_<time>`",
    "tags": "words to find the run by, see `ludus runs`",
    "hyperparams.learning_rate": "step size of the optimizer",
    "hyperparams.gamma": "discount factor",
    "hyperparams.gae_lambda": "0 trusts the value network, 1 trusts the rewards",
    "hyperparams.ent_coef": "weight of the entropy bonus",
    "hyperparams.vf_coef": "weight of the value loss",
    "hyperparams.max_grad_norm": "clip the gradient's norm to this; null: no",
    "hyperparams.batch_size": "transitions per gradient step",
    "hyperparams.clip_range": "how far one update may move the policy",
    "hyperparams.normalize_advantage": "advantages to mean 0 and spread 1, per batch",
    "hyperparams.rms_prop_eps": "epsilon of RMSprop",
    "hyperparams.tau": "how far target networks move towards the online ones; 1 copies them",
    "hyperparams.exploration_initial_eps": "share of random actions at the start",
    "hyperparams.exploration_final_eps": "share of random actions at the end",
}


def render() -> dict[str, str]:
    """Marker name to the text that stands between its markers."""
    blocks = {"trainer": _table(TrainerConfig)}
    every = [(name.lower(), find_algorithm(name)) for name in ALGORITHMS]
    every += [(f"language-{name.lower()}", find_algorithm(name, LANGUAGE)) for name in LANGUAGE_ALGORITHMS]
    for name, algorithm in every:
        assert algorithm.hyperparameters is not None  # Ludus's own all have them
        blocks[name] = _table(algorithm.hyperparameters, "hyperparams.", shorten=True)
    aliases = {f"`{alias}`": ".".join(path) for alias, path in FIELD_ALIASES.items()}
    aliases |= {f"`hyperparams.{a}`": f"hyperparams.{c}" for a, c in HYPERPARAMETER_ALIASES.items()}
    rows = [f"| {alias} | `{canonical}` |" for alias, canonical in aliases.items()]
    blocks["aliases"] = "\n".join(["| also accepted | means |", "|---|---|", *rows])
    return blocks


def updated(page: str) -> str:
    """`page` with every block between `<!-- reference:NAME -->` and `<!-- /reference:NAME -->` written anew."""
    for name, text in render().items():
        pattern = re.compile(rf"(<!-- reference:{name} -->\n).*?(<!-- /reference:{name} -->)", re.DOTALL)
        match = pattern.search(page)
        if match is None:
            raise SystemExit(f"{PAGE.name} has no block called {name}")
        page = f"{page[: match.start()]}{match[1]}{text}\n{match[2]}{page[match.end() :]}"
    return page


def _table(model: type[BaseModel], prefix: str = "", *, shorten: bool = False) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in _fields(model, prefix):
        shown = key.removeprefix(prefix) if shorten else key
        cells = (f"`{shown}`", describe(field), _default(field), _meaning(key, field))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _fields(model: type[BaseModel], prefix: str) -> list[tuple[str, FieldInfo]]:
    """Every key, a section's own keys after the section. Hyperparameters have tables of their own."""
    found = []
    for name, field in model.model_fields.items():
        key = prefix + name
        found.append((key, field))
        section = section_in(field.annotation)
        if section is not None and key != "hyperparams":
            found += _fields(section, f"{key}.")
    return found


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default()
    if isinstance(value, BaseModel):
        return ""
    if isinstance(value, When | Schedule):
        value = value.plain()
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value >= 10_000:
        return f"{value:_}"
    if isinstance(value, tuple):
        value = list(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _meaning(key: str, field: FieldInfo) -> str:
    meaning = field.description or MEANINGS.get(key)
    if meaning is None:
        raise SystemExit(f"nothing says what '{key}' means: give its field a description")
    return meaning


if __name__ == "__main__":
    old = PAGE.read_text("utf-8")
    new = updated(old)
    if "--check" in sys.argv[1:]:
        sys.exit(
            "docs/reference/configuration.md is stale: run python docs/generate_reference.py"
            if old != new
            else 0
        )
    PAGE.write_text(new, "utf-8")
