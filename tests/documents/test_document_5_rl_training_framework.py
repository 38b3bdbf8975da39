"""The document "Reinforcement Learning Training Framework": its sections, one after the other, on BipedalWalker-v3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import ludus
from ludus.config.plain_yaml import write_yaml
from ludus.runs.checkpoints import CheckpointManager

pytest.importorskip("Box2D")
pytest.importorskip("av")

CONFIG: dict[str, Any] = {
    "name": "walker",
    "timestamp": False,
    "algorithm": "PPO",
    "env": {"id": "BipedalWalker-v3", "max_episode_steps": 60},
    "n_envs": 2,
    "total_timesteps": "4 updates",
    "checkpoint": {"every": "2 updates", "best_metric": "eval/mean_reward", "keep": 0},
    "evaluation": {"every": "2 updates", "episodes": 1},
    "hyperparams": {
        "n_steps": 64,
        "batch_size": 64,
        "n_epochs": 1,
        "policy_net_arch": [64, 128, 256],
        "value_net_arch": [64, 128, 256],
    },
    "policy": {"activation": "ReLU"},
    "tracking": {"every": 1},
}
SAC: dict[str, Any] = {"learning_starts": 32, "batch_size": 16, "buffer_size": 500}
METRICS = (
    *("rollout/ep_rew_mean", "train/value_loss", "eval/mean_reward"),
    *("train/grad_norm", "train/param_norm", "train/moment_norm", "train/second_moment_norm"),
)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_train_resume_watch_and_analyse_a_walker(engine: str, ludus_command: Any) -> None:
    config = CONFIG | {"engine": engine}
    Path("walker.yaml").write_text(write_yaml(config), "utf-8")
    ludus_command("train", "walker.yaml")
    run = Path("runs/BipedalWalker-v3/PPO/walker")

    # policy and value networks of the layers that the document names, with ReLU
    policy = ludus.load(f"{run}@latest").actor
    widths = {module.out_features for module in policy.modules() if isinstance(module, torch.nn.Linear)}
    assert {64, 128, 256} <= widths
    assert any(isinstance(module, torch.nn.ReLU) for module in policy.modules())

    # checkpoints at intervals, with the optimizer's state; any of them can be resumed
    manager = CheckpointManager(run / "checkpoints")
    assert [checkpoint.step for checkpoint in manager.list()] == [256, 512]
    assert all(checkpoint.resumable for checkpoint in manager.list())
    assert manager.best() is not None
    whole = (run / "checkpoints" / "000000000512" / "policy.safetensors").read_bytes()
    ludus_command("resume", run, "--checkpoint", "256")
    assert (run / "checkpoints" / "000000000512" / "policy.safetensors").read_bytes() == whole

    # metrics: rewards, losses, optimizer states; TensorBoard
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    logged = {name for row in rows for name in row}
    wanted = METRICS if engine == "native" else METRICS[:3:2]
    assert set(wanted) <= logged, set(wanted) - logged
    assert list((run / "tensorboard").glob("events*"))

    # a video with overlay; interactive charts of joint angles and hull velocity
    ludus_command("video", run, "--length", "5", "--output", "walker.mp4")
    assert Path("walker.mp4").stat().st_size > 1000
    ludus_command("analyze", run)
    pages = [page.read_text("utf-8") for page in run.rglob("*.html")]
    assert any("hull" in page.lower() and "plotly" in page.lower() for page in pages)


@pytest.mark.long
def test_sac_takes_the_place_of_ppo_and_outputs_are_mirrored(ludus_command: Any, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    backup = tmp_path / "backup"
    hyperparams = SAC | {"policy_net_arch": [64, 128, 256], "value_net_arch": [64, 128, 256]}
    config = CONFIG | {"algorithm": "SAC", "hyperparams": hyperparams, "mirror": f"file://{backup}"}
    Path("sac.yaml").write_text(
        write_yaml(config | {"total_timesteps": 64, "checkpoint": {"every": 32}}), "utf-8"
    )
    ludus_command("train", "sac.yaml", "evaluation=null", "n_envs=1")
    assert list(backup.rglob("policy.safetensors"))
    ludus_command("pull", f"file://{backup}", "--to", "another")
    (pulled,) = Path("another").rglob("run.json")
    ludus_command("resume", pulled.parent, "--steps", "96")
