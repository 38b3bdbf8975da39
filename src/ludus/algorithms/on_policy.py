"""What PPO and A2C share: hyperparameters, the rollout collector, and a rollout as flat tensors with credit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from pydantic import Field

from ludus.algorithms.advantages import gae, vtrace
from ludus.algorithms.backends.cuda_graph import CapturedPlay
from ludus.algorithms.backends.numba.actor_critic import ActorCriticKernels, FlatSamples, unsupported_reason
from ludus.algorithms.backends.numba.credit import gae as fast_gae
from ludus.algorithms.backends.numba.credit import vtrace as fast_vtrace
from ludus.algorithms.learner import Learner, LearnerContext, explained_variance
from ludus.algorithms.peers import on_all_ranks
from ludus.config.hyperparameters import Hyperparameters, constant
from ludus.config.schedule import Fraction, NonNegative, Positive
from ludus.envs.finite import all_finite, first_bad
from ludus.errors import NotFinite
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.observations import to_tensor
from ludus.policies.sharding import put, sendable, whole
from ludus.rollout.collector import RolloutCollector
from ludus.rollout.experience import Cuts, Rollout
from ludus.rollout.stepper import Stepper
from ludus.types import Array, BoolArray, Metrics, Observation


class OnPolicyHyperparameters(Hyperparameters):
    n_steps: int = Field(default=2048, ge=1, description="steps of every env per update")
    gae_lambda: Fraction = constant(0.95)
    ent_coef: NonNegative = constant(0.01)
    vf_coef: NonNegative = constant(0.5)
    max_grad_norm: Positive | None = constant(0.5)


H = TypeVar("H", bound=OnPolicyHyperparameters)


_REVALUED_AT_ONCE = 8_192  # samples: images of a whole rollout would not fit


@dataclass(frozen=True)
class RolloutSamples:
    """A rollout's valid steps, flat, on the learner's device."""

    obs: torch.Tensor | dict[str, torch.Tensor]
    actions: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    masks: torch.Tensor | None

    def __len__(self) -> int:
        return len(self.log_probs)

    def flat(self) -> FlatSamples:
        """The same memory, as the kernels take it."""
        assert isinstance(self.obs, torch.Tensor)
        return FlatSamples(
            obs=self.obs.numpy(),
            actions=self.actions.numpy(),
            log_probs=self.log_probs.numpy(),
            values=self.values.numpy(),
            advantages=self.advantages.numpy(),
            returns=self.returns.numpy(),
            masks=None if self.masks is None else self.masks.numpy(),
        )

    def at(self, indices: torch.Tensor) -> RolloutSamples:
        return self.map(lambda tensor: tensor[indices])

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> RolloutSamples:
        """The same samples with every tensor changed."""
        obs = self.obs
        return RolloutSamples(
            obs={key: change(value) for key, value in obs.items()} if isinstance(obs, dict) else change(obs),
            actions=change(self.actions),
            log_probs=change(self.log_probs),
            values=change(self.values),
            advantages=change(self.advantages),
            returns=change(self.returns),
            masks=None if self.masks is None else change(self.masks),
        )

    def tensors(self) -> list[torch.Tensor]:
        """Every tensor, in an order that depends only on which there are."""
        found: list[torch.Tensor] = []
        self.map(lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle copies on the CPU: other ranks have other devices."""
        on_cpu = self.map(lambda tensor: tensor.detach().cpu())
        return RolloutSamples, tuple(getattr(on_cpu, field.name) for field in fields(self))


class RolloutBatch(NamedTuple):
    """A rollout's samples with advantages and returns, and metrics about them."""

    samples: RolloutSamples
    metrics: Metrics
    shuffling: Mapping[str, Any] | None = None
    """Where several ranks learn: the first rank's state of the generator that minibatches are drawn from."""


class SampleStore:
    """Fixed memory for rollouts of up to `capacity` samples, for captured functions to read.

    What a sample has of float32 numbers and vectors lies side by side in one row: a GPU takes as long to pick the rows
    of a narrow table as of a wide one. Vectors begin where matrix products read them fastest, at every fourth number.
    """

    def __init__(self, like: RolloutSamples, capacity: int) -> None:
        self._columns: list[slice | int | None] = []
        width = 0
        for tensor in like.tensors():
            if tensor.dtype != torch.float32 or tensor.ndim > 2:
                self._columns.append(None)  # has memory of its own
            elif tensor.ndim == 1:
                self._columns.append(width)
                width += 1
            else:
                start = _next_fourth(width)
                width = start + tensor.shape[1]
                self._columns.append(slice(start, width))
        rows = self._rows = torch.zeros((capacity, _next_fourth(width)), device=like.log_probs.device)
        columns = iter(self._columns)

        def make(tensor: torch.Tensor) -> torch.Tensor:
            column = next(columns)
            return tensor.new_zeros((capacity, *tensor.shape[1:])) if column is None else rows[:, column]

        self.samples = like.map(make)

    def fits(self, samples: RolloutSamples) -> bool:
        kept, new = self.samples.tensors(), samples.tensors()
        return len(kept) == len(new) and len(samples) <= len(self.samples)

    def put(self, samples: RolloutSamples) -> None:
        for kept, new in zip(self.samples.tensors(), samples.tensors(), strict=True):
            kept[: len(new)].copy_(new)

    def at(self, indices: torch.Tensor) -> RolloutSamples:
        """The samples at `indices`."""
        rows = self._rows[indices]
        columns = iter(self._columns)

        def pick(tensor: torch.Tensor) -> torch.Tensor:
            column = next(columns)
            return tensor[indices] if column is None else rows[:, column]

        return self.samples.map(pick)


def _next_fourth(width: int) -> int:
    return -(-width // 4) * 4


class OnPolicyLearner(Learner[Rollout, H]):
    """Base of learners that use each rollout once. Several may share the samples of a minibatch out among them."""

    policy: ActorCritic
    """What plays. `trained` is what learns: the same, unless it is sharded among peers."""

    def __init__(self, place: LearnerContext, hyperparams: H) -> None:
        super().__init__(place, hyperparams)
        self.policy = self.trained = self._make_policy()
        if place.peers.sharded:
            self.trained = self._make_policy() if place.peers.leads else self.policy
            place.peers.shard(self.trained.trunks(), self.trained)
        self.parameters = list(self.trained.parameters())
        self._told = False
        """Whether the peers have weights and memory as they are here."""
        self.kernels: ActorCriticKernels | None = None

    def use_actor_critic_kernels(self, optimizer: torch.optim.Optimizer) -> None:
        """See `use_kernels`; the same kernels act."""
        rng, threads = self.place.streams.numpy("actions"), self.place.threads
        self.use_kernels(
            unsupported_reason(self.policy), lambda: ActorCriticKernels(self.policy, optimizer, rng, threads)
        )
        self.policy.fast = self.kernels
        if self.captured:
            generator = self.place.streams.torch("actions", str(self.place.device))
            self.policy.enable_value_stream()
            self.policy.fast = CapturedActorCritic(self.policy, self.place.n_envs, generator)

    def publish(self) -> None:
        if self.peers.sharded:
            self.gather_weights()

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        self.restore(sendable(self.policy.state_dict()) if self.peers.leads else {}, tensors, values)
        self._told = self.peers.leads

    @on_all_ranks
    def restore(
        self, weights: dict[str, torch.Tensor], tensors: dict[str, torch.Tensor], values: dict[str, Any]
    ) -> None:
        """`load`, with the policy's `weights`; none where it has them."""
        if weights:
            for name, parameter in self.trained.named_parameters():
                put(parameter, weights[name])
        super().load(tensors, values)
        if self.kernels is not None:
            self.kernels.memory.bind()

    def tensors(self) -> dict[str, torch.Tensor]:
        return self.gather() if self.peers.sharded else super().tensors()

    @on_all_ranks
    def gather(self) -> dict[str, torch.Tensor]:
        """`tensors` of which every peer has a part."""
        return super().tensors()

    def local_shard(self, samples: RolloutSamples) -> RolloutSamples:
        """This learner's share of a minibatch."""
        if self.peers.size == 1:
            return samples
        return samples.map(lambda tensor: tensor[self.peers.rank :: self.peers.size])

    @on_all_ranks
    def gather_weights(self) -> None:
        """Give the policy that plays the whole of the weights that ranks hold in parts."""
        plays = dict(self.policy.named_parameters())
        for name, parameter in self.trained.named_parameters():
            learnt = whole(parameter.detach())
            if self.trained is not self.policy:
                put(plays[name].detach(), learnt)

    def _make_policy(self) -> ActorCritic:
        place = self.place
        network = place.network("Tanh", True)
        policy = ActorCritic(place.observation_space, place.action_space, network).to(place.device)
        policy.half_features = place.half_features
        return policy

    def make_collector(self, stepper: Stepper) -> RolloutCollector:
        return RolloutCollector(
            stepper,
            n_steps=self.h.n_steps,
            generator=self.place.streams.torch("actions", str(self.place.device)),
            reward_normalizer=self.place.reward_normalizer,
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
            rollout = self._valued_anew(rollout, rollout.cuts)
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
        device = self.place.device

        def flat(array: Array) -> torch.Tensor:
            joined = array.reshape(-1, *array.shape[2:])
            return torch.as_tensor(joined if keep.all() else joined[keep], device=device)

        remembered = getattr(self.policy.fast, "remembered", None)
        there = remembered() if remembered is not None and rollout.cuts is None and keep.all() else None
        if there is None:
            there = (
                _flat_obs(rollout.obs, keep, device),
                None if rollout.masks is None else flat(rollout.masks),
            )
        samples = RolloutSamples(
            obs=there[0],
            actions=flat(rollout.actions),
            log_probs=flat(rollout.log_probs),
            values=flat(rollout.values),
            advantages=flat(advantages),
            returns=flat(returns),
            masks=there[1],
        )
        valid = rollout.valid
        metrics = {"train/explained_variance": explained_variance(rollout.values[valid], returns[valid])}
        return self._for_all_ranks(RolloutBatch(samples, metrics))

    def _for_all_ranks(self, batch: RolloutBatch) -> RolloutBatch:
        """Return `batch` with what every rank needs to learn from it; before the first one, send them the weights."""
        if not self.peers.leads:
            return batch
        if not self._told:
            self.load(self.tensors(), self.values())
        return batch._replace(shuffling=self.place.streams.numpy("minibatches").bit_generator.state)

    def receive(self, batch: RolloutBatch) -> RolloutSamples:
        """Return the samples of `batch` on this rank's device, ready to draw the same minibatches as all ranks."""
        if batch.shuffling is None:
            return batch.samples
        self.place.streams.numpy("minibatches").bit_generator.state = batch.shuffling
        return batch.samples.map(lambda tensor: tensor.to(self.place.device))

    @torch.no_grad()
    def _valued_anew(self, rollout: Rollout, cuts: Cuts) -> Rollout:
        """The rollout with log-probabilities and values of the policy as it is now."""
        device, shape = self.place.device, rollout.rewards.shape
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
        found = self.kernels.evaluate(obs.numpy(), actions.numpy(), mask)
        return torch.from_numpy(found[0]), torch.from_numpy(found[1])


class CapturedActorCritic:
    """Acts with `policy`, `n` envs at a time, as CUDA graphs."""

    def __init__(self, policy: ActorCritic, n: int, generator: torch.Generator) -> None:
        def values(obs: Any, mask: torch.Tensor | None) -> tuple[torch.Tensor]:
            return (policy.value(obs),)

        def act(obs: Any, mask: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
            return policy.act_and_value(obs, mask, generator)

        self._act = CapturedPlay(act, policy.device, n, [generator])
        self._values = CapturedPlay(values, policy.device, n)
        self._memory: dict[str, torch.Tensor] = {}
        self._steps = self._seen = 0

    def expect(self, n_steps: int) -> None:
        """Keep what the next `n_steps` calls of `act` are given: it is on the GPU then, where the update needs it."""
        if n_steps != self._steps:
            self._memory = {}
        self._steps, self._seen = n_steps, 0

    def remembered(self) -> tuple[Any, torch.Tensor | None] | None:
        """Observations and masks of those calls, [steps * n, ...]; None if there were more, fewer, or other ones."""
        if self._seen != self._steps or not self._memory:
            return None
        flat = {key: value.flatten(0, 1) for key, value in self._memory.items()}
        mask = flat.pop("mask", None)
        obs = {key.removeprefix("obs/"): value for key, value in flat.items()}
        return obs.get("", obs), mask

    def act(self, obs: Observation, masks: BoolArray | None) -> tuple[Array, ...]:
        """Actions, their log-probabilities and values for observations as the network takes them."""
        outputs = self._act(obs, masks)
        inputs = self._act.inputs
        if self._seen < self._steps:
            if not self._memory:
                self._memory = {key: x.new_empty((self._steps, *x.shape)) for key, x in inputs.items()}
            if self._memory.keys() == inputs.keys():
                for key, value in inputs.items():
                    self._memory[key][self._seen].copy_(value)
            else:  # an env gave its first mask late
                self._memory, self._steps = {}, 0
        self._seen += 1
        return outputs

    def values(self, obs: Observation) -> Array:
        return self._values(obs)[0]


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
