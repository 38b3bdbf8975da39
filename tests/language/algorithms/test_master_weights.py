"""Training all weights of a bfloat16 model moves float32 masters as a float32 model moves its weights."""

from __future__ import annotations

import pytest
import torch
from language_setup import learner, made_up, tiny_model
from torch import Tensor

from ludus.config.language import WarmupConfig
from ludus.language.algorithms.demonstrations import Demonstration
from ludus.language.algorithms.learner import LanguageLearner
from ludus.language.algorithms.warmup import imitate
from ludus.language.models.model import LanguageModel
from ludus.runs.streams import Streams

RATE = 1e-6


def full_model(dtype: torch.dtype) -> LanguageModel:
    """All weights learn; both dtypes begin with the same numbers."""
    model = tiny_model(full=True)
    for module in (model.base, model.adapter("learner")):
        module.to(torch.bfloat16).to(dtype)
    return model


def made(dtype: torch.dtype, algorithm: str = "REINFORCE", **h: object) -> LanguageLearner:
    return learner(
        algorithm,
        full_model(dtype),
        language={"tokens_per_step": 40, "sampler": {"max_new_tokens": 8}},
        **({"learning_rate": RATE} | h),
    )


def learnt(one: LanguageLearner) -> list[Tensor]:
    """The weights in float32: the masters, where there are any."""
    return [
        parameter.detach().clone()
        for parameter in one.students["learner"].optimizer.param_groups[0]["params"]
    ]


def moved(after: list[Tensor], before: list[Tensor]) -> float:
    """Share of the weights that differ."""
    return sum(int((a != b).sum()) for a, b in zip(after, before, strict=True)) / sum(
        a.numel() for a in after
    )


def test_as_many_weights_move_in_bfloat16_as_in_float32() -> None:
    exact, rounded = made(torch.float32), made(torch.bfloat16)
    for step in range(3):
        data = made_up(seed=step, version=step)
        before = learnt(exact), learnt(rounded)
        for one in (exact, rounded):
            one.update(data, 0.0)
        shares = moved(learnt(exact), before[0]), moved(learnt(rounded), before[1])
        assert shares[0] > 0.5 and shares[1] == pytest.approx(shares[0], abs=2e-3)
    weights = rounded.context.model.trainable("learner")
    for weight, master in zip(weights, learnt(rounded), strict=True):
        assert weight.dtype == torch.bfloat16 and master.dtype == torch.float32
        assert torch.equal(weight, master.bfloat16())


def test_small_steps_add_up_to_those_of_float32() -> None:
    exact, rounded = made(torch.float32, learning_rate=1e-5), made(torch.bfloat16, learning_rate=1e-5)
    start = learnt(exact)
    for step in range(20):
        for one in (exact, rounded):
            one.update(made_up(seed=step % 2, version=step), 0.0)
    ways = [
        torch.cat([(b - a).flatten() for a, b in zip(start, learnt(one), strict=True)])
        for one in (exact, rounded)
    ]
    assert torch.cosine_similarity(*ways, dim=0) > 0.95
    assert ways[1].norm() / ways[0].norm() == pytest.approx(1.0, abs=0.05)


def test_gradients_of_several_passes_add_up_in_float32() -> None:
    one = made(torch.bfloat16)
    one.update(made_up(), 0.0)  # 40 tokens in a pass: several
    for parameter in one.students["learner"].optimizer.param_groups[0]["params"]:
        assert parameter.grad is None or parameter.grad.dtype == torch.float32
        state = one.students["learner"].optimizer.state.get(parameter, {})
        assert all(value.dtype == torch.float32 for value in state.values())


def test_a_resumed_bfloat16_learner_continues_to_the_bit() -> None:
    one = made(torch.bfloat16, "PPO", mini_batch_size=5)
    one.update(made_up(), 0.0)
    tensors = {key: value.clone() for key, value in one.tensors().items()}
    values, streams = one.values(), one.context.streams.state_dict()
    weights = {key: value.clone() for key, value in one.context.model.adapter_tensors("learner").items()}
    other = made(torch.bfloat16, "PPO", mini_batch_size=5)
    other.context.model.load_adapter_tensors("learner", weights)
    other.load(tensors, values)
    other.context.streams.load_state_dict(*streams)
    for seed in (1, 2):
        found = [x.update(made_up(seed=seed, version=x.version("learner")), 0.5) for x in (one, other)]
        assert found[0] == found[1]
    assert any(key.startswith("learner.master.") for key in tensors)
    assert all(torch.equal(value, other.tensors()[key]) for key, value in one.tensors().items())


def test_masters_follow_weights_that_were_loaded_or_put_back() -> None:
    one = made(torch.bfloat16)
    start = {key: value.clone() for key, value in one.context.model.adapter_tensors("learner").items()}
    one.update(made_up(), 0.0)
    other = {key: value + 1 for key, value in start.items()}
    one.context.model.load_adapter_tensors("learner", other)  # as `pretrained_model` does
    one.update(made_up(version=1), 0.0)
    for name, weight in one.context.model.adapter_tensors("learner").items():
        torch.testing.assert_close(weight.float(), other[name].float(), atol=2 * RATE, rtol=2**-8)
    one.go_back("learner", start)
    assert all(
        torch.equal(master, weight.float())
        for master, weight in zip(learnt(one), one.context.model.trainable("learner"), strict=True)
    )


def test_the_warm_start_of_bfloat16_weights_learns_as_in_float32() -> None:
    pairs = [Demonstration(prompt=(1, 2, i), completion=(7, i % 3)) for i in range(20)]
    settings = WarmupConfig(source="minimax", epochs=4, batch_size=10, learning_rate=1e-4)
    losses = []
    for dtype in (torch.float32, torch.bfloat16):
        one = made(dtype)
        curve = imitate(one.context, "learner", pairs, settings, Streams(0).numpy("warmup"))
        losses.append(curve[0].loss - curve[-1].loss)
    assert losses[0] > 0 and losses[1] == pytest.approx(losses[0], rel=0.1)
