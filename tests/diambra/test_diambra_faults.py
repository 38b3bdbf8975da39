"""An engine that dies, hangs, sends invalid answers or refuses is named with its address; the others continue."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from running_engines import Start

from ludus.envs.make import EnvSpec, make_env, make_vectorized_env
from ludus.envs.vector.remote import RemoteVectorEnv
from ludus.errors import SimulatorLost
from ludus.games.diambra.standin.server import EngineStandIn, Serving

KWARGS: dict[str, Any] = {
    "frame_shape": [36, 36, 1],
    "difficulty": 3,
    "wrappers_settings": {"scale": True, "role_relative": True, "process_discrete_binary": True},
}
SPEC = EnvSpec("diambra/sfiii3n", KWARGS)
ACTIONS = np.zeros((2, 2), dtype=np.int64)


class Spoiled(EngineStandIn):
    """Engine stand-in that corrupts its answers to steps with the function `spoil`."""

    def __init__(self, spoil: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self.spoil = spoil
        self.well = True

    def Step(self, request: Any, context: Any) -> Any:
        answer = super().Step(request, context)
        return answer if self.well else self.spoil(answer)


def _hang(answer: bytes) -> bytes:
    time.sleep(3.0)
    return answer


def _two_frames(answer: bytes) -> bytes:
    from diambra.engine import model

    response = model.StepResetResponse.FromString(answer)
    response.observation.frame *= 2
    return bytes(response.SerializeToString())


def _no_such_character(answer: bytes) -> bytes:
    from diambra.engine import model

    response = model.StepResetResponse.FromString(answer)
    for side in (model.RamStatesCategories.P1, model.RamStatesCategories.P2):
        states = response.observation.ram_states_categories[side].ram_states
        states[model.RamStates.Value("character")] = 2_000_000
    return bytes(response.SerializeToString())


@pytest.mark.parametrize(
    ("spoil", "how"),
    [
        (_hang, "hangs: it did not answer in time"),
        (lambda answer: b"\xff\xff garbage", "sent an invalid answer"),
        (lambda answer: answer[: len(answer) // 2], "sent an invalid answer"),
        (_two_frames, "sent an invalid answer: ValueError: cannot reshape"),
        (_no_such_character, "sent an invalid answer: IndexError"),
    ],
)
def test_a_spoiled_answer_names_the_engine_and_what_to_check(
    spoil: Callable[[bytes], bytes], how: str, start: Start
) -> None:
    standin = Spoiled(spoil)
    (engine,) = start(standin)
    env = make_env(SPEC.id, kwargs={**KWARGS, "grpc_timeout": 1})
    env.reset(seed=1)
    env.step([0, 0])
    standin.well = False
    with pytest.raises(SimulatorLost) as caught:
        env.step([0, 0])
    assert how in caught.value.what and f"engine 0 at {engine.address}" in caught.value.what
    assert engine.address in caught.value.where and "docker ps" in caught.value.fix
    standin.well = True
    env.close()


class SpoiledStart(EngineStandIn):
    """Spoils the answer to the very first call."""

    def __init__(self, spoil: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self.spoil = spoil

    def EnvInit(self, request: Any, context: Any) -> Any:
        return self.spoil(super().EnvInit(request, context).SerializeToString())


def _huge_frames(answer: bytes) -> bytes:
    from diambra.engine import model

    response = model.EnvInitResponse.FromString(answer)
    response.frame_shape.h = response.frame_shape.w = 2**30
    return bytes(response.SerializeToString())


@pytest.mark.parametrize(
    ("spoil", "how"),
    [
        (_hang, "hangs: it did not answer in time"),
        (lambda answer: b"\xff\xff garbage", "sent an invalid answer"),
        (lambda answer: b"", "sent an invalid answer"),
        (lambda answer: answer + bytes(5_000_000), "sent an invalid answer"),
        (_huge_frames, "sent an invalid answer: frames of 1073741824 x 1073741824"),
    ],
)
def test_an_engine_that_is_broken_from_the_start_is_named_too(
    spoil: Callable[[bytes], bytes], how: str, start: Start
) -> None:
    (engine,) = start(SpoiledStart(spoil))
    with pytest.raises(SimulatorLost) as caught:
        make_env(SPEC.id, kwargs={**KWARGS, "grpc_timeout": 1})
    assert how in caught.value.what and f"engine 0 at {engine.address}" in caught.value.what


def test_an_engine_that_dies_is_gone(start: Start) -> None:
    (engine,) = start(1)
    env = make_env(SPEC)
    env.reset(seed=1)
    engine.close()
    with pytest.raises(SimulatorLost, match=r"is not available|refused"):
        env.step([0, 0])
    env.close()


def test_missing_engine_and_other_server_give_different_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.games.diambra.engines._GRACE_SECONDS", 0.1)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        monkeypatch.setenv("DIAMBRA_ENVS", address)
        with pytest.raises(SimulatorLost, match=f"at {address} cannot be reached"):
            make_env(SPEC)
        nobody.listen()
        with pytest.raises(SimulatorLost, match="does not speak the engine's protocol"):
            make_env(SPEC.id, kwargs={**KWARGS, "grpc_timeout": 1})


def test_an_engine_with_another_game_refuses_and_says_which_it_plays(start: Start) -> None:
    start(EngineStandIn("doapp"))
    with pytest.raises(SimulatorLost, match="this stand-in engine plays only doapp, got sfiii3n"):
        make_env(SPEC)


@pytest.fixture
def pair(start: Start) -> Iterator[tuple[RemoteVectorEnv, list[Serving]]]:
    engines = start(2)
    envs = make_vectorized_env(SPEC, 2, "process", first_pause=0.05, attempts=5)
    assert isinstance(envs, RemoteVectorEnv)
    envs.reset(seed=1)
    yield envs, engines
    envs.close()


def test_the_other_engine_plays_on_and_a_restarted_one_is_taken_up_again(
    pair: tuple[RemoteVectorEnv, list[Serving]],
) -> None:
    envs, engines = pair
    port = int(engines[1].address.rpartition(":")[2])
    engines[1].close()
    *_, infos = envs.step(ACTIONS)
    assert infos["dropped"].tolist() == [False, True]
    engines[1] = Serving(EngineStandIn(), port=port)
    deadline = time.monotonic() + 60
    while envs.away:
        assert time.monotonic() < deadline
        before = engines[0].standin.counts["Step"]
        envs.step(ACTIONS)
        assert engines[0].standin.counts["Step"] == before + 1
    envs.step(ACTIONS)
    assert engines[1].standin.counts["Step"] == 1
