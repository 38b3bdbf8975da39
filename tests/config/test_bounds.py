"""Every numeric key has documented bounds: it accepts its ends, and refuses what is beyond them in three lines."""

from __future__ import annotations

import copy
import math
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ludus.config.describe import numbers_in, section_in
from ludus.config.language import RewardsConfig
from ludus.config.loading import load_config
from ludus.config.registry import LANGUAGE, algorithm_names, find_algorithm
from ludus.config.schedule import MAX_STEPS, Bounds, Schedule, bounds_in
from ludus.config.schema import TrainerConfig
from ludus.config.when import When
from ludus.errors import ConfigError, shortened
from ludus.language.algorithms.rewards import FINAL_TRANSFORMS, STEP_TRANSFORMS, Transforms
from ludus.language.algorithms.sampling import SAMPLING

BASE: dict[str, Any] = {
    "env": {"id": "CartPole-v1"},
    "mirror": {"url": "file:///backup"},
    "games": {"train": [{"id": "TicTacToe-v0"}], "eval": [{"id": "TicTacToe-v0"}]},
    "league": {"opponents": "fixed", "train": ["random"]},
}
FAR = (2**63, 10**30, 10**5000, 1e30, 1e308, math.nan, math.inf, -(2**63), -1e308, -math.inf)
TRANSFORMS: dict[str, Any] = {"final": FINAL_TRANSFORMS, "step": STEP_TRANSFORMS, "sampling": SAMPLING}
ALGORITHMS = [(name, engine) for engine in ("native", LANGUAGE, "sb3") for name in algorithm_names(engine)]


def numeric_keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """(path, kind, bounds, annotation) of every number that a section and those in it hold."""
    for name, field in model.model_fields.items():
        section = section_in(field.annotation)
        if section is not None and path + (name,) != ("hyperparams",):
            yield from numeric_keys(section, (*path, name))
        elif section is None:
            for kind, bounds in numbers_in(field.annotation, field.metadata):
                yield (*path, name), kind, bounds, str(field.annotation)


KEYS = list(numeric_keys(TrainerConfig))


def inside(kind: type, bounds: Bounds) -> list[Any]:
    """The lowest and the highest value accepted."""
    step = _just_after if kind is int else math.nextafter
    low = step(bounds.low, math.inf) if bounds.above else bounds.low
    high = step(bounds.high, -math.inf) if bounds.below else bounds.high
    return [low, high]


def beyond(kind: type, bounds: Bounds) -> list[Any]:
    """Values just beyond each end, and far beyond."""
    step = _just_after if kind is int else math.nextafter
    low = bounds.low if bounds.above else step(bounds.low, -math.inf)
    high = bounds.high if bounds.below else step(bounds.high, math.inf)
    return [low, high, *(value for value in FAR if value not in bounds)]


def _just_after(value: int, towards: float) -> int:
    return value + (1 if towards > value else -1)


def config_with(path: tuple[str, ...], annotation: str, value: Any) -> dict[str, Any]:
    """A config with `value` at `path`, in the list or mapping where the key takes one."""
    data = copy.deepcopy(BASE)
    node: Any = data
    for part in path[:-1]:
        node = node.setdefault(part, {})
        node = node[0] if isinstance(node, list) else node
    if "dict[" in annotation:
        value = [{"random": value}]
    elif annotation.startswith("tuple["):
        value = [value, value]
    node[path[-1]] = value
    return data


def check_refused(error: ConfigError, key: str) -> None:
    what, where, fix = str(error).split("\n")
    assert key in what and where.strip().startswith("where: ") and len(fix.strip()) > len("fix:   ")
    assert len(str(error)) < 900


@pytest.mark.parametrize(
    ("path", "kind", "bounds", "annotation"), KEYS, ids=lambda v: ".".join(v) if isinstance(v, tuple) else ""
)
def test_a_config_key_accepts_its_ends_and_refuses_what_is_beyond(
    path: tuple[str, ...], kind: type, bounds: Bounds | None, annotation: str
) -> None:
    if kind is When:
        bounds = Bounds(1, MAX_STEPS)
        kind = int
    assert bounds is not None and math.isfinite(bounds.low) and math.isfinite(bounds.high)
    for value in inside(kind, bounds):
        TrainerConfig.model_validate(config_with(path, annotation, value))
    for value in beyond(kind, bounds):
        with pytest.raises(ConfigError) as caught:
            load_config(flags=config_with(path, annotation, value))
        check_refused(caught.value, path[-1])


@pytest.mark.parametrize(("algorithm", "engine"), ALGORITHMS)
def test_a_hyperparameter_accepts_its_ends_and_refuses_what_is_beyond(algorithm: str, engine: str) -> None:
    model = find_algorithm(algorithm, engine).hyperparameters
    assert model is not None
    section: dict[str, Any] = {"language": {}} if engine == LANGUAGE else {"engine": engine}
    for name, field in model.model_fields.items():
        for kind, bounds in numbers_in(field.annotation, field.metadata):
            assert bounds is not None and math.isfinite(bounds.low) and math.isfinite(bounds.high), name
            in_shape = _shape(name, str(field.annotation))
            for value in inside(kind, bounds):
                model.model_validate({name: in_shape(value)})
            for value in beyond(kind, bounds):
                data = {"algorithm": algorithm, "hyperparams": {name: in_shape(value)}, **section}
                with pytest.raises(ConfigError) as caught:
                    load_config(flags=data | {"games": BASE["games"]} if engine == LANGUAGE else data)
                check_refused(caught.value, f"hyperparams.{name}")


def _shape(name: str, annotation: str) -> Any:
    if name == "action_noise":
        return lambda value: {"normal": value}
    in_a_list = annotation.startswith(("tuple[", "typing.Optional[tuple", "list["))
    return (lambda value: [value]) if in_a_list else lambda value: value


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group in TRANSFORMS for name in TRANSFORMS[group]]
)
def test_the_settings_of_a_reward_transform_are_bounded(group: str, name: str) -> None:
    for setting, field in TRANSFORMS[group][name].model_fields.items():
        for kind, bounds in numbers_in(field.annotation, field.metadata):
            assert bounds is not None and math.isfinite(bounds.low) and math.isfinite(bounds.high)
            for value in beyond(kind, bounds):
                with pytest.raises(ConfigError):
                    Transforms(RewardsConfig.model_validate({group: [{name: {setting: value}}]}))


@pytest.mark.parametrize(
    "written", ["1e16", "1e15 h", "11 years", "88_000 h", "1e-5 s", "0.0001 s", "1e400 updates"]
)
def test_an_interval_in_text_is_bounded(written: str) -> None:
    with pytest.raises(ConfigError, match=r"total_timesteps: (must be|expected)"):
        load_config(overrides=["env=CartPole-v1", f"total_timesteps={written!r}"])


@pytest.mark.parametrize("written", ["0.1 B/s", "2000 GB/s", "9e9 GB/s", f"{'9' * 400} GB/s"])
def test_a_bandwidth_is_bounded(written: str) -> None:
    with pytest.raises(ConfigError, match=r"mirror\.bandwidth"):
        load_config(flags={"mirror": {"url": "file:///backup", "bandwidth": written}})


REFUSED = {
    "whole number, one below": ["n_envs=0"],
    "whole number, one above": ["n_envs=1000001"],
    "whole number, below an open end": ["seed=2147483648"],
    "number, just above": ["hyperparams.gamma=1.0000001"],
    "not a number": ["hyperparams.ent_coef=.nan"],
    "schedule": ["hyperparams.learning_rate={linear: [1.8e19, 0]}"],
    "entry of a list": ["hyperparams.policy_net_arch=[64, 0]"],
    "interval": ["checkpoint.every=1e-5 s"],
    "option": ["--steps", "1e30"],
}
"""One real command for each kind of bound; the tests above try every key in this process."""
_CPU_SECONDS = 5.0  # of processor time, which does not depend on what else the machine does


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_the_command_refuses_a_value_beyond_its_bounds_at_once_and_writes_nothing(
    tmp_path: Path, words: list[str]
) -> None:
    desk, home = tmp_path / "desk", tmp_path / "home"
    desk.mkdir()
    home.mkdir()
    places = {name: str(home) for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "ludus", "train", "--algo", "ppo", "--env", "CartPole-v1", *words],
        cwd=desk,
        env=os.environ | places,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    key = words[0].partition("=")[0]
    assert [line[:9] for line in lines] == [f"error: {key}"[:9], "  where: ", "  fix:   "], done.stderr
    assert lines[0].startswith(f"error: {key}") and key in lines[2] and not done.stdout
    assert not [*desk.iterdir(), *home.iterdir()]
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    assert used < _CPU_SECONDS, f"{used:.1f} s"


def schema_numbers(node: Any, definitions: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all numbers in a JSON schema, found without Ludus's own code that reads the models."""
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    if node.get("type") in ("integer", "number"):
        yield path
    inner = [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
    inner += [node[name] for name in ("items", "additionalProperties") if isinstance(node.get(name), dict)]
    inner += [*node.get("prefixItems", ())]
    for part in inner:
        yield from schema_numbers(part, definitions, path)
    for name, part in node.get("properties", {}).items():
        yield from schema_numbers(part, definitions, (*path, name))


def test_every_number_that_a_config_can_hold_is_tried_at_beyond_and_far_beyond_its_bounds() -> None:
    schema = TrainerConfig.model_json_schema()
    found = {path for path in schema_numbers(schema, schema["$defs"]) if path[0] != "hyperparams"}
    assert found == {path for path, *_ in KEYS}
    for path, kind, bounds, _ in KEYS:
        limits = Bounds(1, MAX_STEPS) if kind is When else bounds
        tried = beyond(int if kind is When else kind, limits)
        assert all(value in limits for value in inside(int if kind is When else kind, limits)), path
        assert not any(value in limits for value in tried), path
        far = 1e15 * max(abs(limits.low), abs(limits.high), 1)
        assert any(value < limits.low for value in tried[:2]) or limits.above, path
        assert any(value > limits.high for value in tried[:2]) or limits.below, path
        assert any(value > far for value in tried) and any(value < -far for value in tried), path


def test_a_value_of_any_size_can_be_shown() -> None:
    assert shortened(10**6000) == "a number with thousands of digits"
    assert len(shortened("x" * 1000)) == 80


def test_bounds_read_as_a_config_writes_them() -> None:
    assert str(Bounds(1, 1_000_000)) == "from 1 to 1_000_000"
    assert str(Bounds(0, 1e9, above=True)) == "above 0, at most 1e9"
    assert str(Bounds(0, 1, below=True)) == "from 0 to below 1"
    assert str(Bounds(-1e15, 0.001)) == "from -1e15 to 0.001"
    assert bounds_in([]) is None
    assert [kind for kind, _ in numbers_in(Schedule | None)] == [Schedule]
