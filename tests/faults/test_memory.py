"""Memory: a PPO run on eight CartPoles stays small, and stops growing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

SCRIPT = """\
import json, sys
from ludus.config.loading import load_config
from ludus.training.callbacks import BaseCallback
from ludus.training.factory import create_trainer


def resident():
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmRSS"].split()[0]) / 1024, int(fields["VmHWM"].split()[0]) / 1024


class Scale(BaseCallback):
    def _on_rollout_end(self):
        step = self.model.num_timesteps
        if not weights or step >= weights[-1][0] + 100_000:
            weights.append((step, *resident()))


weights = []
config = load_config("cartpole-ppo", [
    f"save_dir={sys.argv[1]}", "vector=serial", "total_timesteps=1_000_000",
    "hyperparams.n_epochs=4", "tracking.tensorboard=true",
]).config
assert config.n_envs == 8
trainer = create_trainer(None, config)
trainer.train(callback=Scale())
trainer.close()
weights.append((1_000_000, *resident()))
print(json.dumps(weights))
"""


def test_a_million_steps_fit_in_600_mib_and_grow_by_less_than_20_after_100k(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True
    )
    weights = json.loads(done.stdout.splitlines()[-1])
    print("step, RSS and peak RSS in MiB:", *weights, sep="\n")  # shown by `pytest -s`
    after_100k = next(resident for step, resident, _ in weights if step >= 100_000)
    assert max(peak for _, _, peak in weights) < 600
    assert weights[-1][1] - after_100k < 20
