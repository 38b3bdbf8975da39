"""Ludus on one workload: `python ludus.py '{…}'` prints one JSON object."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

# this file is called like the package that it measures
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).resolve().parent]

from ludus import TrainerConfig, __version__, create_trainer  # noqa: E402


def main(workload: dict[str, object]) -> None:
    arch = workload["net_arch"]
    with tempfile.TemporaryDirectory() as folder:
        config = TrainerConfig(
            algorithm=workload["algorithm"],
            n_envs=workload["n_envs"],
            total_timesteps=workload["steps"],
            hyperparams={**workload["hyperparams"], "policy_net_arch": arch, "value_net_arch": arch},  # type: ignore[dict-item]
            policy={"activation": workload["activation"]},
            normalize_obs=False,
            normalize_reward=False,
            checkpoint=None,
            evaluation=None,
            save_dir=folder,
        )
        trainer = create_trainer(workload["env"], config)
        started = time.monotonic()
        trainer.create_model()
        compile_seconds = time.monotonic() - started
        result = trainer.train()
        trainer.close()
        answer = {
            "fps": result.fps,
            "threads": trainer.config.threads,
            "version": __version__,
            "compile_seconds": compile_seconds,
        }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
