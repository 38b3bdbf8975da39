"""Every backend is a complete `gymnasium.vector.VectorEnv`; Gymnasium's own SyncVectorEnv is the reference."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from vector_envs import AnySpace, Calamity, Counting, DictObs, Raises

from ludus.envs.curriculum import CurriculumWrapper
from ludus.envs.make import EnvSpec, make_env, make_vectorized_env
from ludus.envs.vector.batched import BatchedVectorEnv
from ludus.envs.vector.pool import EnvPoolVectorEnv, is_installed
from ludus.envs.vector.process import ProcessVectorEnv
from ludus.envs.vector.remote import RemoteVectorEnv
from ludus.envs.vector.serial import SerialVectorEnv
from ludus.envs.wrappers import EnvironmentWrapper
from ludus.errors import EnvFault, UserError, fault_class
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.vector import BalatroVectorEnv

ONE_WORKER = partial(ProcessVectorEnv, n_workers=1)
WITHOUT_ROWS: dict[str, spaces.Space[Any]] = {
    "tuple": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))]),
    "text": spaces.Text(6),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(4)),
    "sequence": spaces.Sequence(spaces.Dict(a=spaces.Box(0, 1, (3,)), b=spaces.Discrete(5)), stack=True),
    "one of": spaces.OneOf([spaces.Discrete(3), spaces.Box(0, 1)]),
    "nested dict": spaces.Dict(
        a=spaces.Dict(b=spaces.Discrete(2), c=spaces.Text(3)), d=spaces.Box(0, 1, (2, 2))
    ),
}
WITH_ROWS: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(4, start=-2),
    "small discrete": spaces.Discrete(n=4, dtype=np.int32, start=1),
    "one number": spaces.Box(0, 1, ()),
    "half": spaces.Box(-1, 1, (3,), np.float16),
    "bools": spaces.Box(0, 1, (3,), np.bool_),
    "choices": spaces.MultiDiscrete([[2, 3], [3, 2]], start=[[10, 20], [30, 40]]),
    "bits": spaces.MultiBinary([2, 3]),
    "flat dict": spaces.Dict(a=spaces.Discrete(3), b=spaces.MultiBinary(2)),
}
MODES = list(AutoresetMode)


def play_both(own: Any, theirs: Any, steps: int, *, exact: bool = True) -> None:
    """Play two vector envs with the same actions; a caller's resets are part of DISABLED."""

    def same(result: Any, expected: Any) -> None:
        assert data_equivalence(result, expected, exact=exact), f"{result}\n{expected}"

    theirs.action_space.seed(7)
    same(own.reset(seed=3), theirs.reset(seed=3))
    for _ in range(steps):
        actions = theirs.action_space.sample()
        result, expected = own.step(actions), theirs.step(actions)
        same(result, expected)
        ended = expected[2] | expected[3]
        if own.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            same(own.reset(options={"reset_mask": ended}), theirs.reset(options={"reset_mask": ended.copy()}))
    own.close()
    theirs.close()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("name", [*WITHOUT_ROWS, *WITH_ROWS])
def test_serial_plays_any_space_in_any_mode_as_gymnasium_does(name: str, mode: AutoresetMode) -> None:
    space = (WITHOUT_ROWS | WITH_ROWS)[name]
    env_fns = [partial(AnySpace, space, length) for length in (2, 3, 5)]
    own = SerialVectorEnv(env_fns, autoreset_mode=mode)
    reference = SyncVectorEnv(env_fns, autoreset_mode=mode)
    assert own.metadata == reference.metadata
    assert own.observation_space == reference.observation_space
    assert own.action_space == reference.action_space
    play_both(own, reference, 12)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_workers_play_spaces_without_rows_as_gymnasium_does(mode: AutoresetMode) -> None:
    space = spaces.Tuple(list(WITHOUT_ROWS.values()))
    env_fns = [partial(AnySpace, space, length) for length in (2, 3, 5)]
    own = ProcessVectorEnv(env_fns, n_workers=2, autoreset_mode=mode.value)
    play_both(own, SyncVectorEnv(env_fns, autoreset_mode=mode), 12)


def test_workers_play_spaces_with_rows_in_next_step_mode_as_gymnasium_does() -> None:
    env_fns = [partial(DictObs, length=length) for length in (2, 3, 5)]
    own = ProcessVectorEnv(env_fns, n_workers=2, autoreset_mode="NextStep")
    play_both(own, SyncVectorEnv(env_fns), 12)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_batched_games_play_in_any_mode_as_gymnasium_does(env_id: str, mode: AutoresetMode) -> None:
    spec = EnvSpec(env_id, max_episode_steps=12)
    own = BatchedVectorEnv(spec, 3, autoreset_mode=mode)
    play_both(own, SyncVectorEnv([spec] * 3, autoreset_mode=mode), 60, exact=False)


def test_disabled_autoreset_refuses_to_step_an_env_that_has_ended() -> None:
    one_step = EnvSpec("CartPole-v1", max_episode_steps=1)
    for envs in (
        SerialVectorEnv([one_step] * 2, autoreset_mode="Disabled"),
        BatchedVectorEnv(one_step, 2, autoreset_mode="Disabled"),
    ):
        with pytest.raises(ResetNeeded) if isinstance(envs, BatchedVectorEnv) else nullcontext():
            envs.reset(options={"reset_mask": np.array([True, False])})
        envs.reset(seed=0)
        envs.step(np.zeros(2, int))
        with pytest.raises(ResetNeeded, match=r"\[0, 1\]"):
            envs.step(np.zeros(2, int))


def backends(n_envs: int = 3) -> dict[str, Any]:
    made = {
        "serial": lambda: SerialVectorEnv([partial(gym.make, "CartPole-v1")] * n_envs),
        "process": lambda: ONE_WORKER([partial(gym.make, "CartPole-v1")] * n_envs),
        "remote": lambda: RemoteVectorEnv([partial(gym.make, "CartPole-v1")] * n_envs),
        "batched": lambda: BatchedVectorEnv(EnvSpec("CartPole-v1"), n_envs),
        "balatro": lambda: BalatroVectorEnv(n_envs, BalatroSettings(actions="moves", max_hand=8), threads=1),
    }
    if is_installed():
        made["envpool"] = lambda: EnvPoolVectorEnv(EnvSpec("CartPole-v1"), n_envs)
    return made


def legal(envs: Any, infos: dict[str, Any]) -> Any:
    return infos["action_mask"].argmax(axis=1) if "action_mask" in infos else np.ones(envs.num_envs, int)


@pytest.mark.parametrize("name", list(backends()))
def test_a_reset_mask_resets_the_named_envs_only_and_seeds_are_known(name: str) -> None:
    envs = backends()[name]()
    obs, infos = envs.reset(seed=5)
    assert envs.np_random_seed == (5, 6, 7)
    stepped, _, _, _, infos = envs.step(legal(envs, infos))
    mask = np.array([True, False, False])
    options = {"reset_mask": mask}
    again, _ = envs.reset(seed=None if name == "envpool" else [5, 50, 60], options=options)
    assert options == {"reset_mask": mask}  # the caller's dict is left alone
    assert not np.array_equal(again[0], stepped[0])
    np.testing.assert_array_equal(again[1:], stepped[1:])
    if name != "envpool":  # takes seeds only when all are reset
        np.testing.assert_array_equal(again[0], obs[0])
    assert envs.np_random_seed == (5, 6, 7)
    for wrong, kind in (
        (mask[:2], ValueError),
        (mask * 1, TypeError),
        (mask & False, ValueError),
        ([True], TypeError),
    ):
        with pytest.raises(kind, match="reset_mask"):
            envs.reset(options={"reset_mask": wrong})
    with pytest.raises(ValueError):
        envs.step(np.zeros(2, int))
    envs.close()
    assert envs.closed
    with pytest.raises(ClosedEnvironmentError):
        envs.reset()


def test_generators_are_those_of_the_envs() -> None:
    envs = SerialVectorEnv([Counting] * 2)
    envs.reset(seed=4)
    assert envs.np_random == tuple(env.np_random for env in envs.envs)
    batched = BatchedVectorEnv(EnvSpec("CartPole-v1"), 2)
    assert len(set(batched.np_random_seed)) == 2  # known before the first reset, as Gymnasium's
    assert batched.np_random == batched.np_random
    assert batched.render() is None


def test_make_names_the_registration_of_the_envs() -> None:
    envs = make_vectorized_env(EnvSpec("CartPole-v1", max_episode_steps=9), 2, backend="serial")
    assert envs.spec is not None and (envs.spec.id, envs.spec.max_episode_steps) == ("CartPole-v1", 9)
    assert repr(envs) == "SerialVectorEnv(CartPole-v1, num_envs=2)"


@pytest.mark.parametrize("make", [SerialVectorEnv, ONE_WORKER], ids=["serial", "process"])
def test_an_error_of_an_env_can_be_caught_by_its_own_class(make: Any) -> None:
    envs = make([partial(Raises, "step")])
    envs.reset(seed=1)
    for _ in range(2):
        envs.step(np.zeros(1, int))
    with pytest.raises(ZeroDivisionError, match="the ball is everywhere") as caught:
        envs.step(np.zeros(1, int))
    assert isinstance(caught.value, EnvFault) and caught.value.exit_code == 3
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own bytes
    assert type(copy) is type(caught.value) and vars(copy) == vars(caught.value)
    with pytest.raises(RuntimeError, match="space of env 1"):
        make([Counting, DictObs])
    envs.close()


def test_a_fault_never_looks_like_a_fault_of_files_or_pipes() -> None:
    for error in (OSError(), TimeoutError(), EOFError(), MemoryError(), SystemExit(0), StopIteration()):
        assert fault_class(error) is EnvFault
    fault = fault_class(KeyError("x"))("it has no x", worker=0, env_id="", seed=None)
    assert isinstance(fault, KeyError) and str(fault).startswith("it has no x\n")
    assert not isinstance(fault, UserError)


def test_close_with_terminate_or_a_timeout_does_not_wait_for_envs_that_hang() -> None:
    for options in ({"terminate": True}, {"timeout": 0.1}):
        envs = ONE_WORKER([partial(Calamity, "hang in close")])
        worker = envs._workers[0]
        envs.close(**options)
        assert envs.closed and worker._process.returncode is not None


class Offset(EnvironmentWrapper):
    """A wrapper with arguments of every kind."""

    def __init__(self, env: gym.Env, by: int, *, sign: int = 1, **rest: Any) -> None:
        super().__init__(env)
        self.by, self.sign, self.rest = by, sign, rest


@pytest.mark.parametrize("actions", ["cards", "moves"])
def test_gymnasiums_checker_accepts_balatro(actions: str) -> None:
    env = make_env("ludus/Balatro-v0", kwargs={"actions": actions, "max_hand": 8})
    check_env(env, skip_render_check=True)


def test_wrapped_envs_can_be_built_again_from_their_spec() -> None:
    spec = EnvSpec("CartPole-v1", frame_stack=2, frame_skip=3, curriculum={"success": 20.0})
    env = Offset(spec(), 4, sign=-1, note="hi")
    again = env.spec.make()
    assert isinstance(again, Offset) and (again.by, again.sign, again.rest) == (4, -1, {"note": "hi"})
    layers = []
    for one in (env, again):
        layers.append([])
        while isinstance(one, gym.Wrapper):
            if not isinstance(one, gym.wrappers.OrderEnforcing):
                layers[-1].append(type(one))
            one = one.env
    assert layers[0] == layers[1] and CurriculumWrapper in layers[0]
    check_env(make_env(spec), skip_render_check=True)
