"""The base of PPO and A2C: hyperparameters, the rollout collector, credit, and learning on several ranks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from pydantic import Field

from ludus.algorithms.advantages import gae, vtrace
from ludus.algorithms.backends import OnPolicyBackend, RolloutBatch, RolloutSamples
from ludus.algorithms.backends.numba.actor_critic import ActorCriticKernels, unsupported_reason
from ludus.algorithms.backends.numba.inputs import as_arrays
from ludus.algorithms.backends.numba.rollouts import gae as fast_gae
from ludus.algorithms.backends.numba.rollouts import vtrace as fast_vtrace
from ludus.algorithms.learner import Learner, LearnerContext, explained_variance
from ludus.algorithms.peers import on_all_ranks, put, sendable, whole
from ludus.config.hyperparameters import Hyperparameters, constant
from ludus.config.schedule import Fraction, NonNegative, Positive
from ludus.envs.finite import all_finite, first_bad
from ludus.errors import NotFinite
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.observations import to_tensor
from ludus.rollout.collector import RolloutCollector
from ludus.rollout.experience import Cuts, Rollout
from ludus.rollout.stepper import Stepper
from ludus.types import Array, Observation


class OnPolicyHyperparameters(Hyperparameters):
    n_steps: int = Field(default=2048, ge=1, le=10**8, description="steps of every env per update")
    gae_lambda: Fraction = constant(0.95)
    ent_coef: NonNegative = constant(0.01)
    vf_coef: NonNegative = constant(0.5)
    max_grad_norm: Positive | None = constant(0.5)

    def samples_per_step(self, n_envs: int) -> int:
        return self.n_steps * n_envs


H = TypeVar("H", bound=OnPolicyHyperparameters)


_REVALUED_AT_ONCE = 8_192  # samples: images of a whole rollout would not fit


class OnPolicyLearner(Learner[Rollout, H]):
    """Base of learners that use each rollout once. Several ranks can share the samples of each minibatch."""

    Terms: ClassVar[Any]
    """The terms of the loss, and what else is measured of every sample."""
    policy: ActorCritic
    """Policy that plays. `trained` is the one that learns: the same, unless its weights are sharded among ranks."""
    minibatch_size: int

    def __init__(self, context: LearnerContext, hyperparams: H) -> None:
        super().__init__(context, hyperparams)
        self.stops_between_steps = context.peers.size == 1  # several ranks take every step together
        self.policy = self.trained = self._make_policy()
        if context.peers.sharded:
            self.trained = self._make_policy() if context.peers.leads else self.policy
            context.peers.shard(self.trained.trunks(), self.trained)
        self.parameters = list(self.trained.parameters())
        self._peers_ready = False
        """True if the other ranks have the same weights and optimizer state as this one."""
        self.kernels: ActorCriticKernels | None = None
        self._backend: OnPolicyBackend | None = None

    @abstractmethod
    def loss_terms(self, batch: RolloutSamples, coefs: dict[str, torch.Tensor]) -> Any:
        """Return the `Terms` of every sample; `coefs` are the coefficients as tensors on the device."""

    @abstractmethod
    def loss(self, terms: Any, coefs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the loss, given the means of the `Terms`."""

    def train_with(self, optimizer: torch.optim.Optimizer, minibatch_size: int) -> None:
        """Choose the update backend; the same kernels or graphs act."""
        self.optimizer, self.minibatch_size = optimizer, minibatch_size
        context = self.context
        self.use_kernels(
            unsupported_reason(self.policy),
            lambda: ActorCriticKernels(self.policy, optimizer, context.streams, context.threads),
        )
        if self.kernels is not None:
            self._backend = self.policy.fast = self.kernels
        elif self.captured:
            from ludus.algorithms.backends.cuda_graph import CapturedActorCritic, CapturedOnPolicy

            generator = context.streams.torch("actions", str(context.device))
            self.policy.enable_value_stream()
            self.policy.fast = CapturedActorCritic(self.policy, context.n_envs, generator)
            self._backend = CapturedOnPolicy(self)
        else:
            from ludus.algorithms.backends.eager import EagerOnPolicy  # not where kernels learn

            self._backend = EagerOnPolicy(self)

    @property
    def backend(self) -> OnPolicyBackend:
        """The update backend that `train_with` has chosen."""
        assert self._backend is not None
        return self._backend

    @backend.setter
    def backend(self, backend: OnPolicyBackend) -> None:
        self._backend = backend

    def unused_keys(self) -> dict[str, str]:
        unused = {}
        if not isinstance(self.context.action_space, spaces.Box):
            unused["policy.log_std_init"] = "only Box actions have a standard deviation"
        if self.context.policy.share_net:
            unused["hyperparams.value_net_arch"] = "policy.share_net is true: policy_net_arch is for both"
        if self.context.policy.network is not None:
            from ludus.policies.own_layers import REPLACED_KEYS

            unused |= REPLACED_KEYS
        return unused

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"optimizer": self.optimizer}

    def publish(self) -> None:
        if self.peers.sharded:
            self.gather_weights()

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        self.restore(sendable(self.policy.state_dict()) if self.peers.leads else {}, tensors, values)
        self._peers_ready = self.peers.leads

    @on_all_ranks
    def restore(
        self, weights: dict[str, torch.Tensor], tensors: dict[str, torch.Tensor], values: dict[str, Any]
    ) -> None:
        """`load`, with the policy's `weights`; none where it has them."""
        if weights:
            for name, parameter in self.trained.named_parameters():
                put(parameter, weights[name])
        super().load(tensors, values)
        if self._backend is not None:  # a learner may take its steps by itself
            self._backend.rebind()

    def tensors(self) -> dict[str, torch.Tensor]:
        return self.gather() if self.peers.sharded else super().tensors()

    @on_all_ranks
    def gather(self) -> dict[str, torch.Tensor]:
        """`tensors` of which every peer has a part."""
        return super().tensors()

    @on_all_ranks
    def gather_weights(self) -> None:
        """Give the policy that plays the whole of the weights that ranks hold in parts."""
        plays = dict(self.policy.named_parameters())
        for name, parameter in self.trained.named_parameters():
            learnt = whole(parameter.detach())
            if self.trained is not self.policy:
                put(plays[name].detach(), learnt)

    def _make_policy(self) -> ActorCritic:
        context = self.context
        network = context.network("Tanh", True)
        policy = ActorCritic(context.observation_space, context.action_space, network).to(context.device)
        policy.half_features = context.half_features
        return policy

    def make_collector(self, stepper: Stepper) -> RolloutCollector:
        return RolloutCollector(
            stepper,
            n_steps=self.h.n_steps,
            generator=self.context.streams.torch("actions", str(self.context.device)),
            reward_normalizer=self.context.reward_normalizer,
        )

    def credit(self, rollout: Rollout, fraction: float) -> RolloutBatch:
        """Return the valid steps with advantages and value targets, and how well the values predicted them.

        Where an older policy acted, the samples are as if this one had, and the advantages hold what that takes.
        NotFinite when an advantage or a log-probability is not finite.
        """
        decay = self.h.gamma(fraction), self.h.gae_lambda(fraction)
        if rollout.cuts is None:
            advantages, returns = (fast_gae if self.kernels is not None or self.captured else gae)(
                rollout.rewards,
                rollout.values,
                rollout.next_values,
                rollout.terminated,
                rollout.ends,
                *decay,
            )
        else:
            acted = rollout.log_probs
            rollout = self._revalued(rollout, rollout.cuts)
            ratios = np.exp(np.minimum(rollout.log_probs - acted, 0.0))
            advantages, returns = (vtrace if self.kernels is None else fast_vtrace)(
                rollout.rewards,
                rollout.values,
                rollout.next_values,
                rollout.terminated,
                rollout.ends,
                ratios,
                *decay,
            )
        keep = rollout.valid.reshape(-1)
        learnt_from = slice(None) if keep.all() else rollout.valid
        if not (all_finite(advantages[learnt_from]) and all_finite(rollout.log_probs[learnt_from])):
            raise _not_finite(rollout, advantages)
        device = self.context.device

        def flat(array: Array) -> torch.Tensor:
            joined = array.reshape(-1, *array.shape[2:])
            return torch.as_tensor(joined if keep.all() else joined[keep], device=device)

        fast = self.policy.fast
        inputs = fast.rollout_inputs() if fast is not None and rollout.cuts is None and keep.all() else None
        if inputs is None:
            inputs = (
                _flat_obs(rollout.obs, keep, device),
                None if rollout.masks is None else flat(rollout.masks),
            )
        samples = RolloutSamples(
            obs=inputs[0],
            actions=flat(rollout.actions),
            log_probs=flat(rollout.log_probs),
            values=flat(rollout.values),
            advantages=flat(advantages),
            returns=flat(returns),
            masks=inputs[1],
        )
        valid = rollout.valid
        metrics = {"train/explained_variance": explained_variance(rollout.values[valid], returns[valid])}
        return self._for_all_ranks(RolloutBatch(samples, metrics))

    def _for_all_ranks(self, batch: RolloutBatch) -> RolloutBatch:
        """Return `batch` with what every rank needs to learn from it; before the first one, send them the weights."""
        if not self.peers.leads:
            return batch
        if not self._peers_ready:
            self.load(self.tensors(), self.values())
        return batch._replace(shuffling=self.context.streams.numpy("minibatches").bit_generator.state)

    def receive(self, batch: RolloutBatch) -> RolloutSamples:
        """Return the samples of `batch` on this rank's device, ready to draw the same minibatches as all ranks."""
        if batch.shuffling is None:
            return batch.samples
        self.context.streams.numpy("minibatches").bit_generator.state = batch.shuffling
        return batch.samples.map(lambda tensor: tensor.to(self.context.device))

    @torch.no_grad()
    def _revalued(self, rollout: Rollout, cuts: Cuts) -> Rollout:
        """Return the rollout with log-probabilities and values of the policy as it is now."""
        device, shape = self.context.device, rollout.rewards.shape
        everything = np.ones(rollout.rewards.size, dtype=bool)
        obs = _flat_obs(rollout.obs, everything, device)
        actions = torch.as_tensor(rollout.actions.reshape(-1, *rollout.actions.shape[2:]), device=device)
        masks = None
        if rollout.masks is not None:
            masks = torch.as_tensor(rollout.masks.reshape(-1, rollout.masks.shape[-1]), device=device)
        self.policy.eval()
        log_probs: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        for start in range(0, len(actions), _REVALUED_AT_ONCE):
            part = slice(start, start + _REVALUED_AT_ONCE)
            seen = {key: value[part] for key, value in obs.items()} if isinstance(obs, dict) else obs[part]
            found = self._evaluate(seen, actions[part], None if masks is None else masks[part])
            log_probs.append(found[0])
            values.append(found[1])
        new_values = torch.cat(values).reshape(shape).cpu().numpy()
        next_values = np.empty_like(new_values)
        next_values[:-1] = new_values[1:]
        next_values[cuts.times, cuts.envs] = self.policy.value(to_tensor(cuts.obs, device)).cpu().numpy()
        return replace(
            rollout,
            log_probs=torch.cat(log_probs).reshape(shape).cpu().numpy(),
            values=new_values,
            next_values=next_values,
        )

    def _evaluate(
        self, obs: Any, actions: torch.Tensor, masks: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities of `actions`, and values, of the policy as it is now."""
        if self.kernels is None:
            log_probs, _, values = self.policy.evaluate(obs, actions, masks)
            return log_probs, values
        mask = None if masks is None else masks.numpy()
        found = self.kernels.evaluate(as_arrays(obs), actions.numpy(), mask)
        return torch.from_numpy(found[0]), torch.from_numpy(found[1])


def _not_finite(rollout: Rollout, advantages: Array) -> NotFinite:
    causes = {
        "reward": rollout.rewards,
        "value": rollout.values,
        "value after the step": rollout.next_values,
        "log-probability": rollout.log_probs,
        "advantage": advantages,
    }
    used = {name: np.where(rollout.valid, array, 0.0) for name, array in causes.items()}
    name, found = next((name, bad) for name, array in used.items() if (bad := first_bad(array)) is not None)
    _, (step, env), value = found
    return NotFinite(
        f"the {name} of env {env} at step {step + 1} of {len(advantages)} of the rollout is not finite but "
        f"{value!r}; the optimizer was not stepped\n"
        "  where: the learner's update\n"
        "  fix:   lower hyperparams.learning_rate, or look for extreme observations or rewards in the env"
    )


def _flat_obs(
    obs: Observation, keep: np.ndarray[tuple[int], np.dtype[np.bool_]], device: torch.device
) -> torch.Tensor | dict[str, torch.Tensor]:
    def flat(array: Array) -> Array:
        joined = array.reshape(-1, *array.shape[2:])
        return joined if keep.all() else joined[keep]

    return to_tensor({k: flat(v) for k, v in obs.items()} if isinstance(obs, dict) else flat(obs), device)
