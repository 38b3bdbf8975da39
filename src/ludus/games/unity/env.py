"""A single Unity env for Gymnasium: for evaluation, videos, and wrappers. Training uses `vector`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from ludus.errors import SimulatorsTaken, UserError
from ludus.games.unity.episode import compile_use_case
from ludus.games.unity.settings import parse_settings
from ludus.games.unity.simulators import Simulators, SlotResult
from ludus.games.unity.support import ENV_ID
from ludus.games.unity.vector import borrow
from ludus.types import Array

# indices of the simulators that this process listens for, by address
_taken: dict[tuple[str, int], set[int]] = {}


class UnityEnv(gym.Env[Any, Array]):
    """Plays with simulator `index`. Default: one borrowed from a training in this process, otherwise simulator 0.

    Raises SimulatorsTaken if the simulator is already in use, and the errors of `Simulators`. A simulator lost in the
    middle of an episode truncates it, with `info["dropped"]`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(self, render_mode: str | None = None, index: int | None = None, **kwargs: Any) -> None:
        settings = parse_settings(kwargs)
        compiled = compile_use_case(settings.use_case)
        self.observation_space = compiled.observation_space
        self.action_space = compiled.action_space
        self.render_mode = render_mode
        self._address = (settings.host, settings.port)
        self._number: int | None = None
        borrowed = borrow(settings) if index is None else None
        if borrowed is not None:
            self._simulators, self._slot_index = borrowed
            return
        taken = _taken.setdefault(self._address, set())
        number = index or 0
        if number in taken:
            raise SimulatorsTaken(
                f"simulator {number} of {settings.host}:{settings.port} is used by another env of this process",
                where="env.kwargs",
                fix="close that env first, or use another index",
            )
        self._simulators = Simulators(compiled, settings, 1, env_id=ENV_ID, first=number)
        self._slot_index, self._number = 0, number
        taken.add(number)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        played = self._simulators.reset({self._slot_index: seed})[self._slot_index]
        if not self._simulators.slots[self._slot_index].playing:  # not connected: wait for it, as a step does
            played = self._play(self.action_space.sample())
        return played.obs, played.info

    def step(self, action: Array) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        played = self._play(action)
        if played.dropped:
            return played.obs, 0.0, False, True, {"dropped": True}
        return played.obs, played.reward, played.terminated, played.truncated, played.info

    def render(self) -> Array | None:
        """Return the camera image. UserError if the simulator sends none."""
        if self.render_mode is None:
            return None
        picture = self._simulators.picture(self._slot_index)
        if picture is None:
            raise UserError(
                "the simulator does not send a camera image",
                where=f"simulator at {self._simulators.addresses[self._slot_index]}",
                fix="add a camera to the build; with the stand-in, use `ludus unity simulator --camera`",
            )
        return picture

    def close(self) -> None:
        if self._number is None:
            slot = self._simulators.slots[self._slot_index]
            slot.playing = slot.lent = False
            return
        self._simulators.close()
        _taken[self._address].discard(self._number)

    def _play(self, action: Array) -> SlotResult:
        return self._simulators.step({self._slot_index: action}, restart=False)[self._slot_index]
