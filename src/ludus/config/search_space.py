"""Search space of a sweep: for each config key a range or a choice, as it is written in YAML.

hyperparams.learning_rate: {log: [1e-5, 1e-2]}     between the two, small values as likely as large ones
hyperparams.gamma: {uniform: [0.9, 0.999]}
hyperparams.n_epochs: {int: [1, 20]}               whole numbers; {int_log: [1, 100]} as well
hyperparams.policy_net_arch: {choice: [[64, 64], [256, 256]]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ludus.config.plain_yaml import write_yaml
from ludus.errors import ConfigError

FORMS = ("uniform", "log", "int", "int_log", "choice")
_EXAMPLE = "as in {log: [1e-5, 1e-2]}, {uniform: [0, 1]}, {int: [1, 20]}, {choice: [a, b]}"


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; `log`: equally likely by their logarithm."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Choice:
    """One of these values, which may be anything that YAML holds."""

    values: tuple[Any, ...]

    @property
    def labels(self) -> list[str]:
        """Each value as text, for storages and pictures that hold nothing else."""
        return [_label(value) for value in self.values]

    def value_of(self, label: str) -> Any:
        return self.values[self.labels.index(label)]


Dimension = Range | Choice
SearchSpace = dict[str, Dimension]


def parse_space(written: Any, where: str = "sweep") -> SearchSpace:
    """Read a mapping of dotted config keys to ranges and choices. ConfigError names the key at fault."""
    if not isinstance(written, Mapping) or not written:
        raise ConfigError(
            "a search space is a mapping of config keys to what to try", where=where, fix=_EXAMPLE
        )
    return {str(key): _dimension(str(key), value, where) for key, value in written.items()}


def _dimension(key: str, written: Any, where: str) -> Dimension:
    def wrong(what: str) -> ConfigError:
        return ConfigError(f"{what} for '{key}'", where=f"{where}: {key}", fix=_EXAMPLE)

    if not isinstance(written, Mapping) or len(written) != 1 or next(iter(written)) not in FORMS:
        raise wrong(f"expected one of {', '.join(FORMS)}, got {_label(written)}")
    form, values = next(iter(written.items()))
    if not isinstance(values, list | tuple):
        raise wrong(f"expected a list, got {_label(values)}")
    if form == "choice":
        if not values or len({_label(value) for value in values}) < len(values):
            raise wrong("a choice needs values that differ")
        return Choice(tuple(values))
    if len(values) != 2 or any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        raise wrong(f"a range has a lowest and a highest number, got {_label(values)}")
    low, high = values
    whole = form.startswith("int")
    if low > high or (whole and (low != int(low) or high != int(high))):
        raise wrong(f"not a range of {'whole numbers' if whole else 'numbers'}: {_label(values)}")
    log = form in ("log", "int_log")
    if log and low <= 0:
        raise wrong(f"a logarithmic range begins above zero, got {_label(values)}")
    return Range(low, high, log, whole)


def _label(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = write_yaml({"": list(value) if isinstance(value, tuple) else value})
    if "\n-" in text or "\n " in text:  # a nested value: on one line
        return str(value)
    return text.partition(":")[2].strip()
