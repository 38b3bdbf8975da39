"""Self-play through vLLM: every update's adapter is published and played, and what is trained on was sampled by it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "language"))
from test_language_training import config_of, trainer_of
from tiny_runs import rows

from ludus.language.models.engine import PublishedSampler
from ludus.runs.directory import RunDirectory


def test_a_run_trains_on_what_vllm_played(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        language={
            "model_kwargs": {"layers": 2, "hidden": 64, "heads": 2, "context": 48},
            "sampler": {"kind": "vllm", "max_new_tokens": 3},
        },
        hyperparams={"learning_rate": 0.01, "ent_coef": 0.01},
        total_timesteps="3 updates",
    )
    trainer = trainer_of(config)
    try:
        trainer.create_model()
        sampler = trainer.sampler
        assert isinstance(sampler, PublishedSampler)
        first = sampler.current["learner"]
        run = RunDirectory.open(trainer.train().run)
        assert sampler.current["learner"] != first
        assert (
            len(set(sampler.current.values())) == len(sampler.current) > 2
        )  # frozen versions play there too
    finally:
        trainer.close()
    found = [row for row in rows(run) if "train/log_prob_gap_max" in row]
    assert len(found) == 3
    assert all(row["train/log_prob_gap_max"] < 1e-3 for row in found)
    assert trainer.learner is not None and trainer.learner.version("learner") == 3
