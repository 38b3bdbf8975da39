"""Reads a model of Stable-Baselines3 as a Ludus policy, without running code from its zip.

The zip's `data` is JSON with pickles in base64 for other objects. The plain values are read, the pickles
are not. Its `policy.pth` is read with `weights_only=True`, which accepts tensors only. The shape of the
networks follows from the tensors.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from ludus.config.hyperparameters import HyperparameterConfig
from ludus.config.registry import find_algorithm
from ludus.config.schema import PolicyConfig
from ludus.envs.user_code import close_env
from ludus.errors import UserError
from ludus.policies.networks import ACTIVATIONS
from ludus.policies.observations import normalizable
from ludus.sb3.weights import (
    Pairs,
    actor_critic_pairs,
    from_sb3,
    layers,
    q_pairs,
    soft_pairs,
    statistics_path,
)

KNOWN = ("PPO", "A2C", "DQN", "SAC")
_EXTRACTORS = {"DQN": "q_net.features_extractor.", "SAC": "critic.features_extractor."}
_ALWAYS_FINE, _LARGEST_RATIO = 10_000_000, 20
_ACTIVATION = re.compile(r"torch\.nn\.modules\.activation\.(\w+)")


@dataclass(frozen=True)
class ImportedModel:
    """The policy of a zip, as Ludus config and weights. `weights` have the names of the native policy."""

    algorithm: str
    hyperparams: HyperparameterConfig
    policy: PolicyConfig
    weights: dict[str, torch.Tensor]
    steps: int


def read_sb3_zip(path: Path, algorithm: str | None = None) -> ImportedModel:
    """Read a `model.zip` of PPO (also maskable), A2C, DQN or SAC; `algorithm` is needed if the zip is ambiguous.

    Raises UserError for another file, another algorithm, or a network that Ludus does not support.
    """
    data, weights = _read(path)
    try:
        return _understood(data, weights, algorithm, path)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise _no_model(error, path) from None


def _understood(
    data: Mapping[str, Any], weights: Mapping[str, torch.Tensor], algorithm: str | None, path: Path
) -> ImportedModel:
    name = _known(algorithm or _guess(data, weights), path)
    given = _mapping(data.get("policy_kwargs"))
    network, inner = _extractor(given, weights, _EXTRACTORS.get(name, "features_extractor."), path)
    shares, pairs, nets = _NETS[name](weights)
    activation = _ACTIVATION.search(str(given.get("activation_fn", "")))
    if activation is not None:
        network["activation"] = _known_activation(activation[1], path)
    if data.get("use_sde"):
        raise _unsupported("state-dependent exploration (use_sde)", path)
    return ImportedModel(
        algorithm=name,
        hyperparams=HyperparameterConfig(**nets, **_plain_hyperparams(name, data)),
        policy=PolicyConfig(**network, share_features_extractor=shares),
        weights=from_sb3(weights, pairs, inner),
        steps=int(data["num_timesteps"]) if isinstance(data.get("num_timesteps"), int) else 0,
    )


def statistics_beside(model: Path) -> Path | None:
    """Return the file with statistics that `ludus export` wrote next to a zip; None if there is no such file."""
    path = statistics_path(model, ".json")
    return path if path.is_file() else None


def read_statistics(path: Path, env: Callable[[], gym.Env[Any, Any]]) -> dict[str, torch.Tensor]:
    """Return the statistics of VecNormalize as the tensors of a policy's `obs_normalizer`.

    `path` is the JSON that Ludus writes, or the pickle that SB3 writes. A pickle can run code when loaded:
    this needs the user's consent. Raises UserError if the statistics are of other observations.
    """
    moments = _from_pickle(path) if path.suffix in (".pkl", ".pickle") else _from_json(path)
    single = env()
    keys = normalizable(single.observation_space)
    close_env(single)
    if sorted(moments) != sorted(keys):
        raise UserError(
            f"the statistics are of {', '.join(map(repr, moments)) or 'nothing'}, the env's observations are not",
            where=str(path),
        )
    named = {}
    for key in keys:
        prefix = "obs_normalizer.moments." + ("obs_" + key.replace(".", "_") if key else "obs")
        for part, value in moments[key].items():
            named[f"{prefix}.{part}"] = torch.as_tensor(np.asarray(value, dtype=np.float64))
    return named


def _read(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for part in ("data", "policy.pth"):
                _check_size(archive.getinfo(part), path)
            data = json.loads(archive.read("data"))
            weights = torch.load(  # noqa: TID251  # weights_only: tensors and plain containers, no code
                io.BytesIO(archive.read("policy.pth")), map_location="cpu", weights_only=True
            )
    except UserError:
        raise
    except pickle.UnpicklingError as error:
        raise UserError(
            f"the weights contain other objects than tensors; Ludus does not load them: {str(error).splitlines()[0]}",
            where=str(path),
            fix="do not load this file anywhere, unless you know why",
        ) from None
    except Exception as error:  # zipfile and torch raise many kinds of errors for a damaged or unrelated file
        raise _no_model(error, path) from None
    if not isinstance(data, dict) or not _are_tensors(weights):
        raise _no_model(None, path)
    return data, dict(weights)


def _check_size(part: zipfile.ZipInfo, path: Path) -> None:
    """Raise UserError for a zip bomb: a small part that unpacks to a large size. SB3 itself does not compress."""
    if part.file_size > _ALWAYS_FINE + _LARGEST_RATIO * part.compress_size:
        raise UserError(
            f"'{part.filename}' would unpack to {part.file_size:,} bytes, many times its size in the zip",
            where=str(path),
            fix="give the zip that model.save() wrote",
        )


def _no_model(error: Exception | None, path: Path) -> UserError:
    why = "" if error is None else f" ({type(error).__name__}: {' '.join(str(error).split()):.150})"
    return UserError(
        f"this is not a model of Stable-Baselines3{why}",
        where=str(path),
        fix="give the zip that model.save() wrote",
    )


def _are_tensors(weights: Any) -> bool:
    return isinstance(weights, Mapping) and all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in weights.items()
    )


def _guess(data: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> str:
    """Guess the algorithm, which a zip does not name, from settings that only one algorithm has."""
    if any(name.startswith("quantile_net.") for name in weights):
        return "QR-DQN"
    if "exploration_fraction" in data:
        return "DQN"
    if "top_quantiles_to_drop_per_net" in data:
        return "TQC"
    if "target_entropy" in data:
        return "SAC" if "tau" in data and any("critic_target" in name for name in weights) else "CrossQ"
    if any(name.startswith("lstm_") for name in weights):
        return "RecurrentPPO"
    if "n_epochs" in data:
        return "PPO"
    if "cg_max_steps" in data:
        return "TRPO"
    return "A2C" if "gae_lambda" in data else "another algorithm"


def _known(name: str, path: Path) -> str:
    for known in KNOWN:
        if name.upper() in (known, f"MASKABLE{known}"):
            return known
    raise UserError(
        f"models of {name} cannot be imported",
        where=str(path),
        fix=f"supported: {', '.join(KNOWN)} and MaskablePPO; choose one with --algo",
    )


def _extractor(
    given: Mapping[str, Any], weights: Mapping[str, torch.Tensor], beginning: str, path: Path
) -> tuple[dict[str, Any], str]:
    """Return the `policy` section for the feature extractor, and the prefix of its weights' names."""
    own = [name.removeprefix(beginning) for name in weights if name.startswith(beginning)]
    named = str(given.get("features_extractor_class", ""))
    if "LudusExtractor" in named:
        arguments = _mapping(given.get("features_extractor_kwargs"))
        return {
            "features_extractor": str(arguments["name"]),
            "features_dim": int(arguments["features_dim"]),
            "features_extractor_kwargs": dict(arguments["arguments"]),
        }, "inner."
    if not own:
        return {"features_extractor": "FlattenExtractor"}, ""
    if "linear.0.weight" in own and "cnn.0.weight" in own:
        dim = int(weights[f"{beginning}linear.0.weight"].shape[0])
        return {"features_extractor": "NatureCNN", "features_dim": dim}, ""
    raise _unsupported(f"its feature extractor {named or 'for Dict observations'}", path)


Nets = tuple[bool, Pairs, dict[str, Any]]
"""A flag for a shared extractor, the pairs of weight names, and the hidden layers."""


def _actor_critic(weights: Mapping[str, torch.Tensor]) -> Nets:
    shares = _are_equal(weights, "pi_features_extractor.", "vf_features_extractor.")
    nets = {
        "policy_net_arch": layers(weights, "mlp_extractor.policy_net."),
        "value_net_arch": layers(weights, "mlp_extractor.value_net."),
    }
    return shares, actor_critic_pairs(shares_extractor=shares, shares_net=False), nets


def _q_network(weights: Mapping[str, torch.Tensor]) -> Nets:
    return True, q_pairs(), {"policy_net_arch": layers(weights, "q_net.q_net.")[:-1]}


def _soft_actor(weights: Mapping[str, torch.Tensor]) -> Nets:
    nets = {
        "policy_net_arch": layers(weights, "actor.latent_pi."),
        "value_net_arch": layers(weights, "critic.qf0.")[:-1],
    }
    shares = _are_equal(weights, "actor.features_extractor.", "critic.features_extractor.")
    return shares, soft_pairs(shares_extractor=shares), nets


def _are_equal(weights: Mapping[str, torch.Tensor], one: str, other: str) -> bool:
    """Return True if two parts have equal weights: a zip holds a shared part twice."""
    return all(
        torch.equal(value, weights.get(other + name.removeprefix(one), torch.empty(0)))
        for name, value in weights.items()
        if name.startswith(one)
    )


_NETS = {"PPO": _actor_critic, "A2C": _actor_critic, "DQN": _q_network, "SAC": _soft_actor}


def _plain_hyperparams(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters that both libraries share and that the zip holds as plain numbers."""
    model = find_algorithm(name).hyperparameters
    assert model is not None
    plain = {
        key: data[key]
        for key in model.model_fields
        if isinstance(data.get(key), int | float) and key not in ("policy_net_arch", "value_net_arch")
    }
    plain.pop("train_freq", None)
    return plain


def _known_activation(name: str, path: Path) -> str:
    if name not in ACTIVATIONS:
        raise _unsupported(f"the activation {name}", path)
    return name


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _from_json(path: Path) -> dict[str, dict[str, Any]]:
    try:
        data = json.loads(path.read_text("utf-8"))
        found, clip = data["observations"], data["clip_obs"]
        moments = {key: {part: found[key][part] for part in ("mean", "var", "count")} for key in found}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"the statistics cannot be read ({error})", where=str(path)) from None
    _require_same_clip(clip, path)
    return moments


def _from_pickle(path: Path) -> dict[str, dict[str, Any]]:
    try:
        with path.open("rb") as file:
            found = pickle.load(file)  # noqa: S301  # the user named this file and passed --trust
        moments = found.obs_rms if found.norm_obs else {}
    except (OSError, pickle.UnpicklingError, AttributeError, ImportError) as error:
        raise UserError(f"the statistics cannot be read ({error})", where=str(path)) from None
    _require_same_clip(found.clip_obs, path)
    by_key = moments if isinstance(moments, dict) else {"": moments}
    return {key: {"mean": m.mean, "var": m.var, "count": m.count} for key, m in by_key.items()}


def _require_same_clip(clip: Any, path: Path) -> None:
    if clip != 10.0:
        raise _unsupported(f"observations clipped at {clip} instead of 10", path)


def _unsupported(what: str, path: Path) -> UserError:
    return UserError(
        f"Ludus does not support {what}", where=str(path), fix="train the model again with Ludus"
    )
