"""The language learner: token-level policy losses on exactly the tokens that were sampled.

`credit` turns rewards into advantages; algorithms differ only in `assign_credit`. `learn` splits turns into
minibatches, computes a minibatch as packed forward passes whose gradients add up, and steps the optimizers. Several
ranks can share the passes (`peers`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from ludus.algorithms.gradient_step import StepGate
from ludus.algorithms.learner import explained_variance, with_prefix
from ludus.algorithms.peers import ALONE, Peers, on_all_ranks, sendable
from ludus.config.language import LanguageConfig, RewardsConfig
from ludus.config.registry import LANGUAGE, Algorithm, register_algorithm
from ludus.config.schema import TrainerConfig
from ludus.errors import NotFinite
from ludus.language.algorithms.guard import diversity_metrics
from ludus.language.algorithms.hyperparameters import (
    ClippedHyperparameters,
    LanguageHyperparameters,
    ValuedHyperparameters,
    check,
)
from ludus.language.algorithms.losses import (
    clipped_loss,
    importance_weights,
    kl_estimate,
    policy_gradient_loss,
    share_of_tokens,
)
from ludus.language.algorithms.packing import Pass, completion_starts, n_passes, pack
from ludus.language.algorithms.rewards import Transforms, reward_metrics
from ludus.language.algorithms.scoring import score
from ludus.language.algorithms.student import Student
from ludus.language.models.model import LanguageModel
from ludus.language.turns import Turn, Turns
from ludus.runs.streams import Streams
from ludus.types import Metrics

H = TypeVar("H", bound=LanguageHyperparameters)


def learner_names(number: int) -> tuple[str, ...]:
    """Return the names of the players that learn."""
    return ("learner",) if number == 1 else tuple(f"learner-{i}" for i in range(1, number + 1))


@dataclass(frozen=True)
class LanguageContext:
    """The parts from which a language learner is built.

    `learners` are the players that learn; each has an adapter of its name in `model`. `start` is the adapter that
    KL divergences are taken from; None: the base weights.
    """

    model: LanguageModel
    language: LanguageConfig
    rewards: RewardsConfig
    learners: tuple[str, ...]
    device: torch.device
    streams: Streams
    start: str | None = None
    watch_kl: bool = False
    """Measure the divergence from the start even if it is not part of the loss."""
    peers: Peers = ALONE
    playing: LanguageModel | None = None
    """The unsharded model that plays, if `model` is sharded; it gets the weights after every update."""

    @classmethod
    def of(
        cls,
        config: TrainerConfig,
        model: LanguageModel,
        device: torch.device,
        streams: Streams,
        peers: Peers = ALONE,
        playing: LanguageModel | None = None,
    ) -> LanguageContext:
        """Return the context for `config`; the model has the learners' adapters."""
        assert config.language is not None
        names = learner_names(config.language.learners)
        return cls(
            model=model,
            language=config.language,
            rewards=config.rewards,
            learners=names,
            device=device,
            streams=streams,
            start=f"{names[0]}@0",
            watch_kl=config.guard is not None and config.guard.kl is not None,
            peers=peers,
            playing=playing,
        )

    @classmethod
    def for_rank(
        cls, config: TrainerConfig, device: torch.device, streams: Streams, peers: Peers
    ) -> LanguageContext:
        """Load a model for one of several learners, sharded where the config asks for it."""
        from ludus.language.models.models import load_language_model

        language = config.language
        assert language is not None
        model = load_language_model(language, device, Streams(config.seed).torch("model"))
        for name in learner_names(language.learners):
            model.add_adapter(name, None if language.adapter is None else language.adapter.without_start())
        if peers.sharded:
            model.shard(peers.shard)
        return cls.of(config, model, device, streams, peers)

    @property
    def whole_model(self) -> LanguageModel:
        """The model that this process can use without the other ranks."""
        return self.model if self.playing is None else self.playing


@dataclass(frozen=True)
class Credit:
    """Advantages of the turns, value targets if there is a value head, and metrics about both."""

    advantages: list[float]
    targets: list[float] | None = None
    metrics: Metrics = field(default_factory=dict)


@dataclass
class TurnSamples:
    """One learner's turns and the data of their tokens; flat tensors contain all tokens, turn after turn."""

    turns: Sequence[Turn]
    behaviour: Tensor
    advantages: Tensor
    weights: Tensor
    lengths: Tensor
    returns: Tensor | None = None
    proximal: Tensor | None = None
    start: Tensor | None = None


@dataclass
class StudentBatch:
    """The turns that one learner learns from in an update, with their advantages; metrics about them."""

    turns: Sequence[Turn]
    returns: list[float] | None
    proximal: Tensor | None
    """Log-probabilities of all tokens before the update, where they are known already."""
    metrics: Metrics


@dataclass
class TurnBatch:
    """The data that every rank needs for one update."""

    students: dict[str, StudentBatch]
    metrics: Metrics
    rate_scale: float
    shuffling: Any
    """State of the generator that minibatches are drawn from."""


STEP_STATISTICS = ("policy_loss", "value_loss", "grad_norm", "steps")
TOKEN_STATISTICS = ("entropy", "approx_kl", "clip_fraction", "importance_weight", "kl_start", "tokens")
"""Sums over optimizer steps, and over tokens."""


class LanguageLearner(ABC, Generic[H]):
    """Base of language algorithms; owns the optimizers. Algorithms differ in `assign_credit` and hyperparameters."""

    usual_sampling: ClassVar[tuple[str, ...]] = ("center_by_env",)
    """Default sampling transforms."""

    def __init__(self, context: LanguageContext, hyperparams: H) -> None:
        self.context = context
        self.peers = context.peers
        self.h = hyperparams
        self.policy: Any = context.whole_model
        self.step_gate = StepGate(context.device)
        self.stops_between_steps = context.peers.size == 1  # several ranks take every step together
        self.before_step: Callable[[], None] = lambda: None
        """Called before each pass of an update. It may raise UpdateStopped."""
        self.transforms = Transforms(context.rewards, self.usual_sampling)
        self.rate_scale = 1.0
        """Factor of the learning rates; the collapse guard lowers it."""
        hidden = hyperparams.value_net_arch if isinstance(hyperparams, ValuedHyperparameters) else None
        self.students = {
            name: Student(name, context.model, hidden, context.device) for name in context.learners
        }
        self._shuffle = context.streams.numpy("minibatches")
        self._weights_sent = False
        """True once the peers have the weights and memory of this process."""
        self._start_sent = False
        self._temperature = context.language.sampler.temperature

    @abstractmethod
    def assign_credit(self, turns: Sequence[Turn], values: Sequence[float], fraction: float) -> Credit:
        """Return the advantages of `turns`. `values` are those of the value head; empty without one."""

    # The interface of a learner

    def credit(self, experience: Turns, fraction: float) -> TurnBatch:
        """Return every learner's own turns with rewards and advantages; `fraction` of the run is done.

        The matches are finished here: their turns get their rewards. All turns of one seat of one match must be in
        one experience.
        """
        self._inform_peers(fraction)
        self.transforms.finish(experience.matches, self.students)
        metrics = diversity_metrics(experience.matches)
        students = {
            name: self._credit_one(
                student, [turn for turn in experience.turns if turn.player == name], fraction
            )
            for name, student in self.students.items()
        }
        metrics |= reward_metrics(experience.turns)
        return TurnBatch(students, metrics, self.rate_scale, self._shuffle.bit_generator.state)

    @on_all_ranks
    def learn(self, batch: TurnBatch, fraction: float) -> Metrics:
        """Take the gradient steps of one update. LudusError when a gradient is not finite: then it takes no step."""
        self.rate_scale = batch.rate_scale
        self._shuffle.bit_generator.state = batch.shuffling
        found = {
            name: self._learn_one(student, batch.students[name], fraction)
            for name, student in self.students.items()
        }
        return batch.metrics | _merged(found)

    def publish(self) -> None:
        """Copy the learnt weights to the model that plays, if it is a separate model."""
        if self.peers.sharded:
            self.gather_weights()

    def update(self, experience: Turns, fraction: float) -> Metrics:
        """Run `credit`, `learn` and `publish` on one experience."""
        metrics = self.learn(self.credit(experience, fraction), fraction)
        self.publish()
        return metrics

    def version(self, name: str) -> int:
        """Return how many updates the weights of learner `name` have seen."""
        return self.students[name].updates

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {
            f"{name}.{key}": optimizer
            for name, student in self.students.items()
            for key, optimizer in student.optimizers().items()
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors except the adapters, for `learner.safetensors`."""
        return self.gather() if self.peers.sharded else self._tensors()

    @on_all_ranks
    def gather(self) -> dict[str, Tensor]:
        """Return the `tensors` that are sharded among the peers."""
        return self._tensors()

    def _tensors(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": value
            for name, student in self.students.items()
            for key, value in student.tensors().items()
        }

    def values(self) -> dict[str, Any]:
        """Return counters and the state of the transforms, for `state.json`."""
        return {
            "students": {name: {"updates": student.updates} for name, student in self.students.items()},
            "transforms": self.transforms.state_dict(),
            "rate_scale": self.rate_scale,
        }

    def load(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore the results of `tensors` and `values`. The model has already loaded the adapters."""
        weights = self._weights() if self.peers.leads else {}
        self.restore(weights, tensors, values)
        self._weights_sent = self.peers.leads

    @on_all_ranks
    def restore(
        self, weights: dict[str, dict[str, Tensor]], tensors: dict[str, Tensor], values: dict[str, Any]
    ) -> None:
        """`load`, the learners' `weights` included; none where the model has them."""
        for name, own in weights.items():
            self.context.model.load_adapter_tensors(name, own)
        for name, student in self.students.items():
            student.load(with_prefix(tensors, name), values["students"][name])
        self.transforms.load_state_dict(values["transforms"])
        self.rate_scale = float(values["rate_scale"])

    @on_all_ranks
    def go_back(self, name: str, weights: Mapping[str, Tensor]) -> None:
        """Roll learner `name` back to earlier `weights` of its own: a new version, with new optimizer states."""
        self.context.model.load_adapter_tensors(name, weights)
        self.students[name].restart()
        self._gather_weights()

    @on_all_ranks
    def take_start(self, weights: dict[str, Tensor]) -> None:
        """Add the adapter from which divergences are measured; the model that plays has it from the league."""
        model, name, adapter = self.context.model, self.context.start, self.context.language.adapter
        assert name is not None
        if name not in model.adapters:
            model.add_adapter(name, None if adapter is None else adapter.without_start())
        model.load_adapter_tensors(name, weights)

    def agreement(self, name: str, turns: Sequence[Turn]) -> Metrics:
        """Return the distance between log-probabilities computed here and the sampler's, for `turns` of this version.

        With top_p below 1 the sampler drew from another distribution than the policy, and the raw
        log-probabilities (temperature 1) are compared instead.
        """
        self._inform_peers(0.0)
        return self.compare(name, turns)

    @on_all_ranks
    def compare(self, name: str, turns: Sequence[Turn]) -> Metrics:
        """See `agreement`."""
        exact = self.context.language.sampler.top_p == 1.0
        theirs = _flat(
            [turn.log_probs if exact else turn.raw_log_probs for turn in turns], self.context.device
        )
        ours = self._look(name, turns, range(len(turns)), self._temperature if exact else 1.0)[0]
        gaps = (ours - theirs).abs()
        if not len(gaps):
            return {}
        return {"train/log_prob_gap": float(gaps.mean()), "train/log_prob_gap_max": float(gaps.max())}

    # Internal

    def _weights(self) -> dict[str, dict[str, Tensor]]:
        model = self.context.whole_model
        return {name: sendable(model.adapter_tensors(name)) for name in self.students}

    def _inform_peers(self, fraction: float) -> None:
        """Send the peers the state that they do not have yet. They repeat all later steps."""
        if not self.peers.leads:
            return
        if not self._weights_sent:
            self.load(self.tensors(), self.values())
        start, model = self.context.start, self.context.whole_model
        if (self.h.kl_coef(fraction) > 0 or self.context.watch_kl) and not self._start_sent and start:
            self.take_start(sendable(model.adapter_tensors(start)))
            self._start_sent = True

    @on_all_ranks
    def gather_weights(self) -> None:
        """Gather sharded weights into the model that plays."""
        self._gather_weights()

    def _gather_weights(self) -> None:
        if not self.peers.sharded:
            return
        for name in self.students:
            learnt = self.context.model.adapter_tensors(name)
            if self.context.playing is not None:
                self.context.playing.load_adapter_tensors(name, learnt)

    def _passes(self, turns: Sequence[Turn], chosen: Sequence[int]) -> Iterator[tuple[Pass, bool]]:
        """Yield the passes of this rank's share of the turns `chosen`, each with whether it counts.

        Ranks gather sharded weights together, so a rank with fewer passes repeats one that does not count.
        """
        budget, device = self.context.language.tokens_per_step, self.context.device
        lengths = [len(turns[i].prompt) + len(turns[i].completion) for i in chosen]
        shares = self.peers.share(chosen, lengths)
        own = pack(turns, shares[self.peers.rank], budget, device)
        for batch in own:
            self.before_step()
            yield batch, True
        if self.peers.sharded:
            most = max(n_passes(turns, share, budget) for share in shares)
            spare = (own or pack(turns, chosen[:1], budget, device))[:1]
            for _ in range(most - len(own)):
                yield from ((batch, False) for batch in spare)

    def _credit_one(self, student: Student, turns: Sequence[Turn], fraction: float) -> StudentBatch:
        metrics = _length_metrics(turns)
        looked, values = None, []
        if student.head is not None:
            looked, of_states = self.look(student.name, turns, range(len(turns)), self._temperature)
            values = of_states.tolist()
        credit = self.assign_credit(turns, values, fraction)
        metrics |= credit.metrics
        if credit.targets is not None:
            metrics["train/explained_variance"] = explained_variance(
                np.array(values), np.array(credit.targets)
            )
        ages = [student.updates - turn.version for turn in turns]
        fresh = [i for i, age in enumerate(ages) if age <= self.h.max_staleness]
        metrics["train/stale_turns"] = float(len(turns) - len(fresh))
        if not fresh:
            return StudentBatch([], None, None, metrics)
        metrics["train/staleness"] = float(np.mean([ages[i] for i in fresh]))
        for turn, advantage in zip(turns, credit.advantages, strict=True):
            turn.advantage = advantage
        kept = [turns[i] for i in fresh]
        self.transforms.batch(kept)
        returns = None if credit.targets is None else [credit.targets[i] for i in fresh]
        proximal = None
        if looked is not None:
            starts = completion_starts(turns)
            proximal = torch.cat([looked[starts[i] : starts[i + 1]] for i in fresh])
            proximal = proximal.cpu() if self.peers.leads else proximal  # ranks have other devices
        return StudentBatch(kept, returns, proximal, metrics)

    def _learn_one(self, student: Student, batch: StudentBatch, fraction: float) -> Metrics:
        h = self.h
        value_rate = h.value_learning_rate(fraction) if isinstance(h, ValuedHyperparameters) else 0.0
        rate = h.learning_rate(fraction) * self.rate_scale
        student.set_rates(rate, value_rate * self.rate_scale)
        metrics = {"train/learning_rate": rate} | batch.metrics
        if not batch.turns:
            return metrics
        metrics |= self._learn(student, self._samples(batch), fraction)
        student.updates += 1
        return metrics

    def _samples(self, batch: StudentBatch) -> TurnSamples:
        device, turns, returns = self.context.device, batch.turns, batch.returns

        def tensor(numbers: Sequence[float]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.float32, device=device)

        return TurnSamples(
            turns=turns,
            behaviour=_flat([turn.log_probs for turn in turns], device),
            advantages=tensor([float(turn.advantage or 0.0) for turn in turns]),
            weights=tensor([turn.weight for turn in turns]),
            lengths=tensor([len(turn.completion) for turn in turns]),
            returns=None if returns is None else tensor(returns),
            proximal=None if batch.proximal is None else batch.proximal.to(device),
        )

    def _learn(self, student: Student, samples: TurnSamples, fraction: float) -> Metrics:
        """Run all epochs over the minibatches; return mean metrics of steps and tokens."""
        h, n = self.h, len(samples.turns)
        epochs = h.n_epochs if isinstance(h, ClippedHyperparameters) else 1
        useful = self._useful(samples, fraction)
        clipped = isinstance(h, ClippedHyperparameters)
        if clipped and samples.proximal is None and (epochs > 1 or n > h.mini_batch_size):
            samples.proximal = self._look(student.name, samples.turns, useful, self._temperature)[0]
        in_loss = h.kl_coef(fraction) > 0
        if in_loss or self.context.watch_kl:
            samples.start = self._look(self.context.start, samples.turns, useful, self._temperature)[0]
        self.step_gate.release()
        step_sums = torch.zeros(len(STEP_STATISTICS), device=self.context.device)
        token_sums = torch.zeros(len(TOKEN_STATISTICS), device=self.context.device)
        wanted = set(useful)
        for _ in range(epochs):
            order = self._shuffle.permutation(n).tolist()
            for begin in range(0, n, h.mini_batch_size):
                batch = order[begin : begin + h.mini_batch_size]
                of_use = [i for i in batch if i in wanted]
                if of_use:
                    self._minibatch(student, samples, of_use, len(batch), fraction, step_sums, token_sums)
        try:
            self.step_gate.check()
        except NotFinite as error:
            raise NotFinite(_with_cause(str(error), samples)) from None
        self.peers.add_up(step_sums[:2])  # losses; the norm and the steps are equal on all ranks
        self.peers.add_up(token_sums)
        return _means(step_sums.tolist(), token_sums.tolist(), student, clipped, samples)

    def _useful(self, samples: TurnSamples, fraction: float) -> list[int]:
        """Return the turns on which any part of the loss depends."""
        everything = isinstance(self.h, ValuedHyperparameters)
        regularised = self.h.kl_coef(fraction) > 0 or self.h.ent_coef(fraction) > 0
        return [
            i
            for i, turn in enumerate(samples.turns)
            if everything or (turn.completion and (regularised or (turn.advantage and turn.weight)))
        ]

    def _minibatch(
        self,
        student: Student,
        samples: TurnSamples,
        chosen: Sequence[int],
        n_turns: int,
        fraction: float,
        step_sums: Tensor,
        token_sums: Tensor,
    ) -> None:
        """Take one optimizer step on the turns `chosen` of a minibatch of `n_turns`, in several passes if needed."""
        language = self.context.language
        max_norm = None if self.h.max_grad_norm is None else self.h.max_grad_norm(fraction)
        shares = share_of_tokens(
            samples.lengths, n_turns, self.h.length_norm, language.sampler.max_new_tokens
        )
        student.zero_grad()
        losses = torch.zeros(2, device=self.context.device)
        whole = torch.zeros((), device=self.context.device)
        for batch, counts in self._passes(samples.turns, chosen):
            scored = score(
                self.context.model,
                batch,
                adapter=student.name,
                temperature=self._temperature,
                checkpoint=language.gradient_checkpointing,
                entropy_gradient=self.h.ent_coef(fraction) > 0,
            )
            if not counts:
                student.backward(0.0 * scored.tokens.log_probs.sum())
                continue
            loss, policy_loss = self._token_loss(
                batch, scored.tokens.log_probs, scored.tokens.entropies, samples, shares, fraction, token_sums
            )
            losses[0] += policy_loss
            if student.head is not None and samples.returns is not None:
                assert isinstance(self.h, ValuedHyperparameters)
                of_turns = torch.tensor(batch.turns, device=self.context.device)
                # in the model's gradient, a turn's value counts as much as one of its tokens
                reaching = self.h.vf_coef(fraction) * n_turns * shares[of_turns]
                values = student.head(scored.states, reaching)
                off = (values - samples.returns[of_turns]).square() * samples.weights[of_turns]
                value_loss = off.sum() / n_turns
                loss = loss + value_loss
                losses[1] += value_loss.detach()
            whole += loss.detach()
            student.backward(loss)
        self.step_gate.pull_if(whole - whole != 0, fault=True)  # a gradient may be finite all the same
        norm = student.step(max_norm, self.step_gate, self.peers)
        step_sums += torch.cat([losses, torch.stack([norm, torch.ones_like(norm)])])

    def _token_loss(
        self,
        batch: Pass,
        log_probs: Tensor,
        entropies: Tensor,
        samples: TurnSamples,
        shares: Tensor,
        fraction: float,
        token_sums: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the sum of policy loss, KL and entropy bonus over a pass's tokens, and that of the policy loss."""
        h = self.h
        behaviour = samples.behaviour[batch.index]
        advantages = (samples.advantages * samples.weights)[batch.owner]
        share = shares[batch.owner]
        if isinstance(h, ClippedHyperparameters):
            before = log_probs.detach() if samples.proximal is None else samples.proximal[batch.index]
            low = h.clip_range(fraction)
            high = low if h.clip_range_high is None else h.clip_range_high(fraction)
            weights = importance_weights(before, behaviour, h.importance_cap)
            policy, held = clipped_loss(log_probs, before, weights, advantages, low, high)
        else:
            before = behaviour
            weights = importance_weights(log_probs, behaviour, h.importance_cap)
            policy = policy_gradient_loss(log_probs, weights, advantages)
            held = torch.zeros_like(policy, dtype=torch.bool)
        policy_loss = (share * policy).sum()
        loss = policy_loss
        divergence = torch.zeros_like(log_probs)
        if samples.start is not None:
            divergence = kl_estimate(log_probs, samples.start[batch.index])
            if kl_coef := h.kl_coef(fraction):
                loss = loss + kl_coef * (share * divergence).sum()
        if ent_coef := h.ent_coef(fraction):
            loss = loss - ent_coef * (share * entropies).sum()
        with torch.no_grad():
            moved = kl_estimate(
                before, log_probs
            )  # from the old policy to the current one, estimated by tokens of the old
            per_token = (entropies, moved, held.float(), weights, divergence, torch.ones_like(log_probs))
            token_sums += torch.stack([numbers.detach().sum() for numbers in per_token])
        return loss, policy_loss.detach()

    @on_all_ranks
    def look(
        self, adapter: str | None, turns: Sequence[Turn], chosen: Sequence[int], temperature: float
    ) -> tuple[Tensor, Tensor]:
        """See `_look`."""
        return self._look(adapter, turns, chosen, temperature)

    @torch.no_grad()
    def _look(
        self, adapter: str | None, turns: Sequence[Turn], chosen: Sequence[int], temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities of all tokens of the turns `chosen` (0 for others), and each turn's value."""
        device = self.context.device
        student = self.students.get(adapter) if adapter is not None else None
        log_probs = torch.zeros(completion_starts(turns)[-1], device=device)
        values = torch.zeros(len(turns), device=device)
        for batch, counts in self._passes(turns, chosen):
            scored = score(self.context.model, batch, adapter=adapter, temperature=temperature)
            if not counts:
                continue
            log_probs[batch.index] = scored.tokens.log_probs
            if student is not None and student.head is not None:
                values[torch.tensor(batch.turns, device=device)] = student.head(scored.states)
        return self.peers.add_up(log_probs), self.peers.add_up(values)


def _with_cause(message: str, samples: TurnSamples) -> str:
    """Return `message` with the first input of the learner that is not finite, if there is one."""
    of_turns = {"advantage": samples.advantages, "weight": samples.weights, "return": samples.returns}
    of_tokens = {
        "sampler's log-probability": samples.behaviour,
        "log-probability before the update": samples.proximal,
        "log-probability at the start": samples.start,
    }
    owners = np.repeat(np.arange(len(samples.turns)), [len(turn.completion) for turn in samples.turns])
    for name, numbers in (of_turns | of_tokens).items():
        bad = None if numbers is None else (~torch.isfinite(numbers)).nonzero()
        if numbers is not None and bad is not None and len(bad):
            index = int(bad[0])
            turn = samples.turns[index if name in of_turns else int(owners[index])]
            what, dot, rest = message.partition("\n")
            return (
                f"{what}: the {name} of turn {turn.index}, seat {turn.seat}, match {turn.match} of {turn.game} "
                f"is {float(numbers[index])!r}{dot}{rest}"
            )
    return message


def _flat(arrays: Sequence[Any], device: torch.device) -> Tensor:
    joined = np.concatenate(
        [np.asarray(array, dtype=np.float32) for array in arrays] or [np.zeros(0, np.float32)]
    )
    return torch.as_tensor(joined, dtype=torch.float32, device=device)


def _length_metrics(turns: Sequence[Turn]) -> Metrics:
    if not turns:
        return {"train/turns": 0.0}
    lengths = [len(turn.prompt) + len(turn.completion) for turn in turns]
    return {
        "train/turns": float(len(turns)),
        "train/sequence_length": float(np.mean(lengths)),
        "train/truncated": float(sum(turn.truncated or turn.prompt_cut > 0 for turn in turns)),
        "train/truncated_tokens": float(sum(turn.prompt_cut for turn in turns)),
    }


def _means(
    step_sums: list[float], token_sums: list[float], student: Student, clipped: bool, samples: TurnSamples
) -> Metrics:
    """Return the means of the statistics of this learner."""
    *per_step, steps = step_sums
    *per_token, tokens = token_sums
    absent = {"value_loss"} if student.head is None else set()
    absent |= set() if clipped else {"clip_fraction"}
    absent |= {"kl_start"} if samples.start is None else set()
    found = [
        *((name, total, steps) for name, total in zip(STEP_STATISTICS, per_step, strict=False)),
        *((name, total, tokens) for name, total in zip(TOKEN_STATISTICS, per_token, strict=False)),
    ]
    metrics = {f"train/{name}": total / n for name, total, n in found if n and name not in absent}
    return metrics | {"train/steps": steps, "train/tokens": tokens}


def _merged(found: dict[str, Metrics]) -> Metrics:
    """Return the metrics of one learner; for several learners, the means and each learner's metrics under its name."""
    if len(found) == 1:
        return next(iter(found.values()))
    merged: Metrics = {}
    for name in dict.fromkeys(name for metrics in found.values() for name in metrics):
        values = [metrics[name] for metrics in found.values() if name in metrics]
        finite = [value for value in values if math.isfinite(value)]
        merged[name] = float(np.mean(finite)) if finite else math.nan
    for learner, metrics in found.items():
        merged |= {name.replace("train/", f"train/{learner}/", 1): value for name, value in metrics.items()}
    return merged


def register_learner(
    name: str, hyperparameters: type[LanguageHyperparameters], learner: type[LanguageLearner[Any]]
) -> None:
    """Make `learner` usable as `algorithm: name` in a config with a `language` section."""
    made = Algorithm(name, hyperparameters, learner=learner, check=check, context=LanguageContext.for_rank)
    register_algorithm(name, made, engine=LANGUAGE)
