"""Many simulators as one vector env over real sockets: Gymnasium's contract, parallel steps, lending to evaluations."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from standins import playing, unity_spec

from ludus.envs.make import choose_backend, make_env, make_vectorized_env
from ludus.errors import ConfigError, SimulatorsTaken, UserError
from ludus.games.unity.env import UnityEnv
from ludus.games.unity.simulator.client import StandInOptions, UnityStandIn
from ludus.games.unity.vector import UnityVectorEnv


def test_auto_backend_follows_the_gymnasium_vector_contract() -> None:
    with playing(3) as standins:
        spec = unity_spec(standins.port, max_episode_steps=5)
        assert choose_backend(spec, 3) == ("endpoint", "all simulators are stepped at once")
        envs = make_vectorized_env(spec, 3)
        assert isinstance(envs, UnityVectorEnv)
        try:
            obs, infos = envs.reset(seed=1)
            assert envs.observation_space.contains(obs) and infos == {}
            assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
            for number in range(1, 6):
                obs, rewards, terminated, truncated, infos = envs.step(np.zeros((3, 2), np.float32))
                assert rewards.shape == (3,) and rewards.dtype == np.float64
                assert truncated.tolist() == [number == 5] * 3
                assert not terminated.any()
            assert infos["final_info"]["is_success"].tolist() == [False] * 3
            for index in range(3):
                # without motion the final observation equals the previous one; the next episode starts elsewhere
                assert envs.single_observation_space.contains(infos["final_obs"][index])
                assert not np.allclose(infos["final_obs"][index], obs[index])
            with pytest.raises(ValueError, match="shape"):
                envs.step(np.zeros(2))
        finally:
            envs.close()
        with pytest.raises(gym.error.ClosedEnvironmentError):
            envs.reset()


def test_observations_follow_the_actions() -> None:
    with playing(1, obstacles=0) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port), 1)
        envs.reset()
        for _ in range(5):
            obs, *_ = envs.step(np.array([[0.4, 0.2]], np.float32))
        tank = standins.standins[0].yard.tank
        np.testing.assert_allclose(obs[0, 2:4], [tank.speed / 5, tank.turning / 5], rtol=1e-5)
        envs.close()


def test_all_requests_are_sent_before_any_answer_is_awaited() -> None:
    n = 4

    class Held(UnityStandIn):
        """Delays its answer to a step until all simulators have a request: a sequential driver would hang."""

        asked: set[int] = set()  # noqa: RUF012  # shared by all instances
        everyone: asyncio.Event | None = None

        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            relay = asyncio.StreamReader()

            async def hold() -> None:
                while data := await reader.read(65_536):
                    if b"/step" in data:
                        Held.asked.add(self.index)
                        while len(Held.asked) < n:
                            await asyncio.sleep(0.001)
                    relay.feed_data(data)
                relay.feed_eof()

            holding = asyncio.ensure_future(hold())
            try:
                await super().serve(relay, writer)
            finally:
                holding.cancel()

    with playing(n, make=Held) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port), n)
        envs.reset()
        _, _, _, _, infos = envs.step(np.zeros((n, 2), np.float32))
        assert "dropped" not in infos and Held.asked == set(range(n))
        envs.close()


def test_borrowing_a_simulator_drops_only_its_episode() -> None:
    with playing(2) as standins:
        spec = unity_spec(standins.port)
        envs = UnityVectorEnv(spec, 2)
        envs.reset()
        envs.step(np.zeros((2, 2), np.float32))
        env = make_env(spec)
        with pytest.raises(SimulatorsTaken):
            make_env(spec)
        obs, _ = env.reset(seed=0)
        obs, _, terminated, truncated, _ = env.step(np.array([1.0, 0.0], np.float32))
        assert env.observation_space.contains(obs) and not (terminated or truncated)
        _, _, _, _, infos = envs.step(np.zeros((2, 2), np.float32))
        assert infos["dropped"].tolist() == [False, True]
        env.close()
        _, rewards, _, _, infos = envs.step(np.zeros((2, 2), np.float32))
        assert infos["dropped"].tolist() == [False, True] and rewards[1] == 0.0
        *_, infos = envs.step(np.zeros((2, 2), np.float32))
        assert "dropped" not in infos
        envs.close()


def test_single_env_follows_the_gymnasium_contract() -> None:
    with playing(1, "uc2", camera=32) as standins:
        env = make_env(unity_spec(standins.port, "uc2", max_episode_steps=3), render_mode="rgb_array")
        try:
            obs, _ = env.reset(seed=3)
            assert env.observation_space.contains(obs)
            frame = env.render()
            assert isinstance(frame, np.ndarray) and frame.shape == (32, 32, 3)
            ends = [env.step(env.action_space.sample())[3] for _ in range(3)]
            assert ends == [False, False, True]
            with pytest.raises(SimulatorsTaken):
                UnityEnv(**unity_spec(standins.port, "uc2").kwargs)
        finally:
            env.close()


def test_render_without_a_camera_raises() -> None:
    with playing(1) as standins:
        env = make_env(unity_spec(standins.port), render_mode="rgb_array")
        env.reset()
        with pytest.raises(UserError, match="does not send a camera image"):
            env.render()
        env.close()


def test_camera_images_can_be_observed(tmp_path: Any) -> None:
    from test_use_cases import own

    path = own(tmp_path, observation__camera={"height": 24, "width": 20, "gray": True})
    with playing(2, camera=48) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port, path), 2)
        obs, _ = envs.reset()
        assert isinstance(obs, dict)
        assert obs["camera"].shape == (2, 24, 20, 1) and obs["camera"].dtype == np.uint8
        assert obs["camera"].std() > 10 and envs.observation_space.contains(obs)
        obs, *_ = envs.step(np.zeros((2, 2), np.float32))
        assert obs["state"].shape == (2, 25)
        envs.close()


def test_wrappers_select_the_serial_backend() -> None:
    with playing(2) as standins:
        spec = unity_spec(standins.port)
        stacked = type(spec)(spec.id, kwargs=spec.kwargs, frame_stack=2)
        backend, reason = choose_backend(stacked, 2)
        assert backend == "serial" and "wrappers" in reason
        with pytest.raises(ConfigError, match="the lags and the hook"):
            UnityVectorEnv(stacked, 2)
        envs = make_vectorized_env(stacked, 2)
        obs, _ = envs.reset(seed=0)
        assert obs.shape == (2, 50)
        envs.step(np.zeros((2, 2), np.float32))
        envs.close()


def test_simulator_logs_are_buffered_until_the_first_step(caplog: pytest.LogCaptureFixture) -> None:
    with playing(1) as standins, caplog.at_level(logging.INFO, "ludus"):
        envs = UnityVectorEnv(unity_spec(standins.port), 1)
        envs.reset()
        assert "stand-in" not in caplog.text
        envs.step(np.zeros((1, 2), np.float32))
        assert "simulator 0: Ludus's stand-in simulator, not a Unity build" in caplog.text
        envs.close()


def test_every_answer_of_the_standin_identifies_it() -> None:
    standin = UnityStandIn(0, StandInOptions("uc1"))
    from ludus.games.unity.episode import Episode, compile_use_case

    compiled = compile_use_case("uc1")
    raw = standin.answer("reset", Episode(compiled).reset_request(None), 0)
    assert (
        "not a Unity build" in compiled.reset_response.decode(raw)["compressed_image"]["header"]["frame_id"]
    )


def test_latency_is_measured_and_cleared_by_take() -> None:
    with playing(2, latency=0.002) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port), 2)
        envs.reset()
        for _ in range(5):
            envs.step(np.zeros((2, 2), np.float32))
        metrics = envs.take_metrics()
        assert set(metrics) == {
            "time/sim_ms", "time/sim_ms_p50", "time/sim_ms_p95", "time/sim_ms_p99", "time/sim_inside_ms",
            "time/sim_losses",
        }  # fmt: skip
        assert 2.0 <= metrics["time/sim_inside_ms"] <= metrics["time/sim_ms"]
        assert metrics["time/sim_ms_p50"] <= metrics["time/sim_ms_p95"] <= metrics["time/sim_ms_p99"]
        assert envs.take_metrics() == {}
        envs.close()


@pytest.mark.parametrize(
    ("kwargs", "what"),
    [
        ({"use_cas": "uc1"}, "unknown key 'use_cas'.*did you mean 'use_case'"),
        ({"port": 70_000}, "less than or equal to 65535"),
        ({"deadline": 0}, "greater than 0"),
        ({"build": {"headless": True}}, "path"),
        ({"use_case": "uc7"}, "unknown use case 'uc7'"),
    ],
)
def test_settings_are_checked_before_anything_starts(kwargs: dict[str, Any], what: str) -> None:
    import re

    from ludus.envs.make import EnvSpec

    with pytest.raises(UserError) as caught:
        UnityVectorEnv(EnvSpec("ludus/Unity-v0", kwargs=kwargs), 1)
    assert re.search(what, str(caught.value), re.DOTALL)
