"""Answers are read as the official message class reads them, whatever the answer before was."""

from __future__ import annotations

import random
from typing import Any

import pytest
from diambra.engine import model
from google.protobuf.message import DecodeError

from ludus.games.diambra.answers import AnswerReader
from ludus.games.diambra.standin.server import EngineStandIn


def _fight(steps: int, still: bool) -> list[bytes]:
    standin = EngineStandIn()
    game = model.EnvSettings(game_id="sfiii3n", step_ratio=6, n_players=1)
    game.frame_shape.h = game.frame_shape.w = 36
    game.frame_shape.c = 1
    standin.EnvInit(game, None)
    episode = model.EnvSettings.EpisodeSettings(random_seed=3, difficulty=4)
    episode.player_settings.add(role=model.RamStatesCategories.P1, characters=["Ken"])
    chance = random.Random(1)
    answers = [standin.Reset(episode, None)]
    for _ in range(steps):
        actions = model.Actions()
        actions.actions.add(
            move=0 if still else chance.randrange(9), attack=0 if still else chance.randrange(7)
        )
        answers.append(standin.Step(actions, None))
    return answers


def _with(frame: bytes, **fields: Any) -> bytes:
    message = model.StepResetResponse(**fields)
    message.observation.frame = frame
    return bytes(message.SerializeToString())


@pytest.mark.parametrize("still", [True, False])
def test_every_answer_of_a_fight_is_read_as_the_official_class_reads_it(still: bool) -> None:
    reader = AnswerReader()
    kept = 0
    last = None
    for data in _fight(120, still):
        read = reader.read(data)
        kept += read is last
        last = read
        assert read == model.StepResetResponse.FromString(data)
    assert kept > 10  # else there would be no point in it


def test_odd_answers_are_read_alike_too() -> None:
    plain, other = _with(b"abcd", reward=2), _with(b"wxyz", reward=2)
    odd = [
        b"",
        _with(b"", reward=2),
        _with(b"abcde", reward=2),
        _with(b"efgh", reward=3),
        plain + _with(b"last"),  # a reader makes one message of two, and the later frame counts
        other + _with(b"last"),
        bytes(model.StepResetResponse(reward=5).SerializeToString()),
        _with(bytes(300)) + bytes(model.StepResetResponse(reward=5).SerializeToString()),
    ]
    reader = AnswerReader()
    for data in odd:
        for one in (plain, other, data, data, plain):
            assert reader.read(one) == model.StepResetResponse.FromString(one)


def test_an_answer_cut_short_is_refused_after_a_whole_one() -> None:
    whole = _with(b"abcd")
    for end in range(1, len(whole)):
        reader = AnswerReader()
        reader.read(whole)
        with pytest.raises(DecodeError):
            reader.read(whole[:end])


def test_a_size_that_does_not_end_is_refused_as_the_official_class_refuses_it() -> None:
    for data in (b"\x0a" + b"\xff" * 1_000_000, b"\x0a\x05\x0a" + b"\xff" * 1_000_000):
        with pytest.raises(DecodeError):
            AnswerReader().read(data)
