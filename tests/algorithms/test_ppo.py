"""PPO against the paper's objective written out separately, and each of its switches one by one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from learning_setup import (
    assert_all_close,
    differentiate,
    gradients,
    learner,
    parameters,
    rollout,
    same_bytes,
    weights_of,
)
from textbook import actor_critic, advantages, distribution, first_adam_step

from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError
from ludus.rollout.collector import RolloutCollector
from ludus.rollout.stepper import Stepper

ONE_STEP: dict[str, Any] = {"n_epochs": 1, "batch_size": 16, "n_steps": 8}
SPACES = {
    "discrete": spaces.Discrete(3),
    "binary": spaces.MultiBinary(2),
    "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
}


def flat(array: Any) -> torch.Tensor:
    return torch.as_tensor(array.reshape(-1, *array.shape[2:]))


def textbook_loss(
    w: dict[str, torch.Tensor],
    r: Any,
    kind: str = "discrete",
    *,
    clip: float = 0.2,
    clip_vf: float | None = None,
    ent_coef: float = 0.01,
    vf_coef: float = 0.5,
    normalize: bool = True,
) -> torch.Tensor:
    adv, returns = advantages(r, 0.99, 0.95)
    if normalize:
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    outputs, values = actor_critic(w, flat(r.obs))
    pi = distribution(kind, w, outputs, None if r.masks is None else flat(r.masks))
    ratio = torch.exp(pi.log_prob(flat(r.actions)) - flat(r.log_probs))
    surrogate = torch.minimum(ratio * adv, torch.clip(ratio, 1 - clip, 1 + clip) * adv)
    if clip_vf is not None:
        old = flat(r.values)
        values = torch.maximum(torch.minimum(values, old + clip_vf), old - clip_vf)
    error = ((values - returns) ** 2).mean()
    return -surrogate.mean() + vf_coef * error - ent_coef * pi.entropy().mean()


@pytest.mark.parametrize("kind", list(SPACES))
def test_one_update_is_the_papers_gradient_and_one_step_of_adam(kind: str) -> None:
    ppo = learner("PPO", action_space=SPACES[kind], max_grad_norm=None, learning_rate=0.01, **ONE_STEP)
    r = rollout(ppo, drift=0.3)
    w = parameters(ppo.policy)
    loss = textbook_loss(w, r, kind)
    expected = differentiate(loss, w)
    metrics = ppo.update(r, 0.0)
    assert metrics["train/loss"] == pytest.approx(loss.item(), abs=1e-5)
    assert 0.1 < metrics["train/clip_fraction"] < 0.95
    assert_all_close(gradients(ppo.policy), expected, atol=1e-6, rtol=1e-4)
    stepped = first_adam_step(w, gradients(ppo.policy), lr=0.01, eps=1e-5)
    assert_all_close(dict(ppo.policy.named_parameters()), stepped, atol=1e-6, rtol=1e-5)


def test_gradients_are_clipped_to_their_common_norm() -> None:
    ppo = learner("PPO", max_grad_norm=0.05, **ONE_STEP)
    r = rollout(ppo, drift=0.3)
    w = parameters(ppo.policy)
    expected = differentiate(textbook_loss(w, r), w)
    norm = torch.cat([g.flatten() for g in expected.values()]).norm()
    metrics = ppo.update(r, 0.0)
    assert metrics["train/grad_norm"] == pytest.approx(norm.item(), rel=1e-4)
    clipped = {name: g * 0.05 / norm for name, g in expected.items()}
    assert_all_close(gradients(ppo.policy), clipped, atol=1e-6, rtol=1e-3)


def test_masks_are_part_of_the_distribution_that_is_trained() -> None:
    ppo = learner("PPO", max_grad_norm=None, **ONE_STEP)
    masks = np.random.default_rng(1).random((8, 2, 3)) < 0.6
    actions = rollout(ppo).actions
    np.put_along_axis(masks, actions[..., None], True, axis=-1)  # what was played was legal
    r = rollout(ppo, drift=0.2, masks=masks)
    w = parameters(ppo.policy)
    expected = differentiate(textbook_loss(w, r), w)
    ppo.update(r, 0.0)
    assert_all_close(gradients(ppo.policy), expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.5, 1.0, False), (0.5, -1.0, False), (1.5, -1.0, True), (0.5, 1.0, True), (1.1, 1.0, True)],
)
def test_clipping_limits_the_ratio_on_both_sides_and_never_a_step_back(
    ratio: float, advantage: float, moves: bool
) -> None:
    settings = ONE_STEP | {"normalize_advantage": False, "ent_coef": 0.0, "vf_coef": 0.0}
    ppo = learner("PPO", max_grad_norm=None, **settings)
    r = rollout(ppo)
    r.log_probs = r.log_probs - np.float32(np.log(ratio))
    r.ends[:], r.terminated[:] = True, True
    r.rewards = (r.values + advantage).astype(np.float32)
    metrics = ppo.update(r, 0.0)
    clipped = float(np.clip(ratio, 0.8, 1.2))
    expected = -min(ratio * advantage, clipped * advantage)
    assert metrics["train/policy_gradient_loss"] == pytest.approx(expected, abs=1e-5)
    assert metrics["train/clip_fraction"] == (1.0 if abs(ratio - 1) > 0.2 else 0.0)
    size = gradients(ppo.policy)["action_head.linear.weight"].abs().max().item()
    assert size > 1e-3 if moves else size == 0


def test_the_policy_that_played_has_ratio_one_in_the_first_minibatch() -> None:
    envs = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    ppo = learner("PPO", envs.single_observation_space, envs.single_action_space, **ONE_STEP)
    stepper = Stepper(envs, lambda number, index: index)
    stepper.barrier(0)
    collector = ppo.make_collector(stepper)
    assert isinstance(collector, RolloutCollector)
    metrics = ppo.update(collector.collect(ppo.policy), 0.0)
    assert metrics["train/clip_fraction"] == 0
    assert metrics["train/approx_kl"] == pytest.approx(0, abs=1e-6)
    assert metrics["train/policy_gradient_loss"] == pytest.approx(0, abs=1e-6)  # normalised, they sum to zero


def test_every_sample_is_seen_once_per_epoch() -> None:
    ppo = learner("PPO", n_epochs=3, batch_size=4, n_steps=8)
    r = rollout(ppo)
    seen: list[list[float]] = []
    real = ppo.backend.step

    def spy(batch: Any) -> Any:
        seen.append(batch.log_probs.tolist())
        return real(batch)

    ppo.backend.step = spy
    assert ppo.update(r, 0.0)["train/n_epochs"] == 3
    assert [len(batch) for batch in seen] == [4] * 12
    epochs = [np.concatenate(seen[i : i + 4]).tolist() for i in (0, 4, 8)]
    assert all(sorted(epoch) == sorted(r.log_probs.reshape(-1).tolist()) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_target_kl_ends_the_epochs_before_a_step_that_starts_too_far_away() -> None:
    settings = {"batch_size": 16, "n_steps": 8, "learning_rate": 0.1}
    once = learner("PPO", n_epochs=1, **settings)
    r = rollout(once)
    once.update(r, 0.0)
    stopped = learner("PPO", n_epochs=10, target_kl=1e-4, **settings)
    metrics = stopped.update(r, 0.0)
    assert metrics["train/n_epochs"] == 2  # the second found out
    assert metrics["train/approx_kl"] > 1e-4
    assert same_bytes(weights_of(once.policy), weights_of(stopped.policy))
    patient = learner("PPO", n_epochs=10, target_kl=1e4, **settings)
    assert patient.update(r, 0.0)["train/n_epochs"] == 10


def test_approx_kl_is_the_unbiased_positive_estimate() -> None:
    ppo = learner("PPO", **ONE_STEP)
    r = rollout(ppo, drift=0.3)
    w = parameters(ppo.policy)
    outputs, _ = actor_critic(w, flat(r.obs))
    log_ratio = distribution("discrete", w, outputs).log_prob(flat(r.actions)) - flat(r.log_probs)
    expected = (log_ratio.exp() - 1 - log_ratio).mean().item()
    assert ppo.update(r, 0.0)["train/approx_kl"] == pytest.approx(expected, rel=1e-4)
    assert expected > 0


@pytest.mark.parametrize("limit", [0.05, 100.0])
def test_clip_range_vf_limits_how_far_values_are_pulled(limit: float) -> None:
    ppo = learner("PPO", max_grad_norm=None, clip_range_vf=limit, **ONE_STEP)
    r = rollout(ppo)
    r.values = (r.values + np.random.default_rng(4).normal(0, 0.1, r.values.shape)).astype(np.float32)
    w = parameters(ppo.policy)
    expected = differentiate(textbook_loss(w, r, clip_vf=limit), w)
    free = differentiate(textbook_loss(w, r), w)
    ppo.update(r, 0.0)
    assert_all_close(gradients(ppo.policy), expected, atol=1e-6, rtol=1e-4)
    differs = not torch.allclose(expected["value_head.weight"], free["value_head.weight"], atol=1e-4)
    assert differs == (limit < 1)


def entropy_after(ent_coef: float) -> float:
    settings = {"batch_size": 16, "n_steps": 8, "n_epochs": 20, "normalize_advantage": False, "vf_coef": 0.0}
    ppo = learner("PPO", ent_coef=ent_coef, learning_rate=0.02, **settings)
    with torch.no_grad():
        ppo.policy.action_head.linear.bias[:] = torch.tensor([1.5, 0.0, -1.0])
    r = rollout(ppo)
    r.ends[:], r.terminated[:] = True, True
    r.rewards = r.values.copy()  # nothing was better or worse than expected
    ppo.update(r, 0.0)
    with torch.no_grad():
        return float(ppo.policy.evaluate(flat(r.obs), flat(r.actions))[1].mean())


def test_a_higher_entropy_coefficient_makes_a_more_random_policy() -> None:
    without, some, much = entropy_after(0.0), entropy_after(0.001), entropy_after(1.0)
    assert without < some <= much
    assert much > without + 0.1


def test_invalid_samples_are_not_trained_on() -> None:
    valid = np.random.default_rng(2).random((8, 2)) < 0.7

    def trained(garbage: float) -> dict[str, torch.Tensor]:
        ppo = learner("PPO", batch_size=4, n_epochs=2, n_steps=8)
        r = rollout(ppo, drift=0.1)
        r.valid = valid
        r.ends[:-1] |= ~valid[1:]
        for array in (r.obs, r.rewards, r.values, r.next_values, r.log_probs):
            array[~valid] = garbage
        metrics = ppo.update(r, 0.0)
        assert all(np.isfinite(value) for value in metrics.values())
        return weights_of(ppo.policy)

    assert 0 < valid.sum() < 16
    assert same_bytes(trained(0.0), trained(float("nan")))


def test_invalid_samples_leave_the_gradient_of_the_others() -> None:
    ppo = learner("PPO", max_grad_norm=None, **ONE_STEP)
    r = rollout(ppo, drift=0.3)
    r.valid[2, 1] = r.valid[5, 0] = False
    r.ends[1, 1] = r.ends[4, 0] = True
    w = parameters(ppo.policy)
    adv, returns = advantages(r, 0.99, 0.95)
    assert len(adv) == 14
    keep = torch.as_tensor(r.valid.reshape(-1))
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    outputs, values = actor_critic(w, flat(r.obs)[keep])
    pi = distribution("discrete", w, outputs)
    ratio = torch.exp(pi.log_prob(flat(r.actions)[keep]) - flat(r.log_probs)[keep])
    surrogate = torch.minimum(ratio * adv, ratio.clip(0.8, 1.2) * adv).mean()
    loss = -surrogate + 0.5 * ((values - returns) ** 2).mean() - 0.01 * pi.entropy().mean()
    expected = differentiate(loss, w)
    ppo.update(r, 0.0)
    assert_all_close(gradients(ppo.policy), expected, atol=1e-6, rtol=1e-4)


def test_a_rollout_without_any_valid_sample_changes_nothing() -> None:
    ppo = learner("PPO", **ONE_STEP)
    before = weights_of(ppo.policy)
    metrics = ppo.update(rollout(ppo, valid=np.zeros((8, 2), dtype=bool)), 0.0)
    assert same_bytes(before, weights_of(ppo.policy))
    assert "train/loss" not in metrics


@pytest.mark.parametrize("normalize", [True, False])
def test_a_lone_last_sample_is_trained_on_unless_it_would_have_to_be_normalised(normalize: bool) -> None:
    ppo = learner("PPO", n_epochs=1, batch_size=4, n_steps=8, normalize_advantage=normalize)
    valid = np.zeros((8, 2), dtype=bool)
    valid[0, 0] = True
    before = weights_of(ppo.policy)
    ppo.update(rollout(ppo, valid=valid), 0.0)
    assert same_bytes(before, weights_of(ppo.policy)) == normalize


def test_schedules_are_read_at_the_fraction_of_the_run() -> None:
    settings = ONE_STEP | {
        "learning_rate": {"linear": [0.1, 0.0]},
        "clip_range": {"linear": [0.4, 0.2]},
    }
    ppo = learner("PPO", **settings)
    metrics = ppo.update(rollout(ppo), 0.75)
    assert metrics["train/learning_rate"] == pytest.approx(0.025)
    assert metrics["train/clip_range"] == pytest.approx(0.25)
    assert ppo.optimizer.param_groups[0]["lr"] == pytest.approx(0.025)


def test_a_batch_size_that_does_not_divide_the_rollout_names_one_that_does() -> None:
    config = TrainerConfig(algorithm="PPO", n_envs=3, hyperparams={"n_steps": 10, "batch_size": 8})
    with pytest.raises(ConfigError) as error:
        config.typed_hyperparams()
    assert "batch_size 8 does not divide n_steps * n_envs = 10 * 3 = 30" in str(error.value)
    assert error.value.key == "hyperparams.batch_size"
    assert error.value.fix == "batch_size: 6, or change n_steps or n_envs"


def test_a_rollout_of_one_sample_is_refused_with_advice_that_helps() -> None:
    config = TrainerConfig(algorithm="PPO", n_envs=1, hyperparams={"n_steps": 1, "batch_size": 2})
    with pytest.raises(ConfigError) as error:
        config.typed_hyperparams()
    assert error.value.fix == "raise n_steps"
