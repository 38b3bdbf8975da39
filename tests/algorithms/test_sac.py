"""SAC against the paper's three losses written out separately, with the same random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import (
    assert_all_close,
    differentiate,
    learner,
    parameters,
    same_bytes,
    transitions,
    weights_of,
)
from textbook import first_adam_step, layers, q_values
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from ludus.algorithms.replay import ReplayBatch
from ludus.errors import ConfigError

LR = 0.01


def made(**hyperparams: Any) -> Any:
    return learner("SAC", **({"learning_rate": LR, "initial_temperature": 0.3, "gamma": 0.9} | hyperparams))


def batch_of(sac: Any, seed: int = 0) -> ReplayBatch:
    t = transitions(sac, seed)
    return ReplayBatch(
        obs=torch.as_tensor(t.obs),
        actions=torch.as_tensor(t.actions),
        rewards=torch.as_tensor(t.rewards, dtype=torch.float32),
        next_obs=torch.as_tensor(t.next_obs),
        terminated=torch.as_tensor(t.terminated),
        next_masks=None,
    )


def draw(w: Any, obs: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The actor's action for this noise, and its log-density by torch's own transformed distribution."""
    latent = layers(w, "actor_net", obs, torch.relu)
    mean = latent @ w["mean_head.weight"].T + w["mean_head.bias"]
    std = (latent @ w["log_std_head.weight"].T + w["log_std_head.bias"]).clamp(-20, 2).exp()
    squashed = TransformedDistribution(Independent(Normal(mean, std), 1), [TanhTransform(cache_size=1)])
    action = squashed.transforms[0](mean + std * noise)
    return action, squashed.log_prob(action)


def critics(w: Any, prefix: str, obs: torch.Tensor, actions: torch.Tensor) -> list[torch.Tensor]:
    inputs = torch.cat([obs, actions], dim=1)
    return [q_values(w, f"{prefix}{q}", inputs)[:, 0] for q in ("q1", "q2")]


def noises(sac: Any) -> tuple[torch.Tensor, torch.Tensor]:
    twin = torch.Generator().set_state(sac._generator.get_state())
    return torch.randn(16, 2, generator=twin), torch.randn(16, 2, generator=twin)


def prefixed(expected: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name: value for name, value in expected.items() if name.startswith(prefix)}


def test_one_step_is_the_papers_three_gradients() -> None:
    sac = made()
    with torch.no_grad():  # target networks of their own
        for p in sac.target.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(9)))
    batch = batch_of(sac)
    w, old_target = parameters(sac.policy), weights_of(sac.target)
    noise, next_noise = noises(sac)

    with torch.no_grad():
        next_actions, next_log_probs = draw(w, batch.next_obs, next_noise)
        next_q = torch.minimum(*critics(old_target, "", batch.next_obs, next_actions))
        soft = next_q - 0.3 * next_log_probs
        targets = batch.rewards + 0.9 * (1 - batch.terminated.float()) * soft
    q1, q2 = critics(w, "critic.", batch.obs, batch.actions)
    critic_loss = 0.5 * ((q1 - targets) ** 2).mean() + 0.5 * ((q2 - targets) ** 2).mean()
    critic_gradient = prefixed(differentiate(critic_loss, w), "critic.")

    metrics = sac.backend.learn_from([batch], 0.0)
    assert metrics["train/critic_loss"] == pytest.approx(critic_loss.item(), rel=1e-5)
    found = {n: p.grad for n, p in sac.policy.named_parameters()}
    assert_all_close(prefixed(found, "critic."), critic_gradient, atol=1e-6, rtol=1e-4)

    # the critics take that one step and no other: the actor's loss leaves them alone
    after = first_adam_step(w, prefixed(found, "critic."), lr=LR)
    assert_all_close(
        prefixed({n: p.detach() for n, p in sac.policy.named_parameters()}, "critic."),
        after,
        atol=1e-6,
        rtol=1e-5,
    )

    # the actor climbs the critics as they are now
    actions, log_probs = draw(w, batch.obs, noise)
    q = torch.minimum(*critics(after, "critic.", batch.obs, actions))
    actor_loss = (0.3 * log_probs - q).mean()
    actor = {n: p for n, p in w.items() if not n.startswith("critic.")}
    expected = differentiate(actor_loss, actor)
    assert metrics["train/actor_loss"] == pytest.approx(actor_loss.item(), rel=1e-4)
    assert_all_close({n: found[n] for n in expected}, expected, atol=1e-5, rtol=1e-3)
    stepped = first_adam_step(w, {n: found[n] for n in expected}, lr=LR)
    assert_all_close(
        {n: dict(sac.policy.named_parameters())[n].detach() for n in expected}, stepped, rtol=1e-5, atol=1e-6
    )

    # the temperature's own gradient: minus the mean of log-density plus target
    gap = (log_probs.detach() + sac.target_entropy).mean()
    assert sac.log_temperature.grad.item() == pytest.approx(-gap.item(), rel=1e-4)
    assert metrics["train/ent_coef"] == pytest.approx(0.3)

    # the targets follow last, by exactly tau
    tau = 0.005
    moved = {n: (1 - tau) * old_target[n] + tau * after[f"critic.{n}"] for n in old_target}
    assert_all_close(weights_of(sac.target), moved, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("target_entropy", "direction"), [(50.0, 1), (-50.0, -1)])
def test_the_temperature_rises_while_entropy_is_below_its_target(
    target_entropy: float, direction: int
) -> None:
    sac = made(target_entropy=target_entropy)
    before = sac.log_temperature.item()
    for seed in range(3):
        sac.backend.learn_from([batch_of(sac, seed)], 0.0)
    assert np.sign(sac.log_temperature.item() - before) == direction


def test_auto_target_entropy_is_minus_the_size_of_an_action() -> None:
    assert made().target_entropy == -2
    cube = spaces.Box(-1.0, 1.0, (2, 3), np.float32)
    assert learner("SAC", action_space=cube).target_entropy == -6


def test_a_given_temperature_is_used_and_kept() -> None:
    sac = made(ent_coef={"linear": [0.4, 0.0]})
    before = sac.log_temperature.item()
    metrics = sac.backend.learn_from([batch_of(sac)], 0.5)
    assert metrics["train/ent_coef"] == pytest.approx(0.2)
    assert "train/ent_coef_loss" not in metrics
    assert sac.log_temperature.item() == before


def test_a_terminated_transition_is_worth_its_reward() -> None:
    sac = made()
    batch = batch_of(sac)
    over = ReplayBatch(**{**batch.__dict__, "terminated": torch.ones(16, dtype=torch.bool)})
    with torch.no_grad():
        q1, q2 = sac.policy.critics(batch.obs, batch.actions)
    expected = 0.5 * ((q1 - batch.rewards) ** 2).mean() + 0.5 * ((q2 - batch.rewards) ** 2).mean()
    assert sac.backend.learn_from([over], 0.0)["train/critic_loss"] == pytest.approx(
        expected.item(), rel=1e-5
    )


def test_targets_follow_every_so_many_gradient_steps() -> None:
    sac = made(target_update_interval=3, tau=1.0)
    followed = []
    for number in range(1, 8):
        sac.backend.learn_from([batch_of(sac, number)], 0.0)
        if same_bytes(weights_of(sac.target), weights_of(sac.policy.critic)):
            followed.append(number)
    assert followed == [3, 6]


def test_targets_start_as_copies_and_carry_no_gradient() -> None:
    sac = made()
    assert same_bytes(weights_of(sac.target), weights_of(sac.policy.critic))
    assert not any(p.requires_grad for p in sac.target.parameters())
    sac.backend.learn_from([batch_of(sac)], 0.0)
    assert all(p.requires_grad for p in sac.policy.parameters())


def test_a_shared_extractor_is_trained_by_the_critics_alone() -> None:
    policy = {"features_extractor": "ResnetMLP", "features_dim": 4}
    sac = learner("SAC", policy=policy, learning_rate=LR)
    batch = batch_of(sac)
    twin = learner("SAC", policy=policy, learning_rate=LR)
    with torch.no_grad():  # another actor: the critics' step must not notice, but for the targets
        twin.policy.mean_head.bias.add_(5.0)
    over = ReplayBatch(**{**batch.__dict__, "terminated": torch.ones(16, dtype=torch.bool)})
    sac.backend.learn_from([over], 0.0)
    twin.backend.learn_from([over], 0.0)
    assert same_bytes(weights_of(sac.policy.critic), weights_of(twin.policy.critic))
    assert not same_bytes(weights_of(sac.policy.actor_net), weights_of(twin.policy.actor_net))


def test_actions_of_any_shape_are_learned_from() -> None:
    cube = spaces.Box(-1.0, 1.0, (2, 3), np.float32)
    sac = learner("SAC", action_space=cube, learning_starts=0, batch_size=8)
    sac.update(transitions(sac, actions=np.zeros((16, 6), dtype=np.float32)), 0.0)


def test_only_bounded_boxes_are_taken_on() -> None:
    with pytest.raises(ConfigError, match="SAC needs Box actions"):
        learner("SAC", action_space=spaces.Discrete(2))


def test_two_cores_learn_the_bytes_that_one_learns() -> None:
    options = {"kernels": True, "batch_size": 70, "policy_net_arch": (40, 20), "value_net_arch": (50, 20)}
    one, two = (learner("SAC", threads=threads, **options) for threads in (1, 2))
    for made in (one, two):
        made.replay.add(transitions(made, count=200))
        for _ in range(4):
            made.backend.take_steps(1, 0.0)
    assert same_bytes(one.tensors(), two.tensors())
