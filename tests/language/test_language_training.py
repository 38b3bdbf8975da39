"""Language runs train on exactly the sampled turns, and a resumed run ends like an uninterrupted one."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_runs import resumed, same, steps_of

from ludus.config.loading import load_config
from ludus.config.schema import TrainerConfig
from ludus.envs.seats import GameFault
from ludus.errors import CheckpointError, ConfigError, LudusError, UnknownName, UserError
from ludus.evaluation.players import make_player
from ludus.language import collector as matches
from ludus.language.algorithms import packing
from ludus.language.algorithms.learner import LanguageLearner
from ludus.language.collector import MatchCollector, OpenMatch, ReturnSpread
from ludus.language.game_files import read_games
from ludus.language.models.decoding import Decoder
from ludus.language.models.peft_files import export_peft
from ludus.language.models.sampling import Request
from ludus.language.session import SelfPlaySession
from ludus.language.text_games.game import TextGame
from ludus.language.trainer import LanguageTrainer
from ludus.language.turns import Turn
from ludus.league.records import MatchRecord
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.runs.streams import Streams
from ludus.training.factory import create_trainer
from ludus.training.failure import resume_hint

GAME = {"id": "TicTacToe-v0", "template": {"prompt": "{position}"}}


def config_of(folder: Path, **fields: Any) -> TrainerConfig:
    """A language run of seconds: one narrow layer, eight games, three updates."""
    language = {
        "model": "tiny",
        "model_kwargs": {"layers": 1, "hidden": 16, "heads": 2, "context": 32},
        "adapter": {"rank": 2, "alpha": 4},
        "sampler": {"max_new_tokens": 3},
    } | fields.pop("language", {})
    games = {"train": [GAME], "open": 8, "turns": 12} | fields.pop("games", {})
    defaults: dict[str, Any] = {
        "algorithm": "REINFORCE",
        "total_timesteps": "4 updates",
        "checkpoint": {"every": "2 updates", "keep": 0},
        "evaluation": {"every": "2 updates"},
        "tracking": {"every": 1, "tensorboard": False},
        "league": {
            "opponents": "random",
            "train": ["random"],
            "eval": ["random"],
            "eval_games": 2,
            "version_every": 1,
        },
        "rewards": {
            "step": [{"length": -0.1}]
        },  # an untrained model makes no valid move: all else is lost alike
        "hyperparams": {"ent_coef": 0.01},
        "guard": None,
        "save_dir": str(folder),
    }
    return TrainerConfig(language=language, games=games, **(defaults | fields))


def trainer_of(config: TrainerConfig) -> LanguageTrainer:
    trainer = create_trainer(None, config)
    assert isinstance(trainer, LanguageTrainer)
    return trainer


def trained(config: TrainerConfig) -> RunDirectory:
    trainer = trainer_of(config)
    try:
        return RunDirectory.open(trainer.train().run)
    finally:
        trainer.close()


CASES: dict[str, dict[str, Any]] = {
    "reinforce, frozen versions among the opponents": {},
    "ppo with all weights": {"algorithm": "PPO", "language": {"adapter": None}},
    "a2c, games across updates": {"algorithm": "A2C", "games": {"across_updates": True}},
    "grpo on branches": {
        "algorithm": "GRPO",
        "games": {"branch": 3, "branch_at": "uncertain"},
        "league": {"opponents": "mirror", "eval": ["random"], "eval_games": 2},
    },
    "two learners with a warm start, rewards and a guard": {
        "language": {"learners": 2},
        "rewards": {"final": ["role_advantage"], "step": [{"length": -0.1}], "sampling": ["zscore_by_env"]},
        "warmup": {"source": "random", "pairs": 16, "epochs": 1, "batch_size": 8},
        "guard": {"kl": 1e-12, "patience": 1, "rollbacks": 9},
    },
}


@pytest.mark.parametrize("case", CASES)
def test_resumed_run_ends_like_an_uninterrupted_one(case: str, tmp_path: Path) -> None:
    config = config_of(tmp_path / "whole", **CASES[case])
    whole = trained(config)
    cut = trained(config.model_copy(update={"save_dir": str(tmp_path / "cut")}))
    same(whole, cut)
    middle = steps_of(cut)[0]
    assert middle < steps_of(cut)[-1]
    assert resumed(cut, middle) == middle
    same(whole, cut)
    for kind in ("train", "eval"):
        assert games_of(whole, kind) == games_of(cut, kind)


def games_of(run: RunDirectory, kind: str) -> list[Any]:
    return [(update, match | {"seconds": 0}) for update, match in read_games(run, kind)]


def test_the_tokens_trained_on_are_the_tokens_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(config_of(tmp_path))
    trainer.create_model()
    sampled: dict[tuple[int, ...], int] = {}
    draw = trainer.sampler.sample

    def remember(requests: Any) -> Any:
        completions = draw(requests)
        for request, completion in zip(requests, completions, strict=True):
            whole = (*request.prompt, *completion.tokens)
            sampled[whole] = sampled.get(whole, 0) + 1
        return completions

    trained_on: list[tuple[int, ...]] = []
    as_pass = packing._as_pass

    def watch(turns: list[Turn], rows: list[list[int]], *rest: Any) -> Any:
        made = as_pass(turns, rows, *rest)
        for row, members in enumerate(rows):
            at = 0
            for i in members:
                size = len(turns[i].prompt) + len(turns[i].completion) - 1
                seen = made.tokens[row, at : at + size].tolist()
                trained_on.append((*seen, turns[i].completion[-1]))
                at += size
        return made

    monkeypatch.setattr(trainer.sampler, "sample", remember)
    monkeypatch.setattr(packing, "_as_pass", watch)
    trainer.train()
    trainer.close()
    assert len(trained_on) > 20
    assert all(whole in sampled for whole in trained_on)


def test_learner_and_sampler_agree_on_every_update(tmp_path: Path) -> None:
    run = trained(config_of(tmp_path))
    gaps = [row["train/log_prob_gap_max"] for row in rows_of(run) if "train/log_prob_gap_max" in row]
    assert len(gaps) == 4
    assert max(gaps) < 1e-4


def rows_of(run: RunDirectory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.metrics_path.read_text().splitlines()]


def test_what_was_played_can_be_read_back(tmp_path: Path) -> None:
    run = trained(config_of(tmp_path))
    games = list(read_games(run))
    assert {update for update, _ in games} == {1, 2, 3, 4}
    for _, match in games:
        for turn in match["turns"]:
            assert turn["player"] in match["players"]
            assert (turn["seat"], turn["action"]) == tuple(match["moves"][turn["index"]])
    learner_turns = [turn for _, match in games for turn in match["turns"] if turn["player"] == "learner"]
    assert all("final" in turn["reward_parts"] or turn["reward_parts"] for turn in learner_turns)
    assert {path.name for path in run.logs_dir.iterdir()} >= {"train.log", "learner.log", "league.log"}


def test_the_log_of_a_run_has_its_course(tmp_path: Path) -> None:
    run = trained(config_of(tmp_path, total_timesteps="2 updates"))
    lines = [
        line.partition("ludus.run: ")[2] for line in (run.logs_dir / "train.log").read_text().splitlines()
    ]
    beginnings = (
        "frozen: learner@0",
        "started to 2 updates",
        "update 1 at step",
        "frozen: learner@1",
        "update 2 at step",
        "frozen: learner@2",
        "evaluation at step",
        "update 2: learner against random at TicTacToe-v0",
        "checkpoint",
        "finished at step",
    )
    assert [line for line in lines if line.startswith(beginnings)] == [line for line in lines if line]
    found = [next(start for start in beginnings if line.startswith(start)) for line in lines if line]
    assert found == list(beginnings)


def test_collapsed_run_is_rolled_back_with_a_lower_learning_rate(tmp_path: Path) -> None:
    limits = {"kl": 1e-12, "invalid_rate": None, "anchor_drop": None}  # any change at all is too much
    guard = limits | {"patience": 2, "slow_down": 0.5, "rollbacks": 1}
    trainer = trainer_of(config_of(tmp_path, guard=guard, total_timesteps="9 updates"))
    result = trainer.train()
    learner: Any = trainer.learner
    trainer.close()
    assert result.status == "stopped"
    assert "collapsed" in str(result.reason)
    assert learner.rate_scale == 0.25
    rows = rows_of(RunDirectory.open(result.run))
    # the start is all that was well, so that each time the first update is well once more
    assert [row["guard/rollbacks"] for row in rows if "guard/rollbacks" in row] == [0, 0, 1, 1, 1, 2]


def test_going_back_leads_to_a_version_from_before_the_first_sign(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = trainer_of(config_of(tmp_path, total_timesteps="3 updates", guard={}))
    trainer.train()
    trainer.close()
    session, guard = trainer.session, trainer.guard
    assert isinstance(session, SelfPlaySession) and guard is not None
    assert {f"learner@{version}" for version in range(4)} <= set(trainer.league.members)

    def collapsed() -> str:
        guard._in_a_row, guard._since_well = {"games/entropy": 1}, {"games/entropy": 1}
        caplog.clear()
        session.roll_back(guard, "made up")
        return next(text for text in caplog.messages if "goes back to" in text)

    # update 2 was the last that was well, and version 1 played it
    assert collapsed().endswith("learner@1")
    # the learner is version 4 now: version 2 is old enough, but was frozen in a collapse
    assert collapsed().endswith("learner@1")
    caplog.clear()
    guard._in_a_row = {"eval/score": 1}
    session.check_for_collapse({})
    assert not caplog.messages  # nothing was measured: there is nothing to say


def test_failure_reports_the_command_to_resume(tmp_path: Path) -> None:
    trainer = trainer_of(config_of(tmp_path, total_timesteps="1 updates", evaluation=None))
    result = trainer.train()
    trainer.close()
    assert trainer.session is not None
    assert resume_hint(trainer.session).endswith(f"ludus resume {result.run}")


def test_a_version_that_is_gone_is_named_and_nothing_is_called_intact(tmp_path: Path) -> None:
    run = trained(config_of(tmp_path, evaluation=None))
    (run.path / "league" / "learner@1.safetensors").unlink()
    with pytest.raises(CheckpointError, match="learner@1") as caught:
        resumed(run, steps_of(run)[-1])
    assert not getattr(caught.value, "__notes__", [])


def test_a_trainer_that_trains_twice_writes_its_logs_once(tmp_path: Path) -> None:
    trainer = trainer_of(config_of(tmp_path, total_timesteps="1 updates", evaluation=None))
    trainer.train()
    result = trainer.train("3 updates")
    trainer.close()
    lines = (RunDirectory.open(result.run).logs_dir / "league.log").read_text().splitlines()
    assert [sum(f"learner@{version};" in line for line in lines) for version in range(4)] == [1, 1, 1, 1]


def test_an_adapter_that_a_run_began_with_is_not_needed_afterwards(tmp_path: Path) -> None:
    other = trainer_of(config_of(tmp_path / "other"))
    other.create_model()
    folder = tmp_path / "of rank 2"
    export_peft(other.model, "learner", folder, base="tiny")
    other.close()
    adapter = {"start": str(folder)}  # its rank is the folder's, not the default
    run = trained(config_of(tmp_path / "runs", language={"adapter": adapter}))
    shutil.rmtree(folder)
    middle = steps_of(run)[0]
    assert resumed(run, middle) == middle
    games = load_config(run.config_path).config.games
    assert games is not None
    player = make_player(str(run.path), [games.train[0].spec()], streams=Streams(1))
    assert player.kind == "model"


def test_nothing_that_is_not_saved_outlives_a_checkpoint(tmp_path: Path) -> None:
    wide = {"layers": 1, "hidden": 16, "heads": 2, "context": 128}
    trainer = trainer_of(config_of(tmp_path, language={"model_kwargs": wide}))
    trainer.create_model()
    request = Request(tuple(range(40)), "learner", "0/0")
    trainer.sampler.sample([request])
    assert trainer.collector is not None
    computed = []
    for after in (lambda: None, lambda: trainer.collector.barrier(1)):
        after()
        before = trainer.sampler.work.computed
        trainer.sampler.sample([request])
        computed.append(trainer.sampler.work.computed - before)
    trainer.close()
    assert computed == [1, 40]


def test_going_back_restores_the_frozen_weights(tmp_path: Path) -> None:
    trainer = trainer_of(config_of(tmp_path, total_timesteps="3 updates"))
    trainer.train()
    assert isinstance(trainer.session, SelfPlaySession)
    first = trainer.pool.weights("learner@0")
    now = trainer.pool.weights("learner")
    assert any(not np.array_equal(first[name], now[name]) for name in first)
    learner: Any = trainer.learner
    learner.go_back("learner", first)
    after = trainer.pool.weights("learner")
    assert all(np.array_equal(first[name], after[name]) for name in first)
    assert not learner.students["learner"].optimizer.state
    trainer.close()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_seats_and_rewards_belong_to_whom_they_should(share: float, tmp_path: Path) -> None:
    league = {
        "opponents": "fixed",
        "train": ["random"],
        "mirror_share": share,
        "eval": ["random"],
        "eval_games": 2,
    }
    trainer = trainer_of(config_of(tmp_path, league=league, games={"turns": 60}))
    trainer.create_model()
    collector: Any = trainer.collector
    assert isinstance(collector, MatchCollector)
    experience = collector.collect(None)
    seats = set()
    for match in experience.matches:
        own = [seat for seat, name in enumerate(match.players) if name == "learner"]
        assert len(own) == (2 if share else 1)
        seats |= set(own)
        for turn in match.turns:
            assert match.players[turn.seat] == turn.player
    assert seats == {0, 1}
    assert experience.steps == len(experience.turns) >= 60
    trainer.close()


def test_a_group_is_played_from_one_state(tmp_path: Path) -> None:
    games = {"branch": 4, "turns": 40}
    trainer = trainer_of(config_of(tmp_path, algorithm="GRPO", games=games, league={"opponents": "mirror"}))
    trainer.create_model()
    collector: Any = trainer.collector
    for _ in range(3):  # from the second collection on it knows how long games are
        experience = collector.collect(None)
    trainer.close()
    groups: dict[int, list[MatchRecord]] = {}
    for match in experience.matches:
        if match.group is not None:
            groups.setdefault(match.group, []).append(match)
    assert groups
    for members in groups.values():
        assert len(members) == 4
        assert len({match.seed for match in members}) == 1
        firsts = [min((t for t in match.turns), key=lambda turn: turn.index) for match in members]
        assert len({turn.observation for turn in firsts}) == 1
        assert len({turn.prompt for turn in firsts}) == 1
        assert {turn.group for match in members for turn in match.turns} == {members[0].group}


def test_where_games_branch_is_learnt_from_whole_games(tmp_path: Path) -> None:
    trainer = trainer_of(config_of(tmp_path, algorithm="GRPO", games={"branch": 2}))
    trainer.create_model()
    collector: Any = trainer.collector
    collector._tally = matches.TurnTally()
    moves = [(0, "[0]"), (1, "[3]"), (0, "[1]"), (1, "[4]"), (0, "[2]")]
    game = TextGame.replay(collector.tables[0].spec, 1, [action for _, action in moves])
    # it branched at the last turn: only that one is in the group
    collector._finish(OpenMatch(0, 0, game, ("learner", "learner"), learner_seat=0, moves=moves, group=0))
    trainer.close()
    assert collector._spread.state_dict()["length"] == [1 + ReturnSpread.DECAY * (3 - 1)]


def test_a_game_that_cannot_branch_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    branch, faults = TextGame.branch, [GameFault("it does not repeat itself")]

    def once(game: TextGame) -> TextGame:
        if faults:
            raise faults.pop()
        return branch(game)

    monkeypatch.setattr(TextGame, "branch", once)
    trainer = trainer_of(config_of(tmp_path, algorithm="GRPO", games={"branch": 2}))
    trainer.create_model()
    collector: Any = trainer.collector
    experience = collector.collect(None)
    trainer.close()
    assert collector.metrics["games/skipped"] == 1
    members = Counter(match.group for match in experience.matches if match.group is not None)
    assert members and set(members.values()) == {2}


def test_a_match_against_no_other_player_is_skipped_and_many_in_a_row_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-this-test")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    league = {"opponents": "fixed", "train": ["openai:nobody?retries=0"], "mirror_share": 0.0, "eval": []}
    run = trained(config_of(tmp_path, league=league, evaluation=None))
    assert sum(row["games/skipped"] for row in rows_of(run)) > 0
    monkeypatch.setattr(matches, "MAX_SKIPPED", 3)
    trainer = trainer_of(config_of(tmp_path, league=league, evaluation=None, total_timesteps="99 updates"))
    with pytest.raises(UserError, match="3 matches in a row could not be played"):
        trainer.train()
    trainer.close()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sk-secret" not in written


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        ("learning", {}),
        ("learning", {"algorithm": "A2C", "games": {"across_updates": True}}),
        ("collecting", {"algorithm": "PPO", "games": {"across_updates": True}}),
        ("sampling", {"algorithm": "PPO", "games": {"across_updates": True}}),
        ("sampling", {}),
    ],
)
def test_a_signal_ends_a_long_update_at_once_and_the_run_resumes_exactly(
    place: str, fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.training.session.LONG_UPDATE", 0.0)
    fields = fields | {"evaluation": None, "checkpoint": {"every": None}}
    one_turn_a_pass = {"tokens_per_step": 1}
    config = config_of(tmp_path / "whole", language=one_turn_a_pass, **copy.deepcopy(fields))
    whole = trained(config)
    calls = {"learning": 0, "collecting": 0, "sampling": 0}
    updates = []
    losses, ticks, passes, learn = (
        LanguageLearner._token_loss,
        MatchCollector._tick,
        Decoder._run,
        SelfPlaySession.before_collect,
    )

    def in_update_3(kind: str) -> None:
        if len(updates) == 3 and kind == place:
            calls[kind] += 1
            if calls[kind] == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    def token_loss(learner: Any, *args: Any) -> Any:
        in_update_3("learning")
        return losses(learner, *args)

    def tick(collector: Any) -> None:
        in_update_3("collecting")
        ticks(collector)

    def forward_pass(decoder: Any, *args: Any) -> Any:
        in_update_3("sampling")
        return passes(decoder, *args)

    def before_collect(session: Any) -> None:
        updates.append(session.progress.updates)
        learn(session)

    with monkeypatch.context() as patched:
        patched.setattr(LanguageLearner, "_token_loss", token_loss)
        patched.setattr(MatchCollector, "_tick", tick)
        patched.setattr(Decoder, "_run", forward_pass)
        patched.setattr(SelfPlaySession, "before_collect", before_collect)
        run = trained(config.model_copy(update={"save_dir": str(tmp_path / "cut")}))
    assert run.info()["status"] == "interrupted" and updates == [0, 1, 2] and calls[place] == 1
    (checkpoint,) = CheckpointManager(run.checkpoints_dir).list()
    assert checkpoint.exact and checkpoint.state()["progress"]["updates"] == 2
    resumed(run)
    same(run, whole)


def test_without_opponents_of_evaluations_a_run_does_not_evaluate(tmp_path: Path) -> None:
    league = {"opponents": "mirror", "eval": []}
    run = trained(config_of(tmp_path, league=league, evaluation={}, total_timesteps="1 updates"))
    assert run.info()["status"] == "finished" and run.info()["evaluation"] is None
    assert load_config(run.config_path).config.evaluation.every is None
    trainer = trainer_of(config_of(tmp_path, league=league, evaluation={}))
    with pytest.raises(ConfigError, match=r"league\.eval names none"):
        trainer.evaluate_episodes(2)
    trainer.close()


def test_an_evaluation_whose_games_were_all_skipped_has_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    league = {"opponents": "mirror", "eval": ["openai:nobody?retries=0"], "eval_games": 1}
    games = {"eval": ["KuhnPoker-v0"]}  # seat 1 begins, where the opponent of the first game sits
    run = trained(config_of(tmp_path, league=league, games=games, total_timesteps="1 updates"))
    assert run.info()["status"] == "finished" and run.info()["evaluation"] is None
    assert "no episode of this evaluation could be played to its end" in caplog.text
    assert not any(name.startswith("eval/") for row in rows_of(run) for name in row)


def test_settings_without_effect_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = {"n_envs": 4, "policy": {"features_dim": 64}, "env": "CartPole-v1"}
    trainer = trainer_of(config_of(tmp_path, **given))
    trainer.create_model()
    trainer.close()
    said = [text for text in caplog.messages if "has no effect: " in text]
    assert [text.split()[0] for text in said] == ["env", "n_envs", "policy"]
    assert "games.open" in said[1]


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"league": {"eval": []}}, ConfigError, "evaluation: null"),
        ({"games": {"train": ["TikTakToe-v0"]}}, UnknownName, "TicTacToe-v0"),
        ({"language": {"model": "smollm", "model_kwargs": {}}}, LudusError, "smollm2-135m"),
        (
            {"games": {"train": [{"id": "TicTacToe-v0", "template": {"prompt": "your move"}}]}},
            ConfigError,
            "slot",
        ),
        ({"algorithm": "DQN"}, ConfigError, "language"),
        ({"games": {"branch": 2, "across_updates": True}}, ConfigError, "branch"),
        ({"algorithm": "GRPO"}, ConfigError, "set games.branch to 4 or more"),
        ({"league": {"train": ["minmax"]}}, LudusError, "minimax"),
    ],
)
def test_config_that_cannot_be_trained_is_reported_before_a_run_exists(
    fields: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        trainer_of(config_of(tmp_path, **fields)).create_model()
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_an_open_match_that_cannot_be_played_again_is_dropped_at_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_of(tmp_path, games={"across_updates": True}, evaluation=None, total_timesteps="2 updates")
    run = trained(config)
    state = CheckpointManager(run.checkpoints_dir).list()[-1].state()
    assert state["matches"]["open"]
    replay, faults = TextGame.replay, [GameFault("it does not repeat itself")]

    def once_at_fault(*args: Any) -> TextGame:
        if faults:
            raise faults.pop()
        return replay(*args)

    monkeypatch.setattr(TextGame, "replay", once_at_fault)
    resumed(run, total="3 updates")
    assert run.info()["status"] == "finished"
    assert "is dropped: it does not repeat itself" in caplog.text
