"""No input ends in a traceback: configs, checkpoints, frames, answers, templates, files. A million: `make faults`.

Valid inputs are mutated (`fuzz_targets.py`), hypothesis builds configs of known keys, and atheris goes by coverage.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_targets
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ludus.config.loading import load_config
from ludus.config.plain_yaml import write_yaml
from ludus.config.schema import TrainerConfig
from ludus.errors import UserError

_SCRIPT = Path(fuzz_targets.__file__)
# how many cases take tens of seconds at the most; together more than a million
CASES = {
    "config: YAML": 50_000,
    "config: foreign YAML": 15_000,
    "config: Python": 15_000,
    "config: key=value": 20_000,
    "checkpoint reader": 50_000,
    "CDR codec": 300_000,
    "frames of simulators": 200_000,
    "action parser": 200_000,
    "TextArena's tables": 5_000,
    "prompt templates": 180_000,
    "metrics reader": 20_000,
    "zip of Stable-Baselines3": 3_000,
    "adapter": 10_000,
}
BY_COVERAGE = {
    "config: YAML": 5_000,
    "checkpoint reader": 20_000,
    "CDR codec": 60_000,
    "action parser": 60_000,
    "prompt templates": 60_000,
}


def test_the_cases_of_make_faults_are_a_million() -> None:
    assert set(CASES) == set(fuzz_targets.TARGETS)
    assert sum(CASES.values()) + sum(BY_COVERAGE.values()) > 1_000_000


@pytest.mark.parametrize("name", CASES)
def test_few_fuzz_cases_of_each_target_raise_only_expected_errors(
    name: str, record_fault: Callable[..., None]
) -> None:
    target = fuzz_targets.TARGETS[name]()
    assert any(target.run(seed) for seed in target.seeds), "no valid input is among the seeds"
    found = fuzz_targets.fuzz(target, max(100, CASES[name] // 1_000), seed=1)
    record_fault(f"fuzz, {name}", found["cases"], found["cases"] - len(found["broken"]))
    assert found["broken"] == []


@pytest.mark.faults
@pytest.mark.parametrize("name", CASES)
def test_many_fuzz_cases_of_each_target_raise_only_expected_errors(
    name: str, record_fault: Callable[..., None]
) -> None:
    ended = subprocess.run(
        [sys.executable, str(_SCRIPT), name, str(CASES[name]), "2"], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-3_000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    record_fault(f"fuzz, {name}", found["cases"], found["cases"] - len(found["broken"]))
    assert found["broken"] == []
    assert found["cases"] == CASES[name]


@pytest.mark.faults
@pytest.mark.parametrize("name", BY_COVERAGE)
def test_cases_found_by_coverage(name: str, record_fault: Callable[..., None]) -> None:
    pytest.importorskip("atheris", reason="atheris has no wheel for this platform")
    ended = subprocess.run(
        [sys.executable, str(_SCRIPT), "atheris", name, str(BY_COVERAGE[name])],
        capture_output=True,
        text=True,
        errors="replace",
    )
    said = ended.stdout + ended.stderr
    done = re.search(r"Done (\d+) (?:runs|in)", said) or re.search(r"#(\d+)\s+DONE", said)
    cases = int(done[1]) if done else BY_COVERAGE[name]
    record_fault(f"fuzz by coverage, {name}", cases, cases - (ended.returncode != 0))
    assert ended.returncode == 0, said[-4_000:]
    assert cases >= BY_COVERAGE[name]


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["PPO", "CartPole-v1", "5 min", "auto", "../x", "os:system", "1e3", "latest", "\x1b[2J"]),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _sections() -> st.SearchStrategy[dict[str, Any]]:
    """Configs of keys that exist, at the top and in sections, with values of any kind."""
    inner = st.one_of(
        _VALUES,
        *(
            st.dictionaries(st.sampled_from(sorted(part.model_fields)), _VALUES, max_size=3)
            for part in {field.annotation for field in TrainerConfig.model_fields.values()}
            if isinstance(part, type) and hasattr(part, "model_fields")
        ),
    )
    return st.dictionaries(st.sampled_from(sorted(TrainerConfig.model_fields)), inner, max_size=5)


def _load(config: dict[str, Any], folder: Path) -> bool:
    path = folder / "fuzzed.yaml"
    try:
        path.write_text(write_yaml(config), "utf-8")
    except UnicodeEncodeError:  # half a character is nothing that a file could hold
        return False
    try:
        load_config(path)
    except UserError as error:
        assert str(error)  # noqa: PT017
        return False
    return True


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(config=_sections())
def test_known_keys_with_any_value_end_in_no_traceback(
    config: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    _load(config, tmp_path_factory.getbasetemp())


@pytest.mark.faults
def test_many_known_keys_with_any_value(tmp_path: Path, record_fault: Callable[..., None]) -> None:
    tried = 0

    @settings(max_examples=6_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(config=_sections())
    def attack(config: dict[str, Any]) -> None:
        nonlocal tried
        tried += 1
        _load(config, tmp_path)

    attack()
    record_fault("fuzz, config: known keys, by hypothesis", tried, tried)
