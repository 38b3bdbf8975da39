"""The document "DIAMBRA Arena Training": its `config.py` trains on stand-in engines, with its folders and messages.

The document describes `config.py` without printing it; `config.py.txt` has every section that it names. Training needs
the extra diambra, which has an environment of its own: `make test-extras`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludus import get_filter_keys
from ludus.config.loading import load_config

CONFIG_PY = (Path(__file__).parents[1] / "data" / "diambra" / "config.py.txt").read_text("utf-8")
SHORTER = {
    '"env_num": 32': '"env_num": 2',
    '"time_steps": 32000000': '"time_steps": 64',
    '"check_freq": 100000': '"check_freq": 32',
    "n_steps = 128": "n_steps = 16",
    '"frame_shape": (84, 84, 1)': '"frame_shape": (36, 36, 1)',
}
with_diambra = pytest.mark.skipif(not importlib.util.find_spec("diambra"), reason="needs the extra diambra")


@pytest.fixture
def two_engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from ludus.games.diambra.standin.server import EngineStandIn, Serving

    running = [Serving(EngineStandIn()) for _ in range(2)]
    monkeypatch.setenv("DIAMBRA_ENVS", " ".join(one.address for one in running))
    yield
    for one in running:
        one.close()


def write_config() -> None:
    text = CONFIG_PY
    for printed, shorter in SHORTER.items():
        assert printed in text
        text = text.replace(printed, shorter)
    Path("config.py").write_text(text, "utf-8")


@with_diambra
@pytest.mark.usefixtures("two_engines")
@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_training_starts_and_resumes_from_the_newest_checkpoint(engine: str, ludus_command: Any) -> None:
    write_config()
    first = ludus_command("train", "config.py", "--engine", engine)
    assert "no run of this config yet: starting one" in first
    (run,) = Path("trained_models").glob("*/*/*")
    assert {"000000000032", "000000000064"} <= {path.name for path in (run / "checkpoints").iterdir()}
    assert list(Path("tensorboard_logs").glob("*/events*")) and list(
        Path("output/logs").glob("*/monitor.csv")
    )

    Path("config.py").write_text(
        Path("config.py").read_text().replace('"time_steps": 64', '"time_steps": 96')
    )
    ludus_command("train", "config.py", "--engine", engine)
    assert list(Path("trained_models").glob("*/*/*")) == [run]
    assert (run / "checkpoints" / "000000000096").is_dir()


def test_every_section_of_config_py_is_read_and_never_run(ludus_command: Any) -> None:
    write_config()
    loaded = load_config("config.py")
    assert loaded.imported is not None
    lost = [remark.key for remark in loaded.imported.lost]
    assert lost == ["wrappers_settings.normalize_reward"]  # `not flatten` is an expression, and reported
    config = loaded.config
    assert config.env is not None and config.env.id == "diambra/sfiii3n"
    assert (config.n_envs, config.total_timesteps.plain(), config.checkpoint_freq) == (2, 64, 32)
    assert config.hyperparams.given()["batch_size"] == 16 * 2 // 8
    assert config.hyperparams.given()["learning_rate"] == {"linear": [5e-5, 2.5e-6]}
    assert not Path("trained_models").exists()  # os.makedirs of the file was not called


def test_filter_keys_depend_on_game_and_flatten() -> None:
    keys = get_filter_keys("sfiii3n", True)
    assert {"stage", "timer", "own_health", "opp_health"} <= set(keys)
    assert get_filter_keys("doapp", True) != keys


def test_a_batch_that_is_not_divisible_is_reported_with_what_to_adjust(ludus_command: Any) -> None:
    write_config()
    text = Path("config.py").read_text("utf-8").replace('"batch_size": batch_size', '"nminibatches": 5')
    Path("config.py").write_text(text, "utf-8")
    with pytest.raises(Exception, match="nminibatches 5 does not divide") as caught:
        load_config("config.py")
    assert "adjust nminibatches or n_steps" in caught.value.fix
