"""NaN and infinity in what a language model learns from: at every place of an update, and in a warm start."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from test_not_finite import evidence, language_trainer

from ludus.errors import NotFinite
from ludus.runs.checkpoints import CheckpointManager
from ludus.training.callbacks import BaseCallback


def spoil_hidden(trainer: Any, student: Any) -> None:
    """Make the hidden states that the model computes for the learner NaN."""
    hidden = trainer.model.hidden

    def spoilt(*arguments: Any, **more: Any) -> torch.Tensor:
        found = hidden(*arguments, **more)
        return found * math.nan if torch.is_grad_enabled() and student.updates >= 2 else found

    trainer.model.hidden = spoilt


def spoil_loss(trainer: Any, student: Any) -> None:
    """The loss becomes infinite, and its gradient stays as it was."""
    token_loss = trainer.learner._token_loss

    def spoilt(*arguments: Any) -> Any:
        loss, policy_loss = token_loss(*arguments)
        return loss + (math.inf if student.updates >= 2 else 0.0), policy_loss

    trainer.learner._token_loss = spoilt


def spoil_experience(trainer: Any, student: Any, spoil: Any) -> None:
    collect = trainer.collector.collect

    def spoilt(policy: Any) -> Any:
        experience = collect(policy)
        if student.updates >= 2:
            spoil(experience)
        return experience

    trainer.collector.collect = spoilt


def spoil_reward(trainer: Any, student: Any) -> None:
    def spoil(experience: Any) -> None:
        for match in experience.matches:
            match.rewards = (math.nan, *match.rewards[1:])

    spoil_experience(trainer, student, spoil)


def spoil_log_prob(trainer: Any, student: Any) -> None:
    def spoil(experience: Any) -> None:
        for turn in experience.turns:
            turn.log_probs = turn.log_probs + math.nan

    spoil_experience(trainer, student, spoil)


def spoil_value(trainer: Any, student: Any) -> None:
    student.head.register_forward_hook(
        lambda module, inputs, output: output - math.inf if student.updates >= 2 else output
    )


LANGUAGE_PLACES: dict[str, tuple[Any, str]] = {
    "what the model computes": (spoil_hidden, "It was env step"),
    "loss alone": (spoil_loss, "It was env step"),
    "reward": (spoil_reward, "the advantage of turn"),
    "log-probability": (spoil_log_prob, "the sampler's log-probability of turn"),
    "value": (spoil_value, "the advantage of turn"),
}


@pytest.mark.parametrize(
    ("algorithm", "place"),
    [
        pytest.param(
            algorithm, place, marks=[] if (algorithm, place) == ("PPO", "reward") else pytest.mark.faults
        )
        for algorithm in ("REINFORCE", "A2C", "PPO", "GRPO")
        for place in LANGUAGE_PLACES
        if place != "value" or algorithm in ("A2C", "PPO")
    ],
)
def test_loss_of_a_language_model_that_is_not_finite_ends_the_run(
    algorithm: str, place: str, tmp_path: Path, record_fault: Any
) -> None:
    run = tmp_path / "run"
    trainer = language_trainer(run, algorithm)
    trainer.create_model()
    student = trainer.learner.students["learner"]
    spoil, named = LANGUAGE_PLACES[place]
    spoil(trainer, student)
    learnt: list[list[bytes]] = []

    def weights_of(student: Any) -> list[bytes]:
        kept = [*student.masters.parameters, *(() if student.head is None else student.head.parameters())]
        return [parameter.detach().numpy().tobytes() for parameter in kept]

    class Remembering(BaseCallback):
        def _on_rollout_end(self) -> None:
            learnt.append(weights_of(student))

    try:
        with pytest.raises(NotFinite, match="the optimizer was not stepped") as caught:
            trainer.train(callback=Remembering())
    finally:
        trainer.close()
        record_fault(f"NaN or infinite {place} of a language model", 1, int("caught" in locals()))
    assert weights_of(student) == learnt[-1] and len(learnt) == 3
    message = "\n".join([str(caught.value), *caught.value.__notes__])
    assert named in message and "update 3." in message
    arrays = evidence(run, caught.value)
    assert {"prompts", "completions", "log_probs", "advantages"} < set(arrays)
    assert sorted(path.stem for path in (run / "league").glob("*.safetensors")) == ["learner@0"]


def test_weights_of_a_language_model_that_are_not_finite_are_neither_saved_nor_frozen(
    tmp_path: Path, record_fault: Any
) -> None:
    run = tmp_path / "run"
    trainer = language_trainer(run, "REINFORCE", league={"opponents": "mirror", "version_every": 1})
    trainer.create_model()
    student = trainer.learner.students["learner"]

    def spoil(*_: Any) -> None:
        if student.updates >= 2:
            student.masters.parameters[0].data.view(-1)[1] = math.inf

    student.optimizer.register_step_post_hook(spoil)
    try:
        with pytest.raises(NotFinite, match=r"learner\..* = inf; it is not saved") as caught:
            trainer.train()
    finally:
        trainer.close()
        record_fault("weights that are not finite", 1, int("caught" in locals()))
    assert {"prompts", "completions"} < set(evidence(run, caught.value))
    frozen = sorted((run / "league").glob("*.safetensors"))
    assert [path.stem for path in frozen] == ["learner@0", "learner@1", "learner@2"]
    for path in frozen:
        assert all(np.isfinite(array).all() for array in safetensors.numpy.load_file(path).values())


@pytest.mark.parametrize("place", ["loss", "gradient"])
def test_a_warm_start(place: str, tmp_path: Path, record_fault: Any) -> None:
    run = tmp_path / "run"
    warmup = {"source": "random", "pairs": 24, "epochs": 2, "batch_size": 8}
    trainer = language_trainer(run, "REINFORCE", warmup=warmup)
    trainer.create_model()
    student = trainer.learner.students["learner"]
    passes: list[list[bytes]] = []

    def weights_now() -> list[bytes]:
        return [parameter.detach().numpy().tobytes() for parameter in student.masters.parameters]

    def spoil_gradient(gradient: torch.Tensor) -> torch.Tensor:
        passes.append(weights_now())
        return gradient * math.nan if place == "gradient" and len(passes) >= 4 else gradient

    hidden = trainer.model.hidden

    def spoilt(*arguments: Any, **more: Any) -> torch.Tensor:
        found = hidden(*arguments, **more)
        bad = place == "loss" and torch.is_grad_enabled() and len(passes) >= 3
        return found * math.nan if bad else found

    trainer.model.hidden = spoilt
    student.masters.parameters[0].register_hook(spoil_gradient)
    try:
        with pytest.raises(NotFinite, match=r"step 4 of 6 of the warm start, epoch 2") as caught:
            trainer.train()
    finally:
        trainer.close()
        record_fault(f"NaN or infinite {place} of a warm start", 1, int("caught" in locals()))
    assert weights_now() == passes[3] != passes[0]
    assert CheckpointManager(run / "checkpoints").newest_intact() is None and not (run / "league").exists()
    (file,) = (run / "faults").glob("*.safetensors")
    arrays = safetensors.numpy.load_file(file)
    assert len(arrays["completion_lengths"]) == 8 and arrays["prompt_lengths"].sum() == len(arrays["prompts"])
    assert "First bad value of the network: the gradient of learner." in "\n".join(caught.value.__notes__)
