"""`ludus init`: a commented config to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import EnvId, Json, examples
from ludus.cli.failures import typed_as
from ludus.cli.output import Output
from ludus.errors import UnknownName, UserError

if TYPE_CHECKING:
    from ludus.config.registry import Algorithm

_COMMENT_COLUMN = 34

# An env that each algorithm can play; the others take CartPole-v1.
_FITTING_ENVS = {
    **dict.fromkeys(("SAC", "TD3", "DDPG", "TQC", "CrossQ"), "Pendulum-v1"),
    "MaskablePPO": "Text/TicTacToe-v0",
}

_COMMENTS = {
    "learning_rate": "or {linear: [3.0e-4, 0.0]}, cosine, exponential",
    "gamma": "how much tomorrow's reward is worth today",
    "gae_lambda": "0: trust the value network; 1: trust the rewards",
    "ent_coef": "reward for trying things out",
    "vf_coef": "weight of the value loss",
    "max_grad_norm": "clip gradients to this; null: no",
    "n_steps": "steps of each env between two updates",
    "clip_range": "how far one update may move the policy",
    "tau": "how much of the target network is replaced at each update",
}
_OFF_POLICY_COMMENTS = {
    "n_steps": "how many rewards are summed before the value of what follows is trusted",
    "buffer_size": "steps that the replay buffer holds",
    "learning_starts": "steps before the first update",
    "batch_size": "remembered steps per gradient step",
    "train_freq": "steps between updates, or [1, episode]",
    "gradient_steps": "per update; auto: n_envs; -1: as many as steps were taken",
    "action_noise": "{normal: 0.1} or {ornstein_uhlenbeck: 0.1}",
}
_NETS = ("policy_net_arch", "value_net_arch")

_TEMPLATE = """\
# What to train. Every key may be left out but env; the values here are the defaults, or close to them.
# Check it with `ludus config {file}`, train it with `ludus train {file}`.

algorithm: {algorithm}  # {algorithms}
engine: {engine}  # native, or sb3 for the algorithms of Stable-Baselines3 (needs the extra "sb3")
env:
  id: {env}  # `ludus envs` lists them; module:MyEnv-v0 for your own
  kwargs: {{}}  # arguments of the env
  wrappers: []  # names, module:Class, or {{name: {{arguments}}}}, innermost first
n_envs: {n_envs}  # copies of the env, stepped side by side
vector: auto  # what steps the envs: auto, serial, process, batched or envpool
total_timesteps: 200_000  # env steps, or "500 updates", "30 min"
seed: 42  # all randomness comes from it
device: auto  # auto, cpu, cuda, cuda:1, mps

hyperparams:
{hyperparams}
policy:
  activation: auto  # Tanh, ReLU, ELU, GELU, SiLU, LeakyReLU
  features_extractor: auto  # FlattenExtractor, NatureCNN, CombinedExtractor, ResnetMLP, module:Class
normalize_obs: true  # observations to mean 0, spread 1, as seen so far
normalize_reward: {normalize_reward}  # rewards to spread 1; reported rewards stay as they are

checkpoint:
  every: 50_000  # interval between checkpoints
  keep: 5  # newest checkpoints to keep, besides the best and the pinned ones
evaluation:
  every: 20_000  # interval between evaluations, on separate envs
  episodes: 10
early_stopping:
  reward_threshold: null  # end once an evaluation reaches it
video:
  every: null  # interval between videos (needs the extra "video")
tracking:
  tensorboard: true
  wandb: null  # {{project: my-project}} (needs the extra "wandb")
save_dir: runs  # runs go to <save_dir>/<env>/<algorithm>/<name>_<time>
"""


EXAMPLES = examples(
    "ludus init my.yaml",
    "ludus init my.yaml --algo dqn --env CartPole-v1",
)


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("ludus.yaml"),
    algo: Annotated[str, typer.Option("--algo", metavar="NAME", help="PPO, A2C, DQN, SAC, …")] = "PPO",
    env: EnvId = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="NAME", help="native or sb3; default: the one that has it."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a commented starter config."""
    from ludus.config.registry import engine_names, engine_with, find_algorithm
    from ludus.envs.catalog import check_env_exists

    output = Output(json, listing=True)
    if engine is None:
        found = engine_with(algo)
        engine = found if found in engine_names() else "native"
    elif engine not in engine_names():
        raise UnknownName("engine", engine, engine_names(), where=f"command line: --engine {engine}")
    with typed_as("--algo", algo):
        algorithm = find_algorithm(algo, engine)
    env = env or _FITTING_ENVS.get(algorithm.name, "CartPole-v1")
    with typed_as("--env", env):
        check_env_exists(env)
    text = starter(algorithm, env, str(file), engine)
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UserError(
            f"'{file}' already exists", where=str(file.absolute()), fix="give another name: ludus init FILE"
        ) from None
    except FileNotFoundError:
        raise UserError(
            f"folder not found: '{file.parent}'", where=str(file.absolute()), fix="create it first"
        ) from None
    output.pairs([("wrote", str(file)), ("next", f"ludus train {_quoted(file)}")])
    output.result({"file": str(file), "algorithm": algorithm.name, "engine": engine, "env": env})


def starter(algorithm: Algorithm, env: str, file: str, engine: str = "native") -> str:
    """The text of a config that trains `algorithm` of `engine` on `env`."""
    from ludus.config.editor_schema import shipped_schema_uri
    from ludus.config.registry import algorithm_names

    uri = shipped_schema_uri()
    fields = algorithm.hyperparameters.model_fields if algorithm.hyperparameters else {}
    off_policy = "buffer_size" in fields
    text = _TEMPLATE.format(
        file=_quoted(Path(file)),
        algorithm=algorithm.name,
        algorithms=", ".join(algorithm_names(engine)),
        engine=engine,
        env=env,
        n_envs=1 if off_policy else 8,
        normalize_reward=str(not off_policy).lower(),
        hyperparams=_hyperparameters(algorithm),
    )
    head = "" if uri is None else f"# yaml-language-server: $schema={uri}\n"
    return head + "\n".join(map(_aligned, text.split("\n")))


def _hyperparameters(algorithm: Algorithm) -> str:
    from ludus.cli.config import inline_yaml

    model: Any = algorithm.hyperparameters
    if model is None:
        return "  {}\n"
    lines = []
    defaults = model()
    comments = _COMMENTS | (_OFF_POLICY_COMMENTS if "buffer_size" in model.model_fields else {})
    for name, field in model.model_fields.items():
        if name in _NETS and getattr(defaults, name) is None:
            continue  # Stable-Baselines3's own, which has no name
        line = f"  {name}: {inline_yaml(getattr(defaults, name))}"
        comment = field.description or comments.get(name)
        lines.append(f"{line}  # {comment}" if comment else line)
    return "\n".join(lines) + "\n"


def _aligned(line: str) -> str:
    text, mark, comment = line.partition("  # ")
    return f"{text.ljust(_COMMENT_COLUMN)}  # {comment}" if mark else line


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
