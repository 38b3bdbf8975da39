"""Update backends: chosen once, behind one interface, and the same update whichever executes it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from learning_setup import learner, rollout

from ludus.algorithms.a2c import A2C
from ludus.algorithms.backends import Minibatches, OnPolicyBackend, ReplayBackend
from ludus.algorithms.backends.eager import EagerOnPolicy, EagerReplay


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN", "SAC"])
@pytest.mark.parametrize("kernels", [False, True])
def test_a_learner_has_one_backend_and_kernels_are_one(algorithm: str, kernels: bool) -> None:
    made = learner(algorithm, kernels=kernels)
    on_policy = algorithm in ("PPO", "A2C")
    assert isinstance(made.backend, OnPolicyBackend if on_policy else ReplayBackend)
    if kernels:
        assert made.backend is made.kernels is made.policy.fast
    else:
        assert type(made.backend) is (EagerOnPolicy if on_policy else EagerReplay)
        assert made.policy.fast is None


@pytest.mark.parametrize("kernels", [False, True])
def test_shuffled_minibatches_hold_every_sample_once(kernels: bool) -> None:
    ppo = learner("PPO", kernels=kernels, n_steps=8, batch_size=4)
    ppo.backend.begin(ppo.credit(rollout(ppo), 0.0).samples, ppo.settings(0.0))
    order, size = ppo.backend.shuffle(4)
    assert size == 4
    assert sorted(torch.as_tensor(order).tolist()) == list(range(16))


@pytest.mark.parametrize("kernels", [False, True])
def test_an_update_without_steps_has_no_metrics(kernels: bool) -> None:
    ppo = learner("PPO", kernels=kernels, n_steps=8, batch_size=4)
    ppo.backend.begin(ppo.credit(rollout(ppo), 0.0).samples, ppo.settings(0.0))
    assert ppo.backend.finish() == {}
    assert not ppo.backend.stopped


@pytest.mark.parametrize("kernels", [False, True])
def test_both_backends_stop_at_the_kl_limit(kernels: bool) -> None:
    ppo = learner("PPO", kernels=kernels, n_steps=8, batch_size=4, target_kl=1e-6)
    update: Any = ppo.backend
    update.begin(ppo.credit(rollout(ppo, drift=0.5), 0.0).samples, ppo.settings(0.0))
    update.take_steps(update.shuffle(4))
    assert update.stopped
    assert set(update.finish()) == {"train/approx_kl"}


@pytest.mark.parametrize("kernels", [False, True])
def test_samples_without_an_order_are_one_minibatch(kernels: bool) -> None:
    a2c = learner("A2C", kernels=kernels, n_steps=8)
    before = [parameter.detach().clone() for parameter in a2c.policy.parameters()]
    a2c.learn(a2c.credit(rollout(a2c), 0.0), 0.0)
    assert any(not torch.equal(a, b) for a, b in zip(before, a2c.policy.parameters(), strict=True))
    assert Minibatches(None, 16).order is None


@pytest.mark.parametrize("algorithm", ["DQN", "SAC"])
@pytest.mark.parametrize("kernels", [False, True])
def test_no_gradient_steps_give_no_metrics(algorithm: str, kernels: bool) -> None:
    made = learner(algorithm, kernels=kernels)
    assert made.backend.take_steps(0, 0.0) == {}


def test_a_subclass_with_a_loss_of_its_own_trains_by_it() -> None:
    """The fused kernels compute the loss of A2C itself, not that of a subclass."""

    class HuberA2C(A2C):
        def loss_terms(self, batch: Any, coefs: Any) -> Any:
            terms = super().loss_terms(batch, coefs)
            return terms._replace(value_loss=terms.value_loss * 0.0)

    plain = learner("A2C", kernels=True)
    made = HuberA2C(plain.context, plain.h)
    assert plain.kernels is not None
    assert made.kernels is None and "no kernels for HuberA2C" in made.engine_note
