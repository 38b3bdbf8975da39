"""Turns of language models: the exact tokens that were sampled, and the experience made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ludus.league.records import MatchRecord
from ludus.rollout.experience import Experience
from ludus.types import Array


@dataclass
class Turn:
    """One turn of a language model: its prompt, the sampled completion, and the result.

    `prompt` and `completion` are token ids as the sampler had and drew them; training uses these and never
    tokenises a text again. `log_probs` are those of the distribution that was sampled from, `raw_log_probs`
    those of the plain policy (temperature 1, nothing cut off).
    """

    game: str
    match: int
    seat: int
    index: int
    """Index of this turn in the match, counting all seats."""
    player: str
    """Name of the member of the league that played it."""
    version: int
    """Number of updates of the weights that played it."""
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    log_probs: Array
    raw_log_probs: Array
    observation: str
    text: str
    action: str
    well_formed: bool = True
    """True if the completion contains a well-formed action."""
    invalid: bool = False
    """True if the game refused the action."""
    truncated: bool = False
    """True if the completion was cut off at the maximum length."""
    prompt_cut: int = 0
    """Tokens dropped from the middle of a prompt that was too long."""
    entropy: float = 0.0
    group: int | None = None
    """Matches of one group started from the same state; the first turns are compared."""
    env_reward: float = 0.0
    """Reward that the env gave for this turn; games that give rewards at their end only have none."""
    reward: float = 0.0
    """Reward after the final and step transforms."""
    reward_parts: dict[str, float] = field(default_factory=dict)
    """The result (`game`), and the reward after each transform, by name."""
    weight: float = 1.0
    """Weight in the batch."""
    advantage: float | None = None


@dataclass(kw_only=True)
class Turns(Experience):
    """Turns of the learners, and the matches that ended during the collection.

    All turns of one seat of one match are in the same experience. `turns` may leave out turns that are in `matches`,
    such as those of opponents.
    """

    turns: list[Turn]
    matches: list[MatchRecord]

    def arrays(self) -> dict[str, Array]:
        turns = self.turns
        return {
            "prompts": _tokens([turn.prompt for turn in turns]),
            "prompt_lengths": np.array([len(turn.prompt) for turn in turns], dtype=np.int64),
            "completions": _tokens([turn.completion for turn in turns]),
            "completion_lengths": np.array([len(turn.completion) for turn in turns], dtype=np.int64),
            "log_probs": np.concatenate([np.zeros(0, np.float32), *(turn.log_probs for turn in turns)]),
            "advantages": np.array([turn.advantage or 0.0 for turn in turns], dtype=np.float64),
        }


def _tokens(sequences: Sequence[Sequence[int]]) -> Array:
    return np.array([token for sequence in sequences for token in sequence], dtype=np.int64)
