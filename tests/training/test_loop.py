"""The training loop: collect, credit, learn and publish, in this order, for whatever is trained."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pydantic
import pytest
from tiny_runs import tiny, trainer_for

from ludus.config.schema import TrainerConfig
from ludus.training import loop
from ludus.training.base import Publisher
from ludus.training.resolve import ResolvedConfig
from ludus.training.session import Session


class Calls(list[str]):
    """Notes the calls of methods, and passes them on."""

    def note(self, place: Any, *names: str) -> None:
        for name in names:
            setattr(place, name, self._noting(name, getattr(place, name)))

    def _noting(self, name: str, original: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self.append(name)
            return original(*arguments, **named)

        return call


def test_an_update_collects_credits_learns_and_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_for(tiny(tmp_path, total_timesteps=384, evaluation=None))
    trainer.create_model()
    calls = Calls()
    calls.note(trainer.collector, "collect")
    calls.note(trainer.learner, "credit", "learn")
    calls.note(trainer.publisher, "send", "publish")
    for name in ("count", "record", "run_due_work", "finish"):
        original = getattr(Session, name)

        def noting(session: Session, *arguments: Any, name: str = name, original: Any = original) -> Any:
            calls.append(name)
            return original(session, *arguments)

        monkeypatch.setattr(Session, name, noting)
    trainer.train()
    trainer.close()
    update = ["collect", "count", "credit", "learn", "publish", "send", "record", "run_due_work"]
    updates = (len(calls) - 2) // len(update)
    assert updates > 1
    assert calls == ["send", *update * updates, "finish"]


def test_schedules_see_the_steps_of_the_experience_they_are_applied_to(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path, total_timesteps=384, evaluation=None))
    trainer.create_model()
    learner: Any = trainer.learner
    credit, learn = learner.credit, learner.learn
    seen: list[float] = []
    learner.credit = lambda experience, fraction: (seen.append(fraction), credit(experience, fraction))[1]
    learner.learn = lambda batch, fraction: (seen.append(fraction), learn(batch, fraction))[1]
    trainer.train()
    trainer.close()
    assert seen[0] == seen[1] > 0.0
    assert seen[-1] == 1.0


def test_what_is_published_is_what_was_learned(tmp_path: Path) -> None:
    class Recorder(Publisher):
        def __init__(self) -> None:
            self.sent: list[Any] = []

        def send(self, learner: Any) -> None:
            self.sent.append({k: v.clone() for k, v in learner.policy.state_dict().items()})

    trainer = trainer_for(tiny(tmp_path, total_timesteps=384, evaluation=None))
    first = {k: v.clone() for k, v in trainer.policy.state_dict().items()}
    trainer.publisher = recorder = Recorder()
    trainer.train()
    last = trainer.policy.state_dict()
    trainer.close()
    assert all(recorder.sent[0][name].equal(value) for name, value in first.items())
    assert all(recorder.sent[-1][name].equal(value) for name, value in last.items())
    assert any(not first[name].equal(value) for name, value in last.items())


def test_the_loop_fits_on_a_screen() -> None:
    source = inspect.getsource(loop)
    assert len(source.splitlines()) < 40
    places = [source.index(word) for word in (".collect(", ".credit(", ".learn(", ".publish(")]
    assert places == sorted(places)


def test_a_resolved_config_cannot_be_changed_and_the_given_one_can(tmp_path: Path) -> None:
    given = tiny(tmp_path, device="auto", threads="auto", vector="auto")
    trainer = trainer_for(given)
    trainer.create_model()
    resolved = trainer.config
    assert isinstance(resolved, ResolvedConfig) and isinstance(resolved, TrainerConfig)
    assert "auto" not in (resolved.device, resolved.threads, resolved.vector, resolved.precision)
    for name, value in {"seed": 7, "checkpoint_freq": 5, "use_wandb": True}.items():
        with pytest.raises(pydantic.ValidationError, match="frozen"):
            setattr(resolved, name, value)
    given.seed = 7
    assert given.device == "auto" and resolved.seed != 7
    trainer.close()
