"""Import of the YAML of the document "Training Pipeline": experiment, environment, training, evaluation, play."""

from __future__ import annotations

import shlex
from typing import Any

from ludus.config.importers.document import Document
from ludus.config.importers.sb3_arguments import put_arguments, put_device
from ludus.config.importers.translation import Imported, ImportOptions, PlaySection, Translation
from ludus.games.unity.import_env import put_unity_env, use_case_in

KIND = "a training-pipeline config (experiment, environment, training)"
_WANDB_PROJECT = "sb3"  # the project name of the pipeline's own trainer
_ARGUMENTS = ("training", "algorithm_parameters")
_INNER = ("training", "training")
EXAMPLE = "training pipeline    ludus convert base_ppo_config.yaml"


def recognise(document: Document) -> bool:
    """Return whether it has the sections `environment` and `training`."""
    return all(isinstance(document.data.get(name), dict) for name in ("environment", "training"))


def translate(document: Document, choice: ImportOptions) -> Imported:
    t = Translation(document, KIND)
    for section in ("experiment", "environment", "training", "evaluation", "play"):
        t.section(section)
    env_id = _required(t, "environment", "id")
    algorithm = choice.algorithm or str(_required(t, "training", "algorithm"))
    if t.take("experiment", "name") is not None:
        t.put("name", t.take("experiment", "name"), "experiment", "name")
    t.put("algorithm", algorithm, "training", "algorithm")
    use_case = use_case_in(env_id)
    if use_case is None:
        t.put("env.id", env_id, "environment", "id")
    else:
        t.section("unity")
        put_unity_env(t, use_case)
    _put_environment(t)
    total = t.integer(*_INNER, "total_timesteps")
    if total is not None:
        t.put("total_timesteps", total, *_INNER, "total_timesteps")
    if use_case is None or t.has(*_INNER, "num_envs"):
        n_envs = t.integer(*_INNER, "num_envs", default=1)
        source = (*_INNER, "num_envs") if t.has(*_INNER, "num_envs") else ()
        t.put("n_envs", n_envs, *source, place="the pipeline trains on one env")
    for name in ("normalize_obs", "normalize_reward"):
        t.put(name, False, place="the pipeline does not normalise")
    t.section(*_ARGUMENTS)
    put_arguments(t, _ARGUMENTS, algorithm, choice, ("training", "architecture"))
    _put_training(t, total)
    _put_wandb(t, env_id)
    if t.take("training", "pretrained_model") is not None:
        t.put("pretrained_model", t.take("training", "pretrained_model"), "training", "pretrained_model")
    _note_evaluation(t)
    t.play = _play(t)
    t.put("save_dir", "experiments", place="the output folder of the pipeline")
    t.put("timestamp", False, place="the folder is named after the experiment")
    t.put("exports", ["sb3"], place="the pipeline writes model.zip")
    return t.finish()


def _required(t: Translation, section: str, name: str) -> Any:
    value = t.take(section, name)
    if value is None:
        raise t.error(f"{section}.{name} is missing", (section,), f"add '{name}:' to the section '{section}'")
    return value


def _put_environment(t: Translation) -> None:
    at = "environment"
    config = t.take(at, "env_config")
    if isinstance(config, dict):
        t.put("env.kwargs", config, at, "env_config")
    elif config is not None:
        t.lose("env.kwargs holds arguments, not a name or a path", at, "env_config")
    if t.has(at, "render_mode"):
        t.note("videos and windows choose it themselves", at, "render_mode")
    if t.has(at, "monitor"):
        t.note("every episode is always written to episodes.jsonl", at, "monitor")
    wanted = t.take(at, "video_wrapper", default=t.has(at, "video_trigger"))
    trigger, length = t.integer(at, "video_trigger"), t.integer(at, "video_length")
    if wanted:
        t.put("video.every", trigger or 5000, at, "video_trigger" if trigger else "video_wrapper")
        if length is not None:
            t.put("video.length", length, at, "video_length")
    else:
        for name in ("video_wrapper", "video_trigger", "video_length"):
            if t.has(at, name):
                t.note("no video is recorded: video_wrapper is off", at, name)


def _put_training(t: Translation, total: int | None) -> None:
    """Write the inner `training.training`: seeds, intervals, device, and keys that only some versions have."""
    at = _INNER
    if t.take(*at, "seed") is not None:
        t.put("seed", t.take(*at, "seed"), *at, "seed")
    if t.take(*at, "device") is not None:
        put_device(t, *at, "device")
    t.section(*at, "eval")
    _put_share_of_total(t, "evaluation.every", total, *at, "eval", "num_evals")
    if t.take(*at, "eval", "num_episodes") is not None:
        t.put("evaluation.episodes", t.integer(*at, "eval", "num_episodes"), *at, "eval", "num_episodes")
    if t.take(*at, "eval", "seed") is not None:
        t.put("evaluation.seed", t.integer(*at, "eval", "seed"), *at, "eval", "seed")
    _put_share_of_total(t, "checkpoint.every", total, *at, "log_points")
    if t.has(*at, "verbose"):
        t.note("how much is printed is chosen by `ludus train -v` and `-q`", *at, "verbose")
    stack = t.integer(*at, "state_stack")
    if stack is not None:
        t.put("env.frame_stack", stack, *at, "state_stack")
    if t.take(*at, "is_atari"):
        t.put("env.wrappers", ["atari"], *at, "is_atari")
    if t.has(*at, "torch_compile"):
        t.note("replaced by the fused kernels of kernels: true", *at, "torch_compile")


def _put_share_of_total(t: Translation, target: str, total: int | None, *source: str) -> None:
    """Convert a number of times per run to an interval."""
    times = t.integer(*source)
    if times is None:
        return
    if times < 1:
        raise t.error(
            f"{'.'.join(source)} must be 1 or more, got {times}", source, "give the number of times per run"
        )
    if total is None:
        t.lose("it divides total_timesteps, which is not given", *source)
    else:
        t.put(target, max(1, total // times), *source)


def _put_wandb(t: Translation, env_id: str) -> None:
    if t.take("training", "use_wandb"):
        t.put("tracking.wandb.project", _WANDB_PROJECT, "training", "use_wandb")
        t.put("tracking.wandb.group", env_id, "training", "use_wandb")


def _note_evaluation(t: Translation) -> None:
    for at in (("evaluation",), ("training", "evaluation")):
        t.section(*at)
        if t.has(*at, "num_episodes"):
            episodes = t.integer(*at, "num_episodes")
            t.note(
                f"to evaluate afterwards: ludus eval RUN --episodes {episodes}",
                *at,
                "num_episodes",
            )
        if t.has(*at, "save_gif"):
            t.note("to record a video of the trained agent: ludus video RUN --gif", *at, "save_gif")


def _play(t: Translation) -> PlaySection | None:
    experiment, model = t.take("play", "experiment"), t.take("play", "pretrained_model", default="model")
    if experiment is None:
        return None
    places = [t.document.place(("play", name)) for name in ("experiment", "pretrained_model")]
    for name in ("experiment", "pretrained_model"):
        if t.has("play", name):
            t.note(f"`ludus play {shlex.quote(str(t.document.path))}` plays it", "play", name)
    return PlaySection(str(experiment), str(model), *places)
