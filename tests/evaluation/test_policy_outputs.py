"""Policy outputs: values and weights are those of the networks, and reading them changes nothing."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from ludus.config.schema import TrainerConfig
from ludus.envs.masks import ActionMaskWrapper
from ludus.evaluation.evaluate import EpisodeState, choose
from ludus.evaluation.load import RandomBot, new_learner
from ludus.evaluation.policy_outputs import PolicyOutput, PolicyProbe

SMALL: dict[str, Any] = {"policy_net_arch": [8], "value_net_arch": [8]}


def policy_for(env: Any, algorithm: str = "PPO", engine: str = "native", **hyperparams: Any) -> Any:
    torch.manual_seed(3)
    no_value_net = algorithm in ("QR-DQN", "ARS") or (engine, algorithm) == ("sb3", "DQN")
    nets = {"policy_net_arch": [8]} if no_value_net else SMALL
    config = TrainerConfig(
        env="CartPole-v1", algorithm=algorithm, engine=engine, hyperparams={**nets, **hyperparams}
    )
    return new_learner(config, env.observation_space, env.action_space).policy.eval()


class Played(gym.Env[Any, Any]):
    """Ends after five steps; any observation and action space."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, observation: Any, action: Any, masked: bool = False) -> None:
        self.observation_space, self.action_space, self.masked = observation, action, masked
        self.observation_space.seed(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.age = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.age += 1
        return self.observation_space.sample(), 1.0, self.age == 5, False, {}

    def action_masks(self) -> Any:
        return np.array([True, False, True]) if self.masked else None

    def render(self) -> Any:
        return np.full((40, 60, 3), 40 * self.age, np.uint8)


BOX = spaces.Box(-1, 1, (4,), np.float32)
TORQUES = spaces.Box(-2, 2, (2,), np.float32)


def test_actor_critic_outputs_are_value_and_probabilities() -> None:
    env = Played(BOX, spaces.Discrete(3))
    policy = policy_for(env)
    game = EpisodeState(env, 0)
    with torch.no_grad():
        distribution, value = policy(policy.prepare(game.obs[None]))
    output = PolicyProbe(policy).inspect(game)
    assert output.value == pytest.approx(float(value[0])) and output.weighing == "probability"
    assert output.weights == pytest.approx(distribution.log_probs[0].exp().tolist())
    scaled = PolicyProbe(policy, 3.0).inspect(game)
    assert scaled.value == pytest.approx(3 * float(value[0])) and scaled.weights == output.weights
    assert PolicyProbe(policy, None).inspect(game) == output  # a scale that nobody knows


def test_masked_actions_have_zero_probability() -> None:
    env = ActionMaskWrapper(Played(BOX, spaces.Discrete(3), masked=True))
    output = PolicyProbe(policy_for(env)).inspect(EpisodeState(env, 0))
    assert output.weights is not None and output.weights[1] == 0.0 and sum(output.weights) == pytest.approx(1)
    values = PolicyProbe(policy_for(env, "DQN")).inspect(EpisodeState(env, 0))
    assert values.weights is not None and np.isnan(values.weights[1])


def test_dqn_outputs_are_q_values() -> None:
    env = Played(BOX, spaces.Discrete(3))
    policy = policy_for(env, "DQN")
    game = EpisodeState(env, 0)
    expected = policy.q_values(policy.prepare(game.obs[None]))[0].tolist()
    assert PolicyProbe(policy, 2.0).inspect(game) == PolicyOutput(
        pytest.approx(2 * max(expected)), pytest.approx([2 * q for q in expected]), "value"
    )


def test_sac_value_is_the_minimum_of_the_critics() -> None:
    env = Played(BOX, TORQUES)
    policy = policy_for(env, "SAC")
    game = EpisodeState(env, 0)
    obs = policy.prepare(game.obs[None])
    lower = min(float(q) for q in policy.critics(obs, policy.distribution(obs).mode()))
    assert PolicyProbe(policy).inspect(game) == PolicyOutput(pytest.approx(lower))


def test_bot_has_no_outputs() -> None:
    env = Played(BOX, spaces.Discrete(3))
    assert PolicyProbe(RandomBot(env.action_space)).inspect(EpisodeState(env, 0)) == PolicyOutput()


@pytest.mark.parametrize("algorithm", ["PPO", "DQN", "SAC"])
def test_inspecting_draws_no_random_numbers_and_keeps_training_mode(algorithm: str) -> None:
    env = Played(BOX, TORQUES if algorithm == "SAC" else spaces.Discrete(3))
    policy = policy_for(env, algorithm).train()
    modes = [module.training for module in policy.modules()]
    before = torch.get_rng_state()
    PolicyProbe(policy).inspect(EpisodeState(env, 0))
    assert torch.equal(before, torch.get_rng_state())
    assert [module.training for module in policy.modules()] == modes


@pytest.mark.parametrize(
    ("actions", "weights"),
    [(spaces.MultiDiscrete([2, 3]), 5), (spaces.MultiBinary(4), 4), (TORQUES, None)],
)
@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_ppo_has_probabilities_for_every_action_space(engine: str, actions: Any, weights: int | None) -> None:
    if engine == "sb3":
        pytest.importorskip("stable_baselines3")
    env = Played(spaces.Dict({"a": BOX, "b": spaces.Discrete(3)}), actions)
    output = PolicyProbe(policy_for(env, engine=engine)).inspect(EpisodeState(env, 0))
    assert output.value is not None
    assert (None if output.weights is None else len(output.weights)) == weights


DISCRETE = ("PPO", "A2C", "TRPO", "DQN", "QR-DQN", "RecurrentPPO", "MaskablePPO", "ARS")


@pytest.mark.parametrize("algorithm", [*DISCRETE, "SAC", "TD3", "DDPG", "TQC", "CrossQ"])
def test_every_sb3_policy_has_outputs(algorithm: str) -> None:
    pytest.importorskip("sb3_contrib")
    env: Any = Played(
        BOX, spaces.Discrete(3) if algorithm in DISCRETE else TORQUES, algorithm == "MaskablePPO"
    )
    if algorithm == "MaskablePPO":
        env = ActionMaskWrapper(env)
    policy = policy_for(env, algorithm, "sb3")
    probe, game = PolicyProbe(policy), EpisodeState(env, 0)
    statistics = {name: value.clone() for name, value in policy.state_dict().items()}
    policy.train()  # as during training, when CrossQ's layers update their statistics
    first = probe.inspect(game)
    policy.eval()
    game.step(choose(policy, [game])[0])  # a recurrent one now has a memory
    second = probe.inspect(game)
    assert (first.value is None) == (algorithm in ("RecurrentPPO", "ARS"))
    assert (first.weights is None) == (algorithm not in DISCRETE or algorithm == "ARS")
    if first.weights is not None and first.weighing == "probability":
        assert sum(second.weights or ()) == pytest.approx(1.0, abs=1e-5)
    assert all(torch.equal(value, statistics[name]) for name, value in policy.state_dict().items())


def test_recurrent_policy_outputs_depend_on_its_memory() -> None:
    pytest.importorskip("sb3_contrib")
    env = Played(BOX, spaces.Discrete(3))
    policy = policy_for(env, "RecurrentPPO", "sb3")
    game = EpisodeState(env, 0)
    choose(policy, [game])
    remembering = PolicyProbe(policy).inspect(game)
    game.memory = None
    assert PolicyProbe(policy).inspect(game).weights != remembering.weights
