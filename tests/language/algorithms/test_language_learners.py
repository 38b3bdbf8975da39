"""Every language learner against a plain reference: one sequence at a time, autograd, nothing packed or shared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from language_setup import experience, learner, made_up, match, tiny_model, turn, weights
from torch import Tensor

from ludus.config.language import AdapterConfig, RewardsConfig
from ludus.errors import LudusError
from ludus.language.algorithms.learner import LanguageLearner
from ludus.language.algorithms.scoring import score
from ludus.language.models.model import LanguageModel, whole_rows
from ludus.language.turns import Turn, Turns
from ludus.runs.streams import Streams

ALGORITHMS = ("REINFORCE", "A2C", "PPO", "GRPO")
LONGEST = 8


class Reference:
    """The four algorithms as their papers have them, token by token."""

    def __init__(
        self, algorithm: str, model: LanguageModel, seed: int, h: dict[str, Any], temperature: float
    ):
        self.algorithm, self.model, self.temperature = algorithm, model, temperature
        defaults = dict(lr=1e-3, cap=2.0, kl=0.0, ent=0.0, norm="constant", epochs=1, batch=64, clip=0.2)
        self.h = defaults | dict(high=None, std=False, gamma=1.0, lam=0.95, vf=0.5, vlr=1e-2) | h
        self.valued = algorithm in ("A2C", "PPO")
        self.clipped = algorithm in ("PPO", "GRPO")
        self.adam = torch.optim.Adam(model.trainable("learner"), lr=self.h["lr"])
        self.head = torch.zeros(model.width, requires_grad=True)
        self.bias = torch.zeros((), requires_grad=True)
        self.head_adam = torch.optim.Adam([self.head, self.bias], lr=self.h["vlr"])
        self.shuffle = Streams(seed).numpy("minibatches")

    def forward(self, turn: Turn, adapter: str | None) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities and entropies of one turn's tokens, and the state at its prompt's end."""
        ids = [*turn.prompt, *turn.completion]
        positions, segments = whole_rows([len(ids)], torch.device("cpu"))
        hidden = self.model.hidden(torch.tensor([ids]), positions, segments, adapter=adapter)
        logits = self.model.head(hidden[0], adapter=adapter) / self.temperature
        every = torch.log_softmax(logits, -1)[len(turn.prompt) - 1 : len(ids) - 1]
        chosen = torch.stack([row[token] for row, token in zip(every, turn.completion, strict=True)])
        return chosen, -(every.exp() * every).sum(-1), hidden[0, len(turn.prompt) - 1]

    def update(self, turns: Sequence[Turn]) -> None:
        h = self.h
        with torch.no_grad():
            looked = [self.forward(one, "learner") for one in turns]
            start = [self.forward(one, None)[0] for one in turns]
        values = [(state @ self.head + self.bias).item() for _, _, state in looked]
        advantages, targets = self.credit(turns, values)
        for _ in range(h["epochs"]):
            order = self.shuffle.permutation(len(turns))
            for begin in range(0, len(turns), h["batch"]):
                batch = order[begin : begin + h["batch"]]
                loss = torch.zeros(())
                for i in batch:
                    loss = loss + self.loss(turns[i], advantages[i], targets[i], looked[i][0], start[i])
                self.adam.zero_grad()
                self.head_adam.zero_grad()
                (loss / len(batch)).backward()
                torch.nn.utils.clip_grad_norm_(self.model.trainable("learner"), 1.0)
                torch.nn.utils.clip_grad_norm_([self.head, self.bias], 1.0)
                self.adam.step()
                if self.valued:
                    self.head_adam.step()

    def loss(self, one: Turn, advantage: float, target: float, before: Tensor, start: Tensor) -> Tensor:
        h = self.h
        log_probs, entropies, state = self.forward(one, "learner")
        behaviour = torch.tensor(one.log_probs)
        if self.clipped:
            ratio = (log_probs - before).exp()
            high = h["clip"] if h["high"] is None else h["high"]
            near = ratio.clamp(1 - h["clip"], 1 + high)
            capped = (before - behaviour).exp().clamp(max=h["cap"])
            terms = -capped * torch.min(ratio * advantage, near * advantage)
        else:
            terms = -(log_probs.detach() - behaviour).exp().clamp(max=h["cap"]) * advantage * log_probs
        gap = start - log_probs
        terms = terms + h["kl"] * (gap.exp() - 1 - gap) - h["ent"] * entropies
        length = LONGEST if h["norm"] == "constant" else len(one.completion)
        loss = terms.sum() / length
        if self.valued:
            # the head by the whole loss, the model by a share of it
            of_head = (state.detach() @ self.head + self.bias - target) ** 2
            of_model = (state @ self.head.detach() + self.bias.detach() - target) ** 2
            loss = loss + of_head + h["vf"] * of_model / length
        return loss

    def credit(self, turns: Sequence[Turn], values: list[float]) -> tuple[list[float], list[float]]:
        h, n = self.h, len(turns)
        if self.algorithm == "GRPO":
            results = []
            for one in turns:
                group = [o for o in turns if (o.group, o.seat) == (one.group, one.seat)]
                of_match = {o.match: o.reward for o in group}
                first = min(o.index for o in turns if o.group == one.group)
                std = float(np.std(list(of_match.values()))) if h["std"] and one.group is not None else 1.0
                if one.group is None or one.index != first:
                    del of_match[one.match]
                mean = float(np.mean(list(of_match.values()))) if of_match else one.reward
                results.append((one.reward - mean) / (std or 1.0))
            return results, [0.0] * n
        advantages, targets = [0.0] * n, [0.0] * n
        for i, one in enumerate(turns):
            later = sorted(
                (
                    j
                    for j, o in enumerate(turns)
                    if (o.match, o.seat) == (one.match, one.seat) and o.index >= one.index
                ),
                key=lambda j: turns[j].index,
            )
            rewards = [0.0] * (len(later) - 1) + [turns[later[-1]].reward]
            if not self.valued:
                advantages[i] = sum(h["gamma"] ** k * reward for k, reward in enumerate(rewards))
                continue
            following = [values[j] for j in later[1:]] + [0.0]
            deltas = [
                reward + h["gamma"] * after - values[j]
                for reward, after, j in zip(rewards, following, later, strict=True)
            ]
            advantages[i] = sum((h["gamma"] * h["lam"]) ** k * delta for k, delta in enumerate(deltas))
            targets[i] = advantages[i] + values[i]
        return advantages, targets


def both(
    algorithm: str, data: Turns, *, updates: int = 1, temperature: float = 1.0, full: bool = False, **h: Any
) -> tuple[LanguageLearner[Any], Reference, dict[str, float]]:
    """A learner and its reference after the same updates from the same start."""
    names = dict(lr="learning_rate", cap="importance_cap", kl="kl_coef", ent="ent_coef", norm="length_norm")
    names |= dict(epochs="n_epochs", batch="mini_batch_size", clip="clip_range", high="clip_range_high")
    names |= dict(std="divide_by_std", lam="gae_lambda", vf="vf_coef", vlr="value_learning_rate")
    ours = {names.get(key, key): value for key, value in ({"lr": 1e-3} | h).items()}
    if algorithm in ("A2C", "PPO"):
        ours.setdefault("value_learning_rate", 1e-2)
    if algorithm == "PPO":
        ours.setdefault("n_epochs", 1)
    one = learner(
        algorithm,
        tiny_model(full=full),
        language={"tokens_per_step": 60, "sampler": {"max_new_tokens": LONGEST, "temperature": temperature}},
        seed=3,
        **ours,
    )
    reference = Reference(algorithm, tiny_model(full=full), 3, h, temperature)
    metrics = {}
    for _ in range(updates):
        for one_turn in data.turns:
            one_turn.version = one.version("learner")
        metrics = one.update(data, 0.0)
        reference.update(data.turns)
    return one, reference, metrics


def assert_same(one: LanguageLearner[Any], reference: Reference) -> None:
    for ours, theirs in zip(weights(one.context.model), weights(reference.model), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=3e-6)
    head = one.students["learner"].head
    if head is not None:
        torch.testing.assert_close(head.layers[-1].weight[0], reference.head, rtol=2e-4, atol=3e-6)
        torch.testing.assert_close(head.layers[-1].bias[0], reference.bias, rtol=2e-4, atol=3e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_step_is_that_of_the_paper(algorithm: str) -> None:
    before = weights(tiny_model())
    one, reference, metrics = both(algorithm, made_up())
    assert_same(one, reference)
    assert any((a != b).any() for a, b in zip(before, weights(one.context.model), strict=True))
    assert all(math.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_several_updates_with_every_term_are_those_of_the_paper(algorithm: str) -> None:
    extra: dict[str, Any] = {"gamma": 0.9} if algorithm != "GRPO" else {"std": True, "high": 0.3}
    if algorithm in ("PPO", "GRPO"):
        extra |= {"epochs": 2, "clip": 0.05}
    one, reference, metrics = both(
        algorithm,
        made_up(seed=1, group=True),
        updates=2,
        temperature=0.7,
        kl=0.3,
        ent=0.1,
        norm="tokens",
        batch=7,
        **extra,
    )
    assert_same(one, reference)
    assert metrics["train/kl_start"] > 0
    if algorithm in ("PPO", "GRPO"):
        assert 0 < metrics["train/clip_fraction"] < 1


def test_all_weights_learn_as_adapters_do() -> None:
    one, reference, _ = both("PPO", made_up(), full=True, kl=0.1)
    assert_same(one, reference)


def gradients(tokens_per_step: int, checkpointing: bool = False) -> list[Tensor]:
    """Those of one PPO minibatch with every term in it, however many passes it takes."""
    one = learner(
        "PPO",
        language={"tokens_per_step": tokens_per_step, "gradient_checkpointing": checkpointing},
        learning_rate=0.0,
        value_learning_rate=0.0,
        n_epochs=1,
        kl_coef=0.1,
        ent_coef=0.1,
        max_grad_norm=None,
    )
    one.update(made_up(), 0.0)
    student = one.students["learner"]
    assert student.head is not None
    every = [*student.masters.parameters, *student.head.parameters()]
    return [parameter.grad for parameter in every if parameter.grad is not None]


@pytest.mark.parametrize(
    ("tokens_per_step", "checkpointing"), [(1, False), (33, False), (100, False), (100, True)]
)
def test_the_gradient_does_not_depend_on_how_a_minibatch_is_split(
    tokens_per_step: int, checkpointing: bool
) -> None:
    whole, split = gradients(10**6), gradients(tokens_per_step, checkpointing)
    assert len(whole) == len(split) > 2
    scale = max(float(one.abs().max()) for one in whole)
    for one, other in zip(whole, split, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6 * scale)


def test_logits_in_pieces_give_the_same_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gradients(10**6)
    monkeypatch.setattr("ludus.language.algorithms.scoring._LOGITS_AT_ONCE", 259 * 4)
    for one, other in zip(whole, gradients(10**6), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("algorithm", ["REINFORCE", "GRPO"])
def test_turns_of_no_advantage_leave_everything_as_it_is(algorithm: str) -> None:
    one = learner(algorithm, learning_rate=0.1)
    one.update(made_up(), 0.0)  # so that the optimizer has momentum
    before = weights(one.context.model)
    data = made_up(seed=2, version=1)
    for played in data.matches:
        played.rewards = (0.0, 0.0)
    metrics = one.update(data, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(one.context.model), strict=True))
    assert metrics["train/steps"] == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("case", ["alone", "equal", "empty", "truncated", "nothing", "one empty prompt end"])
def test_odd_batches_stay_finite(algorithm: str, case: str) -> None:
    data = made_up(group=True)
    for i, one_turn in enumerate(data.turns):
        if case == "alone":
            one_turn.group = one_turn.match
        if case == "empty" or (case == "one empty prompt end" and i == 0):
            one_turn.completion = ()
            one_turn.log_probs = np.zeros(0, np.float32)
        one_turn.truncated = case == "truncated"
    if case == "equal":
        for played in data.matches:
            played.rewards = (0.3, 0.3)
    if case == "nothing":
        data = experience([])
    one = learner(
        algorithm,
        rewards=RewardsConfig(sampling=["zscore_by_env", "weight_by_spread"]),
        **({"divide_by_std": True} if algorithm == "GRPO" else {}),
    )
    metrics = one.update(data, 0.0)
    assert all(math.isfinite(v) for name, v in metrics.items() if name != "train/explained_variance")
    assert all(weight.isfinite().all() for weight in weights(one.context.model))
    if case == "truncated":
        assert metrics["train/truncated"] == len(data.turns)
    if case == "nothing":
        assert one.version("learner") == 0


def test_the_optimizer_never_steps_by_what_is_not_finite() -> None:
    one = learner("PPO", learning_rate=0.1, mini_batch_size=4)
    data = made_up()
    data.matches[0].rewards = (math.nan, math.nan)
    for played in data.matches[1:]:
        played.rewards = (0.0, 0.0)
    with pytest.raises(LudusError, match="not finite"):
        one.update(data, 0.0)
    assert all(weight.isfinite().all() for weight in weights(one.context.model))
    head = one.students["learner"].head
    assert head is not None and all(weight.isfinite().all() for weight in head.parameters())


def test_stale_turns_are_dropped_and_counted() -> None:
    one = learner("REINFORCE", max_staleness=1, learning_rate=0.1)
    for _ in range(3):
        one.update(made_up(version=one.version("learner")), 0.0)
    before = weights(one.context.model)
    metrics = one.update(made_up(version=1), 0.0)
    assert metrics["train/stale_turns"] == metrics["train/turns"] > 0
    assert "train/policy_loss" not in metrics and one.version("learner") == 3
    assert all(torch.equal(a, b) for a, b in zip(before, weights(one.context.model), strict=True))
    metrics = one.update(made_up(version=2), 0.0)
    assert metrics["train/staleness"] == 1.0 and metrics["train/stale_turns"] == 0


def test_turns_go_to_the_learner_who_played_them() -> None:
    names = ("one", "two")
    data = made_up()
    for one_turn in data.turns:
        one_turn.player = names[one_turn.seat]
    data.turns.append(turn(match=0, seat=0, index=9, player="minimax"))
    pair = learner("GRPO", learners=names, learning_rate=1e-3)
    metrics = pair.update(data, 0.0)
    for name in names:
        alone = learner("GRPO", tiny_model(names), learners=(name,), learning_rate=1e-3)
        own = made_up()
        own.turns = [one_turn for one_turn in own.turns if names[one_turn.seat] == name]
        for one_turn in own.turns:
            one_turn.player = name
        expected = alone.update(own, 0.0)
        assert metrics[f"train/{name}/policy_loss"] == pytest.approx(expected["train/policy_loss"], rel=1e-5)
        for a, b in zip(weights(pair.context.model, name), weights(alone.context.model, name), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert set(pair.optimizers()) == {"one.policy", "two.policy"}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_resumed_learner_continues_bit_for_bit(algorithm: str) -> None:
    rewards = RewardsConfig(final=["role_advantage"], sampling=["center_by_env", "certainty"])
    options: dict[str, Any] = {"mini_batch_size": 5, "learning_rate": 1e-3, "kl_coef": 0.1}
    if algorithm in ("A2C", "PPO"):
        options["value_net_arch"] = [4]
    one = learner(algorithm, rewards=rewards, **options)
    one.update(made_up(), 0.0)
    one.rate_scale = 0.5
    tensors = {key: value.clone() for key, value in one.tensors().items()}
    values = one.values()
    streams = one.context.streams.state_dict()
    adapter = {key: value.clone() for key, value in one.context.model.adapter_tensors("learner").items()}
    for seed in (1, 2):
        data = made_up(seed=seed, version=one.version("learner"))
        expected = one.update(data, 0.5)
    other = learner(algorithm, rewards=rewards, seed=0, **options)
    other.context.model.load_adapter_tensors("learner", adapter)
    other.load(tensors, values)
    other.context.streams.load_state_dict(*streams)
    for seed in (1, 2):
        found = other.update(made_up(seed=seed, version=other.version("learner")), 0.5)
    assert found == expected
    assert all(
        torch.equal(a, b)
        for a, b in zip(weights(one.context.model), weights(other.context.model), strict=True)
    )
    assert one.values() == other.values()
    assert one.tensors().keys() == other.tensors().keys()
    assert all(torch.equal(value, other.tensors()[key]) for key, value in one.tensors().items())


def test_the_rate_can_be_scaled_down_and_the_weights_put_back() -> None:
    one = learner("REINFORCE", learning_rate={"linear": [1e-2, 0.0]})
    start = {key: value.clone() for key, value in one.context.model.adapter_tensors("learner").items()}
    one.update(made_up(), 0.0)
    one.go_back("learner", start)
    assert one.version("learner") == 2 and not one.students["learner"].optimizer.state
    now = one.context.model.adapter_tensors("learner")
    assert all(torch.equal(value, now[key]) for key, value in start.items())
    one.rate_scale = 0.5
    assert one.update(made_up(version=2), 0.5)["train/learning_rate"] == pytest.approx(2.5e-3)


def test_the_start_may_be_an_adapter_of_its_own() -> None:
    model = tiny_model()
    model.add_adapter("learner@0", AdapterConfig(rank=2, alpha=4))
    model.load_adapter_tensors("learner@0", model.adapter_tensors("learner"))
    one = learner("GRPO", model, place={"start": "learner@0", "watch_kl": True})
    assert one.update(made_up(), 0.0)["train/kl_start"] == pytest.approx(0.0, abs=1e-6)
    other = learner("GRPO", place={"watch_kl": True})
    assert other.update(made_up(), 0.0)["train/kl_start"] > 1e-3


def scored(data: Turns, temperature: float = 1.0) -> None:
    """Give the turns of `data` the log-probabilities that the model itself gives them."""
    from ludus.language.algorithms.packing import pack

    model = tiny_model()
    with torch.no_grad():
        for one_turn in data.turns:
            (batch,) = pack([one_turn], [0], 1000, torch.device("cpu"))
            for name, divisor in (("log_probs", temperature), ("raw_log_probs", 1.0)):
                found = score(model, batch, adapter="learner", temperature=divisor).tokens.log_probs
                setattr(one_turn, name, found.numpy())


def test_agreement_with_the_sampler_is_measured_at_its_temperature() -> None:
    data = made_up()
    scored(data, 0.7)
    one = learner("GRPO", language={"sampler": {"temperature": 0.7}})
    gaps = one.agreement("learner", data.turns)
    assert gaps["train/log_prob_gap_max"] < 1e-4
    cut = learner("GRPO", language={"sampler": {"temperature": 0.7, "top_p": 0.9}})
    assert cut.agreement("learner", data.turns)["train/log_prob_gap_max"] < 1e-4
    assert learner("GRPO").agreement("learner", data.turns)["train/log_prob_gap"] > 0.1
    assert one.agreement("learner", []) == {}


def test_fresh_turns_have_weight_one_and_have_not_moved() -> None:
    data = made_up()
    scored(data)
    for algorithm in ALGORITHMS:
        metrics = (
            learner(algorithm, n_epochs=1).update(data, 0.0)
            if algorithm in ("PPO", "GRPO")
            else (learner(algorithm).update(data, 0.0))
        )
        assert metrics["train/importance_weight"] == pytest.approx(1.0, abs=1e-4)
        assert metrics["train/approx_kl"] == pytest.approx(0.0, abs=1e-6)
        assert metrics["train/staleness"] == 0


def test_what_users_know_is_reported() -> None:
    data = made_up()
    data.turns[0].truncated = True
    data.turns[1].prompt_cut = 12
    rewards = RewardsConfig(final=["role_advantage"], step=["format"], sampling=["center_by_env"])
    metrics = learner("PPO", rewards=rewards, kl_coef=0.1).update(data, 0.0)
    wanted = (
        "policy_loss value_loss entropy approx_kl clip_fraction kl_start grad_norm learning_rate staleness"
    )
    wanted += " importance_weight sequence_length truncated truncated_tokens explained_variance stale_turns"
    for name in wanted.split():
        assert f"train/{name}" in metrics
    assert metrics["train/truncated"] == 2 and metrics["train/truncated_tokens"] == 12
    assert metrics["train/sequence_length"] == pytest.approx(
        np.mean([len(t.prompt) + len(t.completion) for t in data.turns])
    )
    for part in ("game", "role_advantage", "final", "format", "center_by_env"):
        assert f"reward/TicTacToe-v0/0/{part}" in metrics
    assert 0 < metrics["games/action_diversity"] <= 1


def test_advantages_are_centred_unless_groups_are_compared_or_the_config_says_otherwise() -> None:
    for algorithm, expected in (("REINFORCE", ["center_by_env"]), ("PPO", ["center_by_env"]), ("GRPO", [])):
        assert list(learner(algorithm, rewards=RewardsConfig()).transforms.sampling) == expected
    chosen = RewardsConfig(sampling=["zscore_by_env"])
    assert list(learner("GRPO", rewards=chosen).transforms.sampling) == ["zscore_by_env"]


def test_rewards_of_a_match_reach_the_turns_of_each_seat() -> None:
    turns = [turn(seat=seat, index=seat) for seat in (0, 1)]
    data = experience([match(turns, (1.0, -1.0))])
    learner("REINFORCE").update(data, 0.0)
    assert [one.reward for one in turns] == [1.0, -1.0] == [one.advantage for one in turns]
