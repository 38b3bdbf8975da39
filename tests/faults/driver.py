"""Trains the run at RUN with the config CONFIG until it ends or is killed: `python driver.py RUN CONFIG [seconds]`.

Resumes from the newest checkpoint if there is one. It sleeps `seconds` after every vector step, so that a
test can kill it at a chosen moment; results do not change.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from ludus.config.loading import load_config
from ludus.runs.directory import RunDirectory
from ludus.training.factory import create_trainer, open_trainer


def drive(run: str, config: str, pause: float = 0.0) -> None:
    def rest(local: dict[str, Any], global_: dict[str, Any]) -> None:
        if pause:
            time.sleep(pause)

    directory = RunDirectory(run)
    if directory.checkpoints_dir.exists():
        trainer = open_trainer(directory)
        trainer.resume(directory)
    else:
        trainer = create_trainer(None, load_config(config, [f"run_dir={run}"]).config)  # type: ignore[assignment]
    trainer.train(callback=rest)
    trainer.close()


if __name__ == "__main__":
    drive(sys.argv[1], sys.argv[2], *(float(word) for word in sys.argv[3:]))
