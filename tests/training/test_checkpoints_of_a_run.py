"""Which checkpoints a run writes, keeps and calls the best, and what resuming from one takes over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import resumed, rows, steps_of, tiny, trained, trainer_for

from ludus.config.loading import load_config
from ludus.errors import CheckpointError, UserError
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.training.factory import open_trainer


def checkpoints(run: RunDirectory) -> dict[int, tuple[bool, bool]]:
    """Step to (resumable, exact)."""
    return {c.step: (c.resumable, c.exact) for c in CheckpointManager(run.checkpoints_dir).list()}


def test_intervals_in_steps_and_in_updates(tmp_path: Path) -> None:
    by_steps = trained(tiny(tmp_path / "steps", checkpoint={"every": 300, "keep": 0}))
    assert steps_of(by_steps) == [384, 640, 1024]  # the updates at which 300, 600 and 900 had passed
    by_updates = trained(tiny(tmp_path / "updates", checkpoint={"every": "3 updates", "keep": 0}))
    assert checkpoints(by_updates) == {384: (True, True), 768: (True, True), 1024: (True, False)}


def test_saves_by_the_clock_are_not_exact(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, checkpoint={"every": "0.001 s", "keep": 0}))
    assert set(checkpoints(run).values()) == {(True, False)} and len(checkpoints(run)) == 8


def test_without_an_interval_the_end_is_saved(tmp_path: Path) -> None:
    assert checkpoints(trained(tiny(tmp_path, checkpoint=None))) == {1024: (True, False)}


def test_the_newest_are_kept_and_so_are_pinned_ones(tmp_path: Path) -> None:
    config = tiny(tmp_path, checkpoint={"every": 128, "keep": 2})

    def pin(local: dict[str, Any], _: dict[str, Any]) -> None:
        trainer = local["self"]
        if trainer.num_timesteps == 300:
            CheckpointManager(trainer.run.checkpoints_dir).pin(256)

    assert steps_of(trained(config, callback=pin)) == [256, 896, 1024]


def test_the_best_evaluation_makes_the_best_checkpoint(tmp_path: Path) -> None:
    config = tiny(
        tmp_path,
        total_timesteps=3072,
        checkpoint={"every": 1024, "keep": 1},
        evaluation={"every": 128, "episodes": 2},
    )
    run = trained(config)
    evaluations = {row["step"]: row["eval/mean_reward"] for row in rows(run) if "eval/mean_reward" in row}
    best = json.loads((run.checkpoints_dir / "best.json").read_text())
    top = max(evaluations.values())
    assert best["metric"] == "eval/mean_reward" and best["value"] == top
    assert int(best["checkpoint"]) == min(step for step, value in evaluations.items() if value == top)
    assert set(steps_of(run)) == {int(best["checkpoint"]), 3072}


def test_another_metric_may_make_the_best(tmp_path: Path) -> None:
    config = tiny(tmp_path, checkpoint={"every": None, "best_metric": "rollout/ep_len_mean"})
    run = trained(config)
    lengths = {row["step"]: row["rollout/ep_len_mean"] for row in rows(run)}
    best = CheckpointManager(run.checkpoints_dir).best()
    assert best is not None and best.step == max(lengths, key=lambda step: lengths[step])


def test_the_last_evaluation_may_be_the_best(tmp_path: Path) -> None:
    # saved at 1024 because it is due there; evaluated only afterwards, because the run ends
    run = trained(tiny(tmp_path, checkpoint={"every": 1024}, evaluation={"every": 10_000, "episodes": 2}))
    best = CheckpointManager(run.checkpoints_dir).best()
    assert best is not None and best.step == 1024 and checkpoints(run) == {1024: (True, True)}


def test_a_best_policy_alone_cannot_be_resumed(tmp_path: Path) -> None:
    config = tiny(
        tmp_path,
        evaluation={"every": 128, "episodes": 2},
        hyperparams={"learning_rate": 0.0},  # so that the first is the best
        normalize_obs=False,
    )
    run = trained(config)
    assert checkpoints(run) == {128: (False, False), 1024: (True, False)}
    trainer = open_trainer(run)
    with pytest.raises(UserError, match="holds a policy only and cannot be resumed") as caught:
        trainer.resume(run, 128)
    assert "pretrained_model" in caught.value.fix
    assert trainer.resume(run).step == 1024


def test_a_run_without_an_exact_checkpoint_says_so(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path))
    with pytest.raises(UserError, match="exact"):
        open_trainer(run).resume(run, exact=True)


def test_a_run_without_any_checkpoint_says_so(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "CartPole-v1", "PPO", "empty")
    run.config_path.write_text("env: CartPole-v1\n")
    with pytest.raises(UserError, match="no checkpoint to resume from"):
        open_trainer(run).resume(run)


def test_resuming_continues_counters_and_schedules(tmp_path: Path) -> None:
    config = tiny(
        tmp_path,
        checkpoint={"every": 512, "keep": 0},
        hyperparams={"learning_rate": {"linear": [1e-3, 0.0]}},
    )
    run = trained(config)
    assert resumed(run, 512) == 512
    training = [row for row in rows(run) if "train/loss" in row]
    assert [row["updates"] for row in training] == list(range(1, 9))
    assert [row["step"] for row in training] == list(range(128, 1025, 128))
    for row in training:
        assert row["train/learning_rate"] == pytest.approx(1e-3 * (1 - row["step"] / 1024))
    episodes = [row["episodes"] for row in training]
    assert episodes == sorted(episodes)
    assert episodes[-1] == len(run.episodes_path.read_text().splitlines())


def test_going_back_takes_back_what_came_after(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, checkpoint={"every": 256, "keep": 0}))
    trainer = open_trainer(run)
    trainer.resume(run, 512)
    result = trainer.train(512)
    trainer.close()
    assert result.steps == 512 and steps_of(run) == [256, 512]
    assert max(row["step"] for row in rows(run)) == 512
    assert load_config(run.config_path).config.total_timesteps.plain() == 512


def test_a_damaged_newest_checkpoint_is_passed_over_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = trained(tiny(tmp_path, checkpoint={"every": 512, "keep": 0}))
    damaged = run.checkpoints_dir / f"{1024:012d}" / "learner.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert resumed(run) == 512
    assert any("000000001024" in record.message and "damaged" in record.message for record in caplog.records)


def test_resuming_with_another_network_is_refused_by_name(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path))
    _, _, text = run.config_path.read_text().partition("\n")  # the seal goes, as its own words say
    run.config_path.write_text(text.replace("- 16\n", "- 17\n"))
    trainer = open_trainer(run)
    trainer.resume(run)
    before = run.metrics_path.read_bytes()
    with pytest.raises(CheckpointError, match="another shape"):
        trainer.train(2048)
    trainer.close()
    assert run.metrics_path.read_bytes() == before and steps_of(run) == [1024]


def test_two_trainers_cannot_train_one_run(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path))

    def intrude(local: dict[str, Any], _: dict[str, Any]) -> bool:
        other = open_trainer(local["self"].run)
        other.resume(local["self"].run)
        with pytest.raises(UserError, match="in use by"):
            other.train()
        other.close()
        return False

    trainer.train(128)
    trainer.train(256, callback=intrude)
    trainer.close()
