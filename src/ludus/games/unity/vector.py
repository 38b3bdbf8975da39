"""All Unity envs of a run as one `gymnasium.vector.VectorEnv`: all requests are sent before any answer is awaited."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from ludus.envs.vector.contract import StepResult, VectorBackend, seed_per_env, split_reset_mask
from ludus.errors import ConfigError, SimulatorsTaken
from ludus.games.unity.episode import compile_use_case
from ludus.games.unity.settings import UnitySettings, parse_settings
from ludus.games.unity.simulators import Simulators, SlotResult
from ludus.games.unity.support import unsupported_reason
from ludus.types import Metrics, Observation

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec


class UnityVectorEnv(VectorBackend):
    """`n_envs` simulators. An episode that ends is reset in the same step (SAME_STEP).

    `infos["dropped"]` is set for a lost simulator until its next episode has begun. The constructor waits for all
    simulators, and raises the errors of `Simulators`.
    """

    def __init__(self, spec: EnvSpec, n_envs: int) -> None:
        reason = unsupported_reason(spec)
        if reason is not None:
            raise ConfigError(
                f"vector: endpoint cannot be used: {reason}", key="vector", fix="use vector: auto"
            )
        settings = parse_settings(spec.kwargs)
        compiled = compile_use_case(settings.use_case)
        self.env_id = spec.id
        self.num_envs = n_envs
        self.single_observation_space = compiled.observation_space
        self.single_action_space = compiled.action_space
        self.observation_space = batch_space(self.single_observation_space, n_envs)
        self.action_space = batch_space(self.single_action_space, n_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["rgb_array"]}
        self.render_mode = spec.render_mode
        # a seed gives the same start only if the simulator uses it
        self.seeded = compiled.use_case.reset.seed is not None
        self.simulators = Simulators(
            compiled, settings, n_envs, env_id=spec.id, max_steps=spec.max_episode_steps
        )
        _LENDABLE.append(weakref.ref(self.simulators))
        self._seeds: dict[int, int] = {}

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # as Gymnasium's own
        """The seed of each env's last seeded reset, -1 without one. The simulators draw the random numbers."""
        return tuple(self._seeds.get(index, -1) for index in range(self.num_envs))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in every env. A seed s gives env i the seed s + i, a list its element.

        `options["reset_mask"]`, a bool array, names the envs to reset; the others continue.
        """
        self._require_open()
        seeds = seed_per_env(seed, self.num_envs)
        chosen, _ = split_reset_mask(options, self.num_envs)
        own = {index: seeds[index] for index in self._own_indices() if chosen is None or chosen[index]}
        self._seeds.update({index: one for index, one in own.items() if one is not None})
        played = self.simulators.reset(own)
        infos: dict[str, Any] = {}
        for index, part in played.items():
            if part.info:
                infos = self._add_info(infos, part.info, index)
        return self._observations(), infos

    def step(self, actions: Any) -> StepResult:
        self._require_open()
        rows = np.asarray(actions)
        if rows.shape != self.action_space.shape:
            raise ValueError(f"expected actions of shape {self.action_space.shape}, got {rows.shape}")
        own = self._own_indices()
        played = self.simulators.step({index: rows[index] for index in own})
        rewards = np.zeros(self.num_envs)
        terminated = np.zeros(self.num_envs, dtype=np.bool_)
        truncated = np.zeros(self.num_envs, dtype=np.bool_)
        dropped = np.ones(self.num_envs, dtype=np.bool_)
        infos: dict[str, Any] = {}
        for index, part in played.items():
            rewards[index] = part.reward
            terminated[index] = part.terminated
            truncated[index] = part.truncated
            dropped[index] = part.dropped
            infos = self._add_infos(infos, index, part)
        if dropped.any():
            infos["dropped"] = dropped
            infos.pop("_dropped", None)  # an info of a hook with that name would hide it
        return self._observations(), rewards, terminated, truncated, infos

    def render(self) -> tuple[Any, ...]:
        """Return the camera image of every env; None for a simulator that sends none."""
        self._require_open()
        return tuple(self.simulators.picture(index) for index in range(self.num_envs))

    def take_metrics(self) -> Metrics:
        """Return the response times of simulators since the last call, and how often one was lost so far."""
        metrics = self.simulators.latency.take()
        return metrics | {"time/sim_losses": float(self.simulators.losses)} if metrics else {}

    def close_extras(self, **kwargs: Any) -> None:
        self.simulators.close()

    def _own_indices(self) -> list[int]:
        return [index for index, slot in enumerate(self.simulators.slots) if not slot.lent]

    def _add_infos(self, infos: dict[str, Any], index: int, part: SlotResult) -> dict[str, Any]:
        if part.final_info is not None:
            final = {"final_obs": part.final_obs, "final_info": part.final_info}
            infos = self._add_info(infos, final, index)
        return self._add_info(infos, part.info, index) if part.info else infos

    def _observations(self) -> Observation:
        rows = [slot.obs for slot in self.simulators.slots]
        if isinstance(rows[0], dict):
            return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
        return np.stack(rows)


_LENDABLE: list[weakref.ref[Simulators]] = []


def borrow(settings: UnitySettings) -> tuple[Simulators, int] | None:
    """Return a simulator of a vector env in this process with the same settings, and its index; None if there is none.

    Its current episode is dropped. SimulatorsTaken if one is already lent: evaluations run one after the other, and a
    second simulator would cost training another episode.
    """
    _LENDABLE[:] = [lendable for lendable in _LENDABLE if lendable() is not None]
    for lendable in reversed(_LENDABLE):
        simulators = lendable()
        if simulators is None or simulators.closed or simulators.settings != settings:
            continue
        if any(slot.lent for slot in simulators.slots):
            raise SimulatorsTaken(
                "a simulator is lent to another evaluation", where="env", fix="close that env first"
            )
        slot = simulators.slots[-1]
        slot.lent, slot.playing = True, False
        return simulators, len(simulators.slots) - 1
    return None
