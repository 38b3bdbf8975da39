"""Reward transforms between a game's result and the learner, named in the config, in order.

Final transforms change the result of a seat, step transforms the reward of one turn, sampling transforms
(`sampling.py`) how turns compare within one batch. Each has its own strict settings: a name alone uses the
defaults, `{name: number}` its first setting, `{name: {setting: value}}` any.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field, PrivateAttr, ValidationError

from ludus.config.explain import explain
from ludus.config.language import RewardsConfig
from ludus.config.schedule import MAX_REWARD
from ludus.errors import ConfigError, UnknownName
from ludus.language.algorithms.credit import FINAL
from ludus.language.algorithms.sampling import SAMPLING, SamplingTransform
from ludus.language.algorithms.transform import Average, Transform, by_key, key_of
from ludus.language.turns import Turn
from ludus.league.records import MatchRecord
from ludus.types import Metrics

GAME = "game"
"""Key of `Turn.reward_parts` for the result of the game."""


class FinalTransform(Transform):
    """Transform of the result of one seat."""

    def __call__(self, match: MatchRecord, seat: int, reward: float) -> float:
        raise NotImplementedError

    def settle(self) -> None:
        """Update the state with the results since the last call."""


class RoleAdvantage(FinalTransform):
    """Subtract the running mean result of the game and seat, so that the advantage of moving first does not count.

    Matches that ended together use the same mean, that of earlier matches: equal results stay equal. The first results
    are not changed.
    """

    decay: float = Field(default=0.99, ge=0, lt=1)
    _means: dict[str, Average] = PrivateAttr(default_factory=dict)
    _seen: list[tuple[str, float]] = PrivateAttr(default_factory=list)

    def __call__(self, match: MatchRecord, seat: int, reward: float) -> float:
        key = key_of(match.game, seat)
        self._seen.append((key, reward))
        return reward - self._means[key].value if key in self._means else reward

    def settle(self) -> None:
        for key, reward in self._seen:
            self._means.setdefault(key, Average()).update(reward, self.decay)
        self._seen.clear()

    def state_dict(self) -> dict[str, Any]:
        return {key: mean.state() for key, mean in self._means.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._means = by_key(state)


class OutcomeMap(FinalTransform):
    """Replace the result by win, draw or loss: the highest result wins; equal results are a draw.

    A player who ended the game by an invalid move loses, and nobody wins by it. In a single-player game, a result above
    0 is a win and below 0 a loss.
    """

    win: float = Field(default=1.0, ge=-MAX_REWARD, le=MAX_REWARD)
    draw: float = Field(default=0.0, ge=-MAX_REWARD, le=MAX_REWARD)
    loss: float = Field(default=-1.0, ge=-MAX_REWARD, le=MAX_REWARD)

    def __call__(self, match: MatchRecord, seat: int, reward: float) -> float:
        if any(match.invalid):
            return self.loss if match.invalid[seat] else self.draw
        results = match.rewards if len(match.rewards) > 1 else (*match.rewards, 0.0)
        if min(results) == max(results):
            return self.draw
        return self.win if results[seat] == max(results) else self.loss


class StepTransform(Transform):
    """Transform of the reward of one turn."""

    def __call__(self, turn: Turn, reward: float) -> float:
        raise NotImplementedError


class Format(StepTransform):
    """Add a reward for a completion with a well-formed action, and another one for other completions."""

    right: float = Field(default=0.1, ge=-MAX_REWARD, le=MAX_REWARD)
    wrong: float = Field(default=0.0, ge=-MAX_REWARD, le=MAX_REWARD)

    def __call__(self, turn: Turn, reward: float) -> float:
        return reward + (self.right if turn.well_formed else self.wrong)


class Invalid(StepTransform):
    """Add a reward, usually negative, for a move that the game refused."""

    penalty: float = Field(default=-1.0, ge=-MAX_REWARD, le=MAX_REWARD)

    def __call__(self, turn: Turn, reward: float) -> float:
        return reward + (self.penalty if turn.invalid else 0.0)


class Length(StepTransform):
    """Add a reward for every token of a completion after the first `free` tokens."""

    per_token: float = Field(default=-0.001, ge=-MAX_REWARD, le=MAX_REWARD)
    free: int = Field(default=0, ge=0, le=1_000_000)

    def __call__(self, turn: Turn, reward: float) -> float:
        return reward + self.per_token * max(len(turn.completion) - self.free, 0)


FINAL_TRANSFORMS: dict[str, type[FinalTransform]] = {"role_advantage": RoleAdvantage, "outcome": OutcomeMap}
STEP_TRANSFORMS: dict[str, type[StepTransform]] = {"format": Format, "invalid": Invalid, "length": Length}
_KINDS: dict[str, dict[str, Any]] = {
    "final": FINAL_TRANSFORMS,
    "step": STEP_TRANSFORMS,
    "sampling": SAMPLING,
}


class Transforms:
    """The transforms of a run, in their order, with their state."""

    def __init__(self, settings: RewardsConfig, usual_sampling: Sequence[str] = ()) -> None:
        """`usual_sampling` is the default for `settings.sampling: null`. Raises UnknownName, ConfigError."""
        sampling = list(usual_sampling) if settings.sampling is None else settings.sampling
        self.final: dict[str, FinalTransform] = _make("final", settings.final)
        self.step: dict[str, StepTransform] = _make("step", settings.step)
        self.sampling: dict[str, SamplingTransform] = _make("sampling", sampling)

    def finish(self, matches: Iterable[MatchRecord], learners: Container[str] | None = None) -> None:
        """Set `reward` and `reward_parts` of every turn of matches that ended together. Call it once per match.

        Turns of players that are not in `learners` (None: all are) get the result itself, and do not change the state
        of the transforms.
        """
        for match in matches:
            self._finish_one(match, learners)
        for final in self.final.values():
            final.settle()

    def _finish_one(self, match: MatchRecord, learners: Container[str] | None) -> None:
        for seat, player in sorted({(turn.seat, turn.player) for turn in match.turns}):
            reward = float(match.rewards[seat])
            parts = {GAME: reward}
            learns = learners is None or player in learners
            if learns:
                for name, final in self.final.items():
                    reward = parts[name] = final(match, seat, reward)
                parts[FINAL] = reward
            for turn in match.turns:
                if turn.seat == seat:
                    turn.reward, turn.reward_parts = reward, dict(parts)
                    if learns:
                        self._step(turn)

    def _step(self, turn: Turn) -> None:
        for name, step in self.step.items():
            turn.reward = turn.reward_parts[name] = step(turn, turn.reward)

    def batch(self, turns: Sequence[Turn]) -> None:
        """Set `advantage` and `weight` of turns that are learnt from together.

        The advantage of a turn without one is initially its reward. Each transform's effect is noted in `reward_parts`.
        """
        for turn in turns:
            turn.advantage = turn.reward if turn.advantage is None else turn.advantage
            turn.weight = 1.0
        if not turns:
            return
        for name, transform in self.sampling.items():
            transform(turns)
            for turn in turns:
                turn.reward_parts[name] = turn.weight if transform.weighs else float(turn.advantage or 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the transforms as plain data."""
        return {name: state for name, transform in self._all() if (state := transform.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        for name, transform in self._all():
            transform.load_state_dict(state.get(name, {}))

    def _all(self) -> Iterator[tuple[str, Transform]]:
        for kind in (self.final, self.step, self.sampling):
            yield from kind.items()


def reward_metrics(turns: Iterable[Turn]) -> Metrics:
    """Return the mean over matches of each part of the reward: `reward/<game>/<seat>/<part>`."""
    sums: dict[tuple[str, int, str], dict[int, list[float]]] = {}
    for turn in turns:
        for part, value in turn.reward_parts.items():
            sums.setdefault((turn.game, turn.seat, part), {}).setdefault(turn.match, []).append(value)
    metrics = {}
    for (game, seat, part), by_match in sums.items():
        means = [sum(values) / len(values) for values in by_match.values()]
        metrics[f"reward/{game}/{seat}/{part}"] = sum(means) / len(means)
    return metrics


def _make(kind: str, entries: Sequence[str | dict[str, Any]]) -> dict[str, Any]:
    """Return the transforms listed in `rewards.<kind>`, by name and in order."""
    made: dict[str, Any] = {}
    for entry in entries:
        where = f"rewards.{kind}"
        if isinstance(entry, dict) and len(entry) != 1:
            raise ConfigError(
                f"a transform is a name or {{name: setting}}, got {entry!r}",
                key=where,
                fix="write each transform as an entry of its own",
            )
        name, given = (entry, None) if isinstance(entry, str) else next(iter(entry.items()))
        if name in made:
            raise ConfigError(f"the transform '{name}' is listed twice", key=where, fix="keep one")
        made[name] = _make_one(kind, name, given)
    return made


def _make_one(kind: str, name: str, given: Any) -> Any:
    where = f"rewards.{kind}"
    model: type[Transform] | None = _KINDS[kind].get(name)
    if model is None:
        home = next((other for other, known in _KINDS.items() if name in known), None)
        if home is not None:
            raise ConfigError(
                f"'{name}' is a {home} transform", key=where, fix=f"list it in rewards.{home} instead"
            )
        known = _KINDS[kind]
        raise UnknownName(f"{kind} transform", name, known, where=where, fix=f"known: {', '.join(known)}")
    if given is None:
        given = {}
    elif not isinstance(given, dict):
        if not model.model_fields:
            raise ConfigError(f"'{name}' has no settings", key=where, fix=f"write {name} alone")
        given = {next(iter(model.model_fields)): given}
    try:
        return model(**given)
    except ValidationError as error:
        raise explain(error, model, prefix=("rewards", kind, name)) from None
