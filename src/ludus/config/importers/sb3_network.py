"""Stable-Baselines3's `policy` and `policy_kwargs` in Ludus's terms: hidden layers, extractor, activation."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ludus.config.importers.literals import Symbol, parse_literal
from ludus.config.importers.translation import SB3_DEFAULT, ImportOptions, Translation
from ludus.config.plain_yaml import Key

# What Stable-Baselines3 puts between features and heads when nothing is said.
_HIDDEN = {"PPO": [64, 64], "A2C": [64, 64], "DQN": [64, 64], "SAC": [256, 256]}
_NO_HIDDEN_AFTER_CNN = ("PPO", "A2C", "DQN")
_POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
_SHIPPED_EXTRACTORS = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")


def put_network(
    t: Translation, at: Key, algorithm: str, choice: ImportOptions, policy_kwargs: Key, sde: bool
) -> None:
    """Translate the policy class named in the section `at` and the entries of `policy_kwargs`, text or mapping."""
    policy = t.take(*at, "policy", default="MlpPolicy")
    if t.has(*at, "policy"):
        if policy in _POLICIES:
            t.note("the network follows from the spaces and policy.features_extractor", *at, "policy")
        elif choice.engine == "sb3":
            t.put("hyperparams.policy", policy, *at, "policy")
        else:
            t.lose(
                "a policy class cannot be named; its parts can: policy.features_extractor, …", *at, "policy"
            )
    given = _as_mapping(t, policy_kwargs) if t.has(*policy_kwargs) else {}
    network = _Network(t, algorithm, choice, given, policy_kwargs, sde)
    network.put()
    if choice.engine != "sb3" and not network.has_hidden_layers and algorithm in _HIDDEN:
        after_cnn = policy == "CnnPolicy" and algorithm in _NO_HIDDEN_AFTER_CNN
        hidden = [] if after_cnn else _HIDDEN[algorithm]
        t.put("hyperparams.policy_net_arch", hidden, place=SB3_DEFAULT)
        if algorithm != "DQN":
            t.put("hyperparams.value_net_arch", hidden, place=SB3_DEFAULT)


def _as_mapping(t: Translation, key: Key) -> Mapping[str, Any]:
    value = t.take(*key)
    if isinstance(value, str):
        value = parse_literal(value, where=t.document.place(key), key=".".join(key))
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise t.error(f"{'.'.join(key)} is a mapping, not {value!r}", key, "as in dict(net_arch=[64, 64])")
    return value


class _Network:
    """The entries of `policy_kwargs`, one method for each that needs more than a new name."""

    def __init__(
        self,
        t: Translation,
        algorithm: str,
        choice: ImportOptions,
        given: Mapping[str, Any],
        source: Key,
        sde: bool,
    ) -> None:
        self.t, self.algorithm, self.choice, self.given = t, algorithm, choice, given
        self.source, self.sde = source, sde
        self.has_hidden_layers = False

    def put(self) -> None:
        for name, value in self.given.items():
            if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
                self.t.note("left to its default", *self._key(name))
                continue
            handle = getattr(self, f"_put_{name}", None)
            if handle is not None:
                handle(value)
                continue
            known = {method.removeprefix("_put_") for method in dir(self) if method.startswith("_put_")}
            close = difflib.get_close_matches(name, known - set(self.given), n=1, cutoff=0.8)
            if close:
                raise self.t.error(f"unknown key '{name}'", self._key(name), f"did you mean '{close[0]}'?")
            if self._passes_on(name, value):
                continue
            self._lose(name, "Ludus has no such setting of the network")

    def _passes_on(self, name: str, value: Any) -> bool:
        """Pass the value on as an argument of the policy's class, if the engine takes it and it is plain data."""
        if self.choice.engine != "sb3" or isinstance(value, Symbol):
            return False
        self.t.put(f"hyperparams.policy_kwargs.{name}", value, *self._key(name))
        return True

    def _key(self, name: str) -> Key:
        return (*self.source, name)

    def _lose(self, name: str, why: str) -> None:
        self.t.lose(why, *self._key(name))

    def _put_net_arch(self, value: Any) -> None:
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            value = value[0]  # how it was written before Stable-Baselines3 1.8
        if isinstance(value, list) and any(isinstance(part, dict) for part in value):
            self._lose("net_arch", "layers shared before the split; policy.share_net shares all of them")
            return
        key = self._key("net_arch")
        if isinstance(value, dict):
            for name in value:
                if name not in ("pi", "vf", "qf"):
                    self._lose("net_arch", f"no network is called '{name}'")
                    return
            actor, critic = value.get("pi", []), value.get("vf", value.get("qf", []))
        else:
            actor = critic = value
        self.has_hidden_layers = True
        self.t.put("hyperparams.policy_net_arch", actor, *key)
        if self.algorithm != "DQN":
            self.t.put("hyperparams.value_net_arch", critic, *key)

    def _put_activation_fn(self, value: Any) -> None:
        self.t.put("policy.activation", str(value).rpartition(".")[2], *self._key("activation_fn"))

    def _put_ortho_init(self, value: Any) -> None:
        self.t.put("policy.ortho_init", value, *self._key("ortho_init"))

    def _put_log_std_init(self, value: Any) -> None:
        if self.choice.engine != "sb3" and (self.sde or self.algorithm == "SAC"):
            self._lose("log_std_init", "the scale of state-dependent exploration, which only engine: sb3 has")
        else:
            self.t.put("policy.log_std_init", value, *self._key("log_std_init"))

    def _put_share_features_extractor(self, value: Any) -> None:
        self.t.put("policy.share_features_extractor", value, *self._key("share_features_extractor"))

    def _put_features_extractor_class(self, value: Any) -> None:
        module, _, name = str(value).rpartition(".")
        known = not module or name in _SHIPPED_EXTRACTORS
        extractor = name if known else f"{module}:{name}"
        if ":" in str(value):
            extractor = str(value)
        self.t.put("policy.features_extractor", extractor, *self._key("features_extractor_class"))

    def _put_features_extractor_kwargs(self, value: Any) -> None:
        key = self._key("features_extractor_kwargs")
        if not isinstance(value, dict):
            raise self.t.error(
                f"{'.'.join(key)} is a mapping, not {value!r}", key, "as in {features_dim: 128}"
            )
        rest = dict(value)
        if "features_dim" in rest:
            self.t.put("policy.features_dim", rest.pop("features_dim"), *key, "features_dim")
        if "cnn_output_dim" in rest:  # the CombinedExtractor's
            rest["cnn_dim"] = rest.pop("cnn_output_dim")
        if rest:
            self.t.put("policy.features_extractor_kwargs", rest, *key)

    def _put_optimizer_class(self, value: Any) -> None:
        name = str(value).rpartition(".")[2]
        rms = self.algorithm == "A2C"
        if name == ("RMSprop" if rms else "Adam"):
            self.t.note("the optimizer of this algorithm", *self._key("optimizer_class"))
        elif rms and name == "RMSpropTFLike":
            self._lose("optimizer_class", "torch's RMSprop is used, which adds its epsilon outside the root")
        else:
            self._lose("optimizer_class", f"{self.algorithm} keeps its own optimizer")

    def _put_optimizer_kwargs(self, value: Any) -> None:
        if self.algorithm == "A2C" and isinstance(value, dict) and set(value) == {"eps"}:
            self.t.put("hyperparams.rms_prop_eps", value["eps"], *self._key("optimizer_kwargs"))
        elif value in ({}, None) or (self.algorithm == "PPO" and value == {"eps": 1e-5}):
            self.t.note("as here", *self._key("optimizer_kwargs"))
        elif not self._passes_on("optimizer_kwargs", value):
            self._lose("optimizer_kwargs", f"{self.algorithm} sets its optimizer itself")

    def _put_n_critics(self, value: Any) -> None:
        if value == 2:
            self.t.note("two critics, as here", *self._key("n_critics"))
        elif not self._passes_on("n_critics", value):
            self._lose("n_critics", "SAC has two critics")

    def _put_normalize_images(self, value: Any) -> None:
        if value is True:
            self.t.note("images are scaled to 0..1, as here", *self._key("normalize_images"))
        else:
            self._lose("normalize_images", "images are scaled to 0..1")
