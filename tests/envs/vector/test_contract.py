"""Each vector backend has the abilities that it inherits from `contract.py`, and no others."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from vector_envs import Counting, Stateful

from ludus.envs.make import EnvSpec
from ludus.envs.vector.batched import BatchedVectorEnv
from ludus.envs.vector.contract import (
    AsyncStepping,
    ChecksFinite,
    LazyFinalInfos,
    Snapshotting,
    VectorBackend,
    WritesInPlace,
)
from ludus.envs.vector.pool import EnvPoolVectorEnv, is_installed
from ludus.envs.vector.process import ProcessVectorEnv
from ludus.envs.vector.remote import RemoteVectorEnv
from ludus.envs.vector.serial import SerialVectorEnv
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.vector import BalatroVectorEnv
from ludus.games.unity.vector import UnityVectorEnv
from ludus.rollout.stepper import Stepper

ABILITIES = (AsyncStepping, LazyFinalInfos, ChecksFinite, WritesInPlace, Snapshotting)
BACKENDS: dict[type, set[type]] = {
    SerialVectorEnv: set(),
    ProcessVectorEnv: set(),
    RemoteVectorEnv: set(),
    BatchedVectorEnv: set(),
    UnityVectorEnv: set(),
    EnvPoolVectorEnv: {AsyncStepping},
    BalatroVectorEnv: set(ABILITIES),
}
METHODS = {
    AsyncStepping: ("step_async", "step_wait"),
    LazyFinalInfos: ("final_infos",),
    ChecksFinite: ("finite",),
    WritesInPlace: ("write_into",),
    Snapshotting: ("save_games", "load_games"),
}


def balatro(n_envs: int = 4) -> BalatroVectorEnv:
    return BalatroVectorEnv(n_envs, BalatroSettings(actions="moves", max_hand=8), threads=1)


def first_legal(infos: dict[str, Any]) -> Any:
    return infos["action_mask"].argmax(axis=1)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.__name__)
def test_a_backend_has_the_methods_of_the_contracts_it_inherits_and_no_others(backend: type) -> None:
    assert issubclass(backend, VectorBackend)
    assert {ability for ability in ABILITIES if issubclass(backend, ability)} == BACKENDS[backend]
    for ability, names in METHODS.items():
        assert all(hasattr(backend, name) for name in names) == issubclass(backend, ability)


@pytest.mark.parametrize("ability", [AsyncStepping, LazyFinalInfos, WritesInPlace, Snapshotting])
def test_a_class_that_lacks_a_method_of_its_contract_cannot_be_built(ability: type) -> None:
    class Incomplete(VectorBackend, ability):  # type: ignore[misc, valid-type]
        pass

    with pytest.raises(TypeError, match="abstract"):
        Incomplete()


@pytest.mark.parametrize(
    "backend",
    ["balatro", pytest.param("envpool", marks=pytest.mark.skipif(not is_installed(), reason="extra"))],
)
def test_step_async_and_step_wait_give_the_result_of_step(backend: str) -> None:
    pair: list[Any] = (
        [balatro(), balatro()]
        if backend == "balatro"
        else [EnvPoolVectorEnv(EnvSpec("CartPole-v1"), 4) for _ in range(2)]
    )
    for envs in pair:
        _, infos = envs.reset(seed=3)
    actions = first_legal(infos) if "action_mask" in infos else np.array([0, 1, 0, 1])
    pair[0].step_async(actions)
    for halves, whole in zip(pair[0].step_wait()[:4], pair[1].step(actions)[:4], strict=True):
        np.testing.assert_array_equal(halves, whole)
    for envs in pair:
        envs.close()


def test_final_infos_are_those_that_step_returns() -> None:
    envs, other = balatro(64), balatro(64)
    for one in (envs, other):
        _, infos = one.reset(seed=3)
    for _ in range(2000):
        actions = first_legal(infos)
        envs.step_async(actions)
        _, _, terminated, truncated, infos = envs.step_wait()
        assert "final_obs" not in infos
        whole = other.step(actions)[4]
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            final = envs.final_infos(ended)
            for index in ended:
                np.testing.assert_array_equal(final["final_obs"][index], whole["final_obs"][index])
                assert final["final_info"]["balatro"][index] == whole["final_info"]["balatro"][index]
            return
    raise AssertionError("no episode ended")


def test_finite_is_false_after_a_step_with_a_number_that_is_not() -> None:
    envs = balatro()
    _, infos = envs.reset(seed=3)
    envs.step(first_legal(infos))
    assert envs.finite
    envs.games.f[1] = np.nan
    _, _, _, _, infos = envs.step(first_legal(envs.restore(envs.snapshot())[1]))
    assert not envs.finite


def test_write_into_makes_the_next_step_return_the_given_arrays() -> None:
    envs = balatro()
    obs, infos = envs.reset(seed=3)
    own_obs, own_mask = np.empty_like(obs), np.empty_like(infos["action_mask"])
    envs.write_into(own_obs, own_mask)
    obs, _, _, _, infos = envs.step(first_legal(infos))
    assert obs is own_obs and infos["action_mask"] is own_mask


def test_loaded_games_continue_like_the_saved_ones() -> None:
    envs, other = balatro(), balatro()
    _, infos = envs.reset(seed=3)
    _, _, _, _, infos = envs.step(first_legal(infos))
    _, loaded = other.load_games(*envs.save_games())
    np.testing.assert_array_equal(loaded["action_mask"], infos["action_mask"])
    actions = first_legal(infos)
    np.testing.assert_array_equal(envs.step(actions)[0], other.step(actions)[0])


@pytest.mark.parametrize("backend", [SerialVectorEnv, ProcessVectorEnv])
def test_rebuilt_envs_are_new_and_keep_wrapper_states(backend: type) -> None:
    envs = backend([lambda: Stateful(Counting())] * 2, env_id="Counting-v0")
    envs.reset(seed=1)
    envs.load_wrapper_states([[{"level": 3}], [{"level": 4}]])
    envs.set_attr("mark", 7)
    envs.rebuild()
    assert envs.wrapper_states() == [[{"level": 3}], [{"level": 4}]]
    with pytest.raises(Exception, match="mark"):
        envs.get_attr("mark")
    assert (envs.env_id, envs.seeded, envs.take_metrics()) == ("Counting-v0", True, {})
    envs.close()


def test_a_foreign_vector_env_is_stepped_without_any_ability() -> None:
    envs = SyncVectorEnv([partial(gym.make, "CartPole-v1")] * 2)
    stepper = Stepper(envs, lambda number, index: index)
    assert stepper.backend is None and not stepper.can_save_games
    stepper.barrier(0)
    assert stepper.step(np.zeros(2, dtype=np.int64)).valid.all()
    envs.close()
