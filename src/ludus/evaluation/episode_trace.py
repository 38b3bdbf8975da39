"""An episode told state by state: what the env shows, what the policy makes of it and does, what it gets for it.

Videos draw these moments and `ludus analyze` records them, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from ludus.envs.signals import Signals
from ludus.envs.vector.chunk import user_traceback
from ludus.errors import EnvFault, LudusError
from ludus.evaluation.evaluate import Actor, Game, choose
from ludus.evaluation.policy_outputs import Mind, Thought
from ludus.types import Array

Env = gym.Env[Any, Any]
End = Literal["terminated", "truncated"]


@dataclass(frozen=True)
class Moment:
    """One state of an episode, `step` steps after its start.

    `reward` is what the step that led here gave, `total` the sum so far. `signals` are in the order of their
    names. `thought` and `action` are what the policy makes of this state and will do in it: None at the end.
    """

    step: int
    reward: float
    total: float
    signals: tuple[float, ...]
    thought: Thought | None
    action: Array | None
    ended: End | None = None


class Telling:
    """An episode on `env` from its seeded reset on, moment by moment.

    While a moment is looked at, the env stands in the state it tells of. Without a `mind` no thoughts are told.
    """

    def __init__(
        self,
        actor: Actor,
        env: Env,
        seed: int,
        signals: Signals,
        *,
        mind: Mind | None = None,
        deterministic: bool = True,
    ) -> None:
        self._actor, self._env, self._seed = actor, env, seed
        self._signals, self._mind, self._deterministic = signals, mind, deterministic
        self.reward = 0.0  # of the episode so far: at its end the env's own account of it

    def __iter__(self) -> Iterator[Moment]:
        game = Game(self._env, self._seed)
        step, total, over = 0, 0.0, False
        while not over:
            thought = Thought() if self._mind is None else self._mind.think(game)
            values = self._read(game)
            action = np.asarray(choose(self._actor, [game], deterministic=self._deterministic)[0])
            yield Moment(step, game.last_reward, total, values, thought, action)
            over = game.step(action if action.ndim else action[()]) is not None
            step, total = step + 1, total + game.last_reward
            self.reward = game.reward
        yield Moment(step, game.last_reward, total, self._read(game), None, None, game.ended)

    def _read(self, game: Game) -> tuple[float, ...]:
        try:
            return self._signals.read(game.env, game.obs, game.info)
        except LudusError:
            raise
        except Exception as error:  # a signal is a function of the user's, as the env is
            spec = self._env.spec
            raise EnvFault(
                f"a signal raised {type(error).__name__}: {error}",
                worker=0,
                env_id=spec.id if spec is not None else type(self._env.unwrapped).__name__,
                seed=self._seed,
                user_traceback=user_traceback(error),
            ) from error
