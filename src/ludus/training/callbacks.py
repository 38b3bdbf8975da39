"""Callbacks under the names that Stable-Baselines3 users know.

Subclass `BaseCallback` and override `_on_step` and friends. A callback written for Stable-Baselines3 that uses
`self.model`, `self.num_timesteps`, `self.training_env` and `self.logger.record` works as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ludus.errors import UserError
from ludus.types import Metrics


class CallbackLogger:
    """The `self.logger` of a callback: `record(name, value)` adds to the next metric row."""

    def __init__(self) -> None:
        self._values: Metrics = {}

    def record(self, key: str, value: float, exclude: Any = None) -> None:
        self._values[key] = float(value)

    def take(self) -> Metrics:
        """Return what was recorded since the last call."""
        values, self._values = self._values, {}
        return values


class BaseCallback:
    """Called by the trainer: `_on_step` after every vector step; returning False from it stops training."""

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
        """Update the local variables of the loop, for engines that have them (SB3: `infos`, `rewards`, …)."""
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
