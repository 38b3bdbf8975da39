"""Models in SB3's own format on disk: `model.zip`, and next to it the statistics, which the zip cannot hold.

`VecNormalize.load` of SB3 reads `model_vecnormalize.pkl`; `model_vecnormalize.json` has the same content as plain
numbers, for Ludus. Ludus writes the pickle for SB3 and never reads it.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecNormalize

from ludus.runs import strict_json
from ludus.runs.atomic import write_atomic
from ludus.sb3.weights import statistics_path


def write_model(model: BaseAlgorithm, path: Path) -> list[Path]:
    """Write `model` to `path`, and its VecNormalize, if any, next to it. Returns the files. Raises OSError."""
    written = [path]
    buffer = io.BytesIO()
    model.save(buffer)
    write_atomic(path, buffer.getvalue())
    normalize = model.get_vec_normalize_env()
    if normalize is not None:
        written += _write_statistics(normalize, statistics_path(path, ".pkl"), statistics_path(path, ".json"))
    return written


def _write_statistics(normalize: VecNormalize, pickled: Path, readable: Path) -> list[Path]:
    plain = VecNormalize.__new__(VecNormalize)  # an independent copy, which `copy` cannot make
    plain.__dict__.update(normalize.__dict__)
    if plain.norm_obs:
        shared: Any = normalize.obs_rms
        plain.obs_rms = (
            {key: moments.copy() for key, moments in shared.items()}
            if isinstance(shared, dict)
            else shared.copy()
        )
    plain.ret_rms = normalize.ret_rms.copy()
    write_atomic(pickled, pickle.dumps(plain))
    write_atomic(readable, strict_json.dumps(_as_json(plain), indent=2) + "\n")
    return [pickled, readable]


def _as_json(normalize: VecNormalize) -> dict[str, Any]:
    moments: Any = normalize.obs_rms if normalize.norm_obs else {}
    by_key = moments if isinstance(moments, dict) else {"": moments}
    return {
        "clip_obs": normalize.clip_obs,
        "epsilon": normalize.epsilon,
        "observations": {
            key: {"mean": part.mean.tolist(), "var": part.var.tolist(), "count": float(part.count)}
            for key, part in by_key.items()
        },
    }
