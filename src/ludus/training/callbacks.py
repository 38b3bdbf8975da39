"""Callbacks under the names that Stable-Baselines3 users know.

Subclass `BaseCallback` and override `_on_step` and friends. A callback written for Stable-Baselines3 works as it is,
also its own `EvalCallback`, `CheckpointCallback` and `ProgressBarCallback`: `self.model` is the trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ludus.errors import ConfigError, UserError, require_types
from ludus.types import Metrics


class CallbackLogger:
    """The `self.logger` of a callback: `record(name, value)` adds to the next metric row."""

    def __init__(self) -> None:
        self._values: Metrics = {}
        self._counts: dict[str, int] = {}

    def record(self, key: str, value: Any, exclude: Any = None) -> None:
        """Record a number for the next row, in the place of one recorded before in the same update."""
        self._values[key] = _number(key, value)

    def record_mean(self, key: str, value: Any, exclude: Any = None) -> None:
        """Record the mean of all numbers that this is called with in the same update."""
        if value is None:
            return
        count = self._counts.get(key, 0)
        mean = self._values.get(key, 0.0) if count else 0.0
        self._values[key] = mean + (_number(key, value) - mean) / (count + 1)
        self._counts[key] = count + 1

    def dump(self, step: int = 0) -> None:
        """Do nothing: a row is written when the config's `tracking.every` says so."""

    def take(self) -> Metrics:
        """Return what was recorded since the last call."""
        values, self._values = self._values, {}
        self._counts.clear()
        return values


def _number(key: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UserError(
            f"a metric is a number; '{key}' was given {type(value).__name__}",
            where="self.logger.record(key, value)",
            fix="record a number; pictures, figures and texts go to a tracker of your own",
        ) from None


class BaseCallback:
    """Called by the trainer: `_on_step` after every vector step; returning False from it stops training.

    `self.locals` has the step: `infos`, `rewards`, `dones`, `actions`, `obs` and `new_obs`. `self.model` is the
    trainer, `self.training_env` its envs, `self.logger.record(name, value)` adds to the next metric row.
    """

    def __init__(self, verbose: int = 0) -> None:
        self.model: Any = None
        self.n_calls = 0
        self.num_timesteps = 0
        self.verbose = verbose
        self.locals: dict[str, Any] = {}
        self.globals: dict[str, Any] = {}

    @property
    def training_env(self) -> Any:
        return self.model.get_env()

    @property
    def logger(self) -> Any:
        return self.model.logger

    def _init_callback(self) -> None: ...

    def _on_training_start(self) -> None: ...

    def _on_rollout_start(self) -> None: ...

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None: ...

    def _on_training_end(self) -> None: ...

    def init_callback(self, model: Any) -> None:
        self.model = model
        self._init_callback()

    def update_locals(self, locals_: dict[str, Any]) -> None:
        """Update the variables of the step: `infos`, `rewards`, `dones`, …"""
        self.locals.update(locals_)

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        self.locals, self.globals = locals_, globals_
        self.num_timesteps = self.model.num_timesteps
        self._on_training_start()

    def on_rollout_start(self) -> None:
        self._on_rollout_start()

    def on_step(self) -> bool:
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        return self._on_step()

    def on_rollout_end(self) -> None:
        self._on_rollout_end()

    def on_training_end(self) -> None:
        self._on_training_end()


class CallbackList(BaseCallback):
    """Several callbacks as one; training stops when one of them returns False."""

    def __init__(self, callbacks: Sequence[Any]) -> None:
        super().__init__()
        require_types("CallbackList", callbacks=(callbacks, (list, tuple)))
        self.callbacks = list(callbacks)

    def init_callback(self, model: Any) -> None:
        super().init_callback(model)
        for callback in self.callbacks:
            callback.init_callback(model)

    def update_locals(self, locals_: dict[str, Any]) -> None:
        for callback in self.callbacks:
            callback.update_locals(locals_)

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        for callback in self.callbacks:
            callback.on_training_start(locals_, globals_)

    def on_rollout_start(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_start()

    def on_step(self) -> bool:
        answers = [callback.on_step() for callback in self.callbacks]  # every one is asked
        return all(answer is not False for answer in answers)

    def on_rollout_end(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_end()

    def on_training_end(self) -> None:
        for callback in self.callbacks:
            callback.on_training_end()


class _FunctionCallback(BaseCallback):
    def __init__(self, function: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
        super().__init__()
        self._function = function

    def _on_step(self) -> bool:
        return self._function(self.locals, self.globals) is not False


def as_callback(callback: Any) -> Any:
    """Return None, a callback, a list of them, or a function `(locals, globals) -> bool` as one callback or None."""
    if callback is None or hasattr(callback, "on_step"):
        return callback
    if isinstance(callback, list | tuple):
        return CallbackList([as_callback(item) for item in callback])
    if callable(callback):
        return _FunctionCallback(callback)
    raise UserError(
        f"{callback!r} is not a callback",
        where="train(callback=…)",
        fix="give a BaseCallback, a list, or a function",
    )


def load_callbacks(named: Sequence[str | Mapping[str, Mapping[str, Any]]]) -> list[Any]:
    """Return the callbacks that a config names as `module:Class`, made with their arguments.

    UserError for a run that somebody else trained, ConfigError for what is not a callback.
    """
    from ludus.config.own_modules import import_own_module

    made = []
    for index, entry in enumerate(named):
        where = f"callbacks.{index}"
        references = {entry: {}} if isinstance(entry, str) else entry
        for reference, arguments in references.items():
            module_name, colon, class_name = reference.partition(":")
            if not colon:
                raise ConfigError(
                    f"'{reference}' does not name a callback", where=where, fix="write module:Class"
                )
            try:
                module = import_own_module(module_name, reference, where=where)
            except ModuleNotFoundError as error:
                if error.name is None or not (module_name + ".").startswith(error.name + "."):
                    raise  # one that is missing inside the user's code
                raise ConfigError(
                    f"the module '{module_name}' of callback '{reference}' cannot be found",
                    where=where,
                    fix="install it, or run from the folder that holds it",
                ) from error
            cls = getattr(module, class_name, None)
            if not isinstance(cls, type) or not hasattr(cls, "on_step"):
                raise ConfigError(
                    f"'{class_name}' in '{module_name}' is not a callback class",
                    where=where,
                    fix="let it inherit from ludus.BaseCallback",
                )
            made.append(cls(**arguments))
    return made
