"""Conversion between messages and observations, rewards and actions: a compiled use case, and an episode of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from ludus.config.plain_yaml import read_yaml
from ludus.errors import ConfigError, UnknownName, UserError
from ludus.games.unity.camera import ImageError, decode_image, require_decoder
from ludus.games.unity.cdr import CdrCodec, CdrError, Message, compile_messages
from ludus.games.unity.hook import UseCaseHook, load_hook
from ludus.games.unity.quantities import Quantities, as_numbers
from ludus.games.unity.use_case import UseCase, load_use_case, locate
from ludus.types import Array

Outcome = tuple[Any, float, bool, bool, dict[str, Any]]
_LARGEST_SEED = 2**31 - 1


class BadAnswer(ValueError):
    """A decodable answer that does not fit the use case: wrong sizes, or values that are not finite."""


class CompiledUseCase:
    """Codecs, spaces and mappings of a use case. ConfigError for unknown names in it."""

    def __init__(self, use_case: UseCase) -> None:
        self.use_case = use_case
        codecs = compile_messages(use_case.messages)
        services = use_case.services
        self.step_request = _codec(codecs, services.step.request, "services.step.request")
        self.step_response = _codec(codecs, services.step.response, "services.step.response")
        self.reset_request = _codec(codecs, services.reset.request, "services.reset.request")
        self.reset_response = _codec(codecs, services.reset.response, "services.reset.response")
        self.quantities = Quantities(use_case.quantities, self.step_response)
        Quantities(
            use_case.quantities, self.reset_response
        )  # checks that a reset response has the same fields
        self.hook = load_hook(use_case.hook)
        self._check_names()
        self._fields = [(field, field.to.split(".")) for field in use_case.action.fields]
        self.action_space = spaces.Box(-1.0, 1.0, (use_case.action.size,), np.float32)
        seen = use_case.observation
        state = spaces.Box(-np.inf, np.inf, (seen.size * len(seen.lags),), np.float32)
        self.observation_space: spaces.Space[Any] = state
        if seen.camera is not None:
            require_decoder()
            shape = (seen.camera.height, seen.camera.width, 1 if seen.camera.gray else 3)
            self.observation_space = spaces.Dict(
                {"camera": spaces.Box(0, 255, shape, np.uint8), "state": state}
            )

    def step_message(self, action: Array) -> Message:
        """Return the step request for an action, clipped to the action space."""
        clipped = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
        request: Message = {}
        for field, path in self._fields:
            number = float(clipped[field.index])
            value: Any = number * field.scale + field.offset
            if field.above is not None:
                value = number > field.above
            _put(request, path, value)
        return request

    def reset_message(self, seed: int | None) -> Message:
        request: Message = {}
        for path, value in self.use_case.reset.values.items():
            _put(request, path.split("."), value)
        if self.use_case.reset.seed is not None and seed is not None:
            _put(request, self.use_case.reset.seed.split("."), seed % _LARGEST_SEED)
        return request

    def stamped(self, request: Message) -> Message:
        """Add the current time to `request`."""
        if self.use_case.timestamps.sent is not None:
            nanoseconds = time.time_ns()
            stamp = {"sec": nanoseconds // 10**9 % 2**31, "nanosec": nanoseconds % 10**9}
            _put(request, self.use_case.timestamps.sent.split("."), stamp)
        return request

    def seconds_inside(self, answer: Message) -> float | None:
        """Return the time that the simulator took by its own clock; None if it does not send timestamps."""
        times = self.use_case.timestamps
        if times.received is None or times.answered is None:
            return None
        received, answered = _seconds(answer, times.received), _seconds(answer, times.answered)
        return answered - received if received and answered >= received else None

    def _check_names(self) -> None:
        use_case, names = self.use_case, self.quantities.names
        for key, wanted in (
            ("observation.parts", use_case.observation.parts),
            ("reward", [term.quantity for term in use_case.reward if term.quantity is not None]),
            ("terminated", use_case.terminated),
            ("success", [use_case.success] if use_case.success else []),
        ):
            for name in wanted:
                if name not in names:
                    raise _misnamed("quantity", name, names, key)
        paths = [("action.fields", field.to) for field in use_case.action.fields]
        paths += [("timestamps.sent", use_case.timestamps.sent)] if use_case.timestamps.sent else []
        for key, path in paths:
            if not self.step_request.has(path):
                raise _misnamed(f"field of {self.step_request.name}", path, self.step_request.paths(), key)
        for field in use_case.action.fields:
            if field.index >= use_case.action.size:
                raise ConfigError(
                    f"action index {field.index} out of range 0 to {use_case.action.size - 1}",
                    key="action.fields",
                    fix="count from 0",
                )
        resets = list(use_case.reset.values) + ([use_case.reset.seed] if use_case.reset.seed else [])
        for path in resets:
            if not self.reset_request.has(path):
                raise _misnamed(
                    f"field of {self.reset_request.name}", path, self.reset_request.paths(), "reset"
                )
        for key, inside in (
            ("timestamps.received", use_case.timestamps.received),
            ("timestamps.answered", use_case.timestamps.answered),
            ("image", None if use_case.image is None else f"{use_case.image}.data"),
        ):
            if inside is not None and not self.step_response.has(inside):
                raise _misnamed(
                    f"field of {self.step_response.name}", inside, self.step_response.paths(), key
                )
        if use_case.observation.camera is not None and use_case.image is None:
            raise ConfigError(
                "observation.camera needs the image field", key="observation.camera", fix="add image: FIELD"
            )


def compile_use_case(name: str) -> CompiledUseCase:
    """Load and compile a use case. Errors name the file and line."""
    use_case = load_use_case(name)
    try:
        return CompiledUseCase(use_case)
    except ConfigError as error:
        path = Path(name)
        if error.key and path.is_file():
            error.where = locate(error.key, read_yaml(path)[1]) or f"{path} ({error.key})"
        elif error.key:
            error.where = f"use case {name} ({error.key})"
        raise


class Episode:
    """The episode of one env: its previous observations, the values that rewards compare with, its number of steps."""

    def __init__(self, compiled: CompiledUseCase, max_steps: int | None = None) -> None:
        self._compiled = compiled
        self._max_steps = max_steps or compiled.use_case.max_steps
        seen = compiled.use_case.observation
        self._lags = seen.lags
        self._frames: deque[Array] = deque(maxlen=max(seen.lags) + 1)
        self._memory: dict[str, Any] = {}
        self._steps = 0
        self._hook: UseCaseHook = compiled.hook()
        self.message: Message | None = None

    def request(self, action: Array) -> bytes:
        compiled = self._compiled
        message = self._hook.request(action, compiled.step_message(action))
        return compiled.step_request.encode(compiled.stamped(message))

    def reset_request(self, seed: int | None) -> bytes:
        compiled = self._compiled
        return compiled.reset_request.encode(compiled.stamped(compiled.reset_message(seed)))

    def begin(self, answer: bytes) -> tuple[Any, dict[str, Any]]:
        """Return the first observation and info. CdrError, ImageError or BadAnswer for an unusable answer."""
        message = self._compiled.reset_response.decode(answer)
        self._memory, self._steps = {}, 0
        self._frames.clear()
        values = self._values(message)
        self._hook.begin(message, values)
        return self._observe(message, values), self._hook.info(message, values)

    def step(self, action: Array, answer: bytes) -> Outcome:
        """Return observation, reward, terminated, truncated and info of a step. Raises the errors of `begin`."""
        use_case = self._compiled.use_case
        message = self._compiled.step_response.decode(answer)
        self._steps += 1
        values = self._values(message)
        reward = 0.0
        for term in use_case.reward:
            reward += term.constant or 0.0
            if term.quantity is not None:
                reward += term.weight * float(values[term.quantity])
        reward = float(self._hook.reward(message, values, action, reward))
        terminated = any(bool(values[name]) for name in use_case.terminated)
        terminated = bool(self._hook.terminated(message, values, terminated))
        truncated = not terminated and self._steps >= self._max_steps
        obs = self._observe(message, values)
        info = self._hook.info(message, values)
        if not np.isfinite(reward):
            raise BadAnswer(f"gives a reward of {reward}")
        if use_case.success is not None and (terminated or truncated):
            info = {**info, "is_success": bool(values[use_case.success])}
        return obs, reward, terminated, truncated, info

    @property
    def seconds_inside(self) -> float | None:
        """The time that the simulator took for the last answer, by its own clock."""
        return None if self.message is None else self._compiled.seconds_inside(self.message)

    def picture(self) -> Array | None:
        """Return the camera image of the last answer; None if it has no image."""
        data = self._image_data(self.message)
        return decode_image(data) if data else None

    def _values(self, message: Message) -> dict[str, Any]:
        self.message = message
        try:
            with np.errstate(all="ignore"):  # the observation is checked for NaN afterwards
                return self._compiled.quantities.compute(message, self._memory)
        except (TypeError, ValueError, ArithmeticError, KeyError, IndexError) as error:
            raise BadAnswer(f"does not match the quantities of the use case: {error}") from None

    def _observe(self, message: Message, values: Mapping[str, Any]) -> Any:
        seen = self._compiled.use_case.observation
        numbers = np.concatenate([as_numbers(values[name]) for name in seen.parts])
        numbers = np.asarray(self._hook.observation(message, dict(values), numbers), dtype=np.float32)
        if numbers.shape != (seen.size,):
            sizes = ", ".join(f"{name} {as_numbers(values[name]).size}" for name in seen.parts)
            raise BadAnswer(
                f"gives {numbers.size} observations, expected {seen.size} (observation.size): {sizes}"
            )
        if not np.isfinite(numbers).all():
            raise BadAnswer("contains observations that are NaN or infinite")
        self._frames.appendleft(numbers)
        blank = np.zeros_like(numbers)
        state = np.concatenate(
            [self._frames[lag] if lag < len(self._frames) else blank for lag in self._lags]
        )
        if seen.camera is None:
            return state
        camera = seen.camera
        data = self._image_data(message)
        if not data:
            raise BadAnswer("contains no camera image")
        image = decode_image(data, height=camera.height, width=camera.width, gray=camera.gray)
        return {"camera": image, "state": state}

    def _image_data(self, message: Message | None) -> bytes:
        field = self._compiled.use_case.image
        if message is None or field is None:
            return b""
        for name in field.split("."):
            message = message[name]
        return bytes(message["data"])


UNUSABLE = (CdrError, ImageError, BadAnswer)
"""Errors of reading an answer for which the simulator is responsible."""


def _codec(codecs: Mapping[str, CdrCodec], name: str, key: str) -> CdrCodec:
    if name not in codecs:
        raise _misnamed("message", name, codecs, key)
    return codecs[name]


def _misnamed(kind: str, name: str, known: Any, key: str) -> UserError:
    error = UnknownName(kind, name, known, where=key, fix=f"known: {', '.join(sorted(known))}")
    return ConfigError(error.what, key=key, fix=error.fix)


def _put(message: Message, path: list[str], value: Any) -> None:
    for name in path[:-1]:
        message = message.setdefault(name, {})
    message[path[-1]] = value


def _seconds(message: Message, path: str) -> float:
    for name in path.split("."):
        message = message[name]
    return float(message["sec"]) + float(message["nanosec"]) * 1e-9
