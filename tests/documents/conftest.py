"""`ludus …` in this process, in a folder of its own."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium as gym
import pytest

Ludus = Callable[..., str]


@pytest.fixture
def ludus_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Ludus]:
    """`ludus_command("train", "my.yaml")` in `tmp_path`: what it printed; fails with its error message."""
    from ludus.cli.app import main
    from ludus.envs.registration import register_envs

    register_envs()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments: object) -> str:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out + printed.err

    registered = dict(gym.registry)
    yield run
    gym.registry.clear()
    gym.registry.update(registered)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    logger = logging.getLogger("ludus")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
