"""`RLTrainer`, the interface of every trainer, `TrainResult`, and the base class of publishers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludus.config.schema import TrainerConfig

if TYPE_CHECKING:
    from ludus.algorithms.learner import AnyLearner


@dataclass(frozen=True)
class TrainResult:
    """The result of a training. `status` is finished, stopped (early stopping, a callback) or interrupted."""

    run: Path
    status: str
    steps: int
    seconds: float
    fps: float
    rewards: list[float] = field(default_factory=list, repr=False)
    evaluation: dict[str, Any] | None = None
    reason: str | None = None
    exit_code: int = 0

    def summary(self) -> dict[str, Any]:
        """Return the result as plain data, for `--json`."""
        return {
            "run": str(self.run),
            "status": self.status,
            "steps": self.steps,
            "fps": round(self.fps, 1),
            "seconds": round(self.seconds, 2),
            "eval": self.evaluation,
            "reason": self.reason,
        }


class RLTrainer(ABC):
    """Base of all trainers. Subclass it and call `register_algorithm("Mine", MyTrainer)` to add one.

    `env` is an env instance, an id, or a function that returns a new env; None uses that of the config.
    """

    def __init__(self, env: Any, config: TrainerConfig) -> None:
        self.env = env
        self.config = config

    @abstractmethod
    def create_model(self) -> Any:
        """Build envs and networks, and check that they fit. `train` calls it if needed."""

    @abstractmethod
    def train(self, total_timesteps: Any = None, callback: Any = None) -> Any:
        """Train up to `total_timesteps` in all (default: the config's)."""

    @abstractmethod
    def evaluate(self, n_episodes: int = 10, deterministic: bool = True) -> tuple[float, float]:
        """Return mean and standard deviation of the episode reward."""

    def save_model(self, path: str | Path | None = None) -> Path:
        """Write the policy to `path`, or into the run; return the path."""
        raise NotImplementedError(f"{type(self).__name__} does not save")

    def load_model(self, path: str | Path) -> None:
        """Load the policy of a run, a checkpoint, or a folder that `save_model` wrote."""
        raise NotImplementedError(f"{type(self).__name__} does not load")

    def close(self) -> None:
        """Close the envs. The trainer cannot be used afterwards."""


class Publisher:
    """Publisher of a session that plays in its own process, with the learner's own policy."""

    def publish(self, learner: AnyLearner) -> None:
        """Give the players the weights of the last update. Ranks that hold parts of the weights gather them first."""
        learner.publish()
        self.send(learner)

    def send(self, learner: AnyLearner) -> None:
        """Send the weights as they are to the players; here there are no others."""
