"""EnvPool's envs behave as Gymnasium's own, behind the same stepper. Needs the extra `envpool`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

pytest.importorskip("envpool", reason="the extra envpool is not installed")

from ludus.config.schema import TrainerConfig
from ludus.envs.make import EnvSpec, choose_backend, make_env, make_vectorized_env
from ludus.envs.vector.pool import VERIFIED, EnvPoolVectorEnv
from ludus.errors import ConfigError, EnvFault
from ludus.rollout.stepper import Stepper
from ludus.training.factory import create_trainer


def play(env_id: str, backend: str, steps: int = 3000) -> tuple[list[Any], np.ndarray]:
    """Episodes and observations of uniformly random play in 8 envs."""
    envs = make_vectorized_env(env_id, 8, backend)
    stepper = Stepper(envs, lambda barrier, index: 1000 * barrier + index)
    stepper.barrier(1)
    rng = np.random.default_rng(0)
    space: Any = envs.single_action_space
    episodes, seen = [], []
    for _ in range(steps):
        if hasattr(space, "n"):
            actions = rng.integers(0, space.n, 8)
        else:
            actions = rng.uniform(space.low, space.high, (8, *space.shape)).astype(np.float32)
        step = stepper.step(actions)
        episodes += step.episodes
        seen.append(stepper.obs)
    envs.close()
    return episodes, np.concatenate(seen)


@pytest.mark.parametrize("env_id", sorted(VERIFIED))
def test_random_play_looks_the_same_on_both(env_id: str) -> None:
    (ours, our_obs), (theirs, their_obs) = play(env_id, "serial"), play(env_id, "envpool")
    for field in ("reward", "length"):
        a = np.array([getattr(episode, field) for episode in ours], dtype=float)
        b = np.array([getattr(episode, field) for episode in theirs], dtype=float)
        error = np.hypot(a.std() / np.sqrt(len(a)), b.std() / np.sqrt(len(b)))
        assert abs(a.mean() - b.mean()) <= 4 * error + 1.5, field
    spread = our_obs.std(axis=0) + 1e-3
    assert np.all(np.abs(our_obs.mean(axis=0) - their_obs.mean(axis=0)) < 0.25 * spread)


@pytest.mark.parametrize(
    ("env_id", "limit"), [("Pendulum-v1", 200), ("MountainCar-v0", 200), ("Acrobot-v1", 500)]
)
def test_a_time_limit_truncates_at_the_same_step(env_id: str, limit: int) -> None:
    envs = make_vectorized_env(env_id, 4, "envpool", seed=0)
    actions = np.zeros((4, *envs.single_action_space.shape), dtype=envs.single_action_space.dtype)
    for t in range(1, limit + 1):
        _, _, terminated, truncated, _ = envs.step(actions)
        assert not terminated.any()
        assert truncated.all() == (t == limit)
    envs.close()


def test_spaces_are_gymnasiums_own() -> None:
    for env_id in VERIFIED:
        envs, env = make_vectorized_env(env_id, 4, "envpool"), make_env(env_id)
        assert envs.single_observation_space == env.observation_space
        assert envs.single_action_space == env.action_space
        envs.close()


def test_a_seeded_reset_repeats() -> None:
    envs = make_vectorized_env("LunarLander-v3", 4, "envpool")
    runs = []
    for _ in range(2):
        obs = [envs.reset(seed=[5, 6, 7, 8])[0]]
        obs += [envs.step(np.array([0, 1, 2, 3]))[0] for _ in range(300)]
        runs.append(np.stack(obs))
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0][0, 0], runs[0][0, 1])
    envs.close()


@pytest.mark.parametrize("env_id", sorted(VERIFIED))
def test_a_step_is_what_envpool_itself_returns(env_id: str) -> None:
    import envpool

    envs: Any = make_vectorized_env(env_id, 4, "envpool")
    envs.reset(seed=[5, 6, 7, 8])
    theirs = envpool.make_gymnasium(env_id, num_envs=4, num_threads=2, seed=[5, 6, 7, 8])
    theirs.reset()
    envs.action_space.seed(0)
    ends = 0
    for _ in range(600):
        actions = envs.action_space.sample()
        dtype = np.int32 if actions.dtype.kind == "i" else np.float32
        step, expected = envs.step(actions), theirs.step(actions.astype(dtype))
        for ours, other in zip(step[:4], expected[:4], strict=True):
            np.testing.assert_array_equal(ours, other)
        ends += int((step[2] | step[3]).sum())
    assert ends
    envs.close()
    theirs.close()


def pair(env_id: str) -> tuple[Any, Any]:
    """Two pools of four envs in the same state."""
    pools: tuple[Any, Any] = (
        make_vectorized_env(env_id, 4, "envpool"),
        make_vectorized_env(env_id, 4, "envpool"),
    )
    for pool in pools:
        pool.reset(seed=3)
    return pools


def test_a_step_that_nobody_ended_is_over_before_the_next() -> None:
    envs, other = pair("CartPole-v1")
    envs.step_async(np.array([0, 1, 0, 1]))  # as when Ctrl-C comes before `step_wait`
    other.step(np.array([0, 1, 0, 1]))
    np.testing.assert_array_equal(envs.step(np.ones(4, int))[0], other.step(np.ones(4, int))[0])
    for seed in (None, 3):
        envs.step_async(np.ones(4, int))
        other.step(np.ones(4, int))
        np.testing.assert_array_equal(envs.reset(seed=seed)[0], other.reset(seed=seed)[0])
    envs.step_async(np.ones(4, int))
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.step(np.ones(4, int))
    other.close()
    with pytest.raises(ResetNeeded):
        EnvPoolVectorEnv(EnvSpec("CartPole-v1"), 4).step(np.ones(4, int))


@pytest.mark.parametrize("reached", [True, False])
def test_an_interrupt_while_a_step_is_sent_spoils_nothing(
    reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, other = pair("LunarLander-v3")
    send, fresh = envs._pool._send, np.array([0, 1, 2, 3])

    def interrupted(given: Any) -> None:
        if reached:
            send(given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(envs._pool, "_send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            envs.step_async(fresh)
    if reached:
        other.step(fresh)
    for _ in range(200):
        for ours, theirs in zip(envs.step(fresh)[:4], other.step(fresh)[:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)
    envs.close()
    other.close()


def test_actions_that_do_not_fit_are_refused_and_those_given_are_copied() -> None:
    envs, other = pair("CartPole-v1")
    with pytest.raises(ValueError, match="shape"):
        envs.step(np.ones(3, int))
    with pytest.raises(TypeError):
        envs.step(np.array([0.0, 1.7, 1.0, 0.0]))
    actions = np.ones(4, np.int32)
    envs.step_async(actions)
    actions[:] = 0
    np.testing.assert_array_equal(envs.step_wait()[0], other.step(np.ones(4, int))[0])
    envs.close()
    other.close()


def test_auto_takes_it_only_for_plain_verified_envs() -> None:
    assert choose_backend("LunarLander-v3", 8)[0] == "envpool"
    assert choose_backend("LunarLander-v3", 2)[0] != "envpool"
    assert choose_backend(EnvSpec("LunarLander-v3", frame_stack=4), 8)[0] != "envpool"
    assert choose_backend("CartPole-v1", 8)[0] == "batched"
    assert choose_backend("FrozenLake-v1", 8)[0] != "envpool"
    with pytest.raises(ConfigError, match="arguments or wrappers"):
        make_vectorized_env(EnvSpec("CartPole-v1", frame_skip=2), 8, "envpool")


@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_resume_is_exact(algorithm: str, tmp_path: Any) -> None:
    def config(name: str) -> TrainerConfig:
        return TrainerConfig(
            algorithm=algorithm,
            env="CartPole-v1",
            n_envs=4,
            vector="envpool",
            total_timesteps=4000,
            run_dir=str(tmp_path / name),
            hyperparams={"policy_net_arch": [16], "value_net_arch": [16]}
            | ({"n_steps": 64, "batch_size": 2} if algorithm == "PPO" else {"learning_starts": 200}),
            checkpoint={"every": 1000, "keep": 0},
            evaluation={"every": 2000, "episodes": 2},
            tracking={"tensorboard": False},
        )

    whole = create_trainer(None, config("whole"))
    result = whole.train()
    whole.close()
    again = create_trainer(None, config("unused"))
    checkpoints = sorted(
        p for p in (result.run / "checkpoints").iterdir() if (p / "learner.safetensors").exists()
    )
    before = {p.name: (p / "learner.safetensors").read_bytes() for p in checkpoints}
    again.resume(result.run, checkpoint=int(checkpoints[0].name))  # type: ignore[attr-defined]
    again.train()
    again.close()
    for name, content in before.items():
        assert (result.run / "checkpoints" / name / "learner.safetensors").read_bytes() == content, name


def test_nan_is_reported_with_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    envs: Any = make_vectorized_env("CartPole-v1", 4, "envpool")
    stepper = Stepper(envs, lambda barrier, index: index)
    stepper.barrier(0)
    step_wait = envs.step_wait

    def spoilt() -> Any:
        obs, *rest = step_wait()
        obs[2, 1] = np.nan
        return obs, *rest

    monkeypatch.setattr(envs, "step_wait", spoilt)
    with pytest.raises(EnvFault, match=r"env 2 gave observation\[1\] = nan at step 1"):
        stepper.step(np.zeros(4, dtype=np.int64))
    envs.close()
