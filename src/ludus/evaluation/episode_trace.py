"""An episode step by step: signals of the env, outputs and actions of the policy, rewards.

Videos draw these steps and `ludus analyze` records them, so both show the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from ludus.envs.seeds import EpisodeSeed
from ludus.envs.signals import Signals
from ludus.envs.user_code import user_traceback
from ludus.errors import EnvFault, LudusError
from ludus.evaluation.evaluate import Actor, EpisodeState, choose, step_limit
from ludus.evaluation.policy_outputs import PolicyOutput, PolicyProbe
from ludus.types import Array

Env = gym.Env[Any, Any]
End = Literal["terminated", "truncated", "cut"]


@dataclass(frozen=True)
class TraceStep:
    """One state of an episode, `step` steps after its start.

    `reward` is the reward of the step that led here, `total` the sum so far. `signals` are in the order of their
    names. `output` and `action` are the policy's for this state; None at the end.
    """

    step: int
    reward: float
    total: float
    signals: tuple[float, ...]
    output: PolicyOutput | None
    action: Array | None
    ended: End | None = None


class EpisodeTrace:
    """Iterates over the steps of an episode on `env` from its seeded reset on.

    While the caller handles a step, the env is in that state. Without a `probe`, outputs are empty. `max_steps` is as
    in `step_limit`.
    """

    def __init__(
        self,
        actor: Actor,
        env: Env,
        seed: EpisodeSeed,
        signals: Signals,
        *,
        probe: PolicyProbe | None = None,
        deterministic: bool = True,
        max_steps: int | None = None,
    ) -> None:
        self._actor, self._env, self._seed = actor, env, seed
        self._signals, self._probe, self._deterministic = signals, probe, deterministic
        self._limit = step_limit(env, max_steps)
        self.reward = 0.0  # of the episode so far; at its end as the env reports it

    def __iter__(self) -> Iterator[TraceStep]:
        game = EpisodeState(self._env, self._seed, self._limit)
        step, total, over = 0, 0.0, False
        while not over:
            output = PolicyOutput() if self._probe is None else self._probe.inspect(game)
            values = self._read(game)
            action = np.asarray(choose(self._actor, [game], deterministic=self._deterministic)[0])
            yield TraceStep(step, game.last_reward, total, values, output, action)
            over = game.step(action if action.ndim else action[()]) is not None
            step, total = step + 1, total + game.last_reward
            self.reward = game.reward
        yield TraceStep(step, game.last_reward, total, self._read(game), None, None, game.ended)

    def _read(self, game: EpisodeState) -> tuple[float, ...]:
        try:
            return self._signals.read(game.env, game.obs, game.info)
        except LudusError:
            raise
        except Exception as error:  # a signal may be a function of the user
            spec = self._env.spec
            raise EnvFault(
                f"a signal raised {type(error).__name__}: {error}",
                worker=0,
                env_id=spec.id if spec is not None else type(self._env.unwrapped).__name__,
                seed=self._seed,
                user_traceback=user_traceback(error),
            ) from error
