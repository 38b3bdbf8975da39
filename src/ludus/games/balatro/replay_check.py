"""Plays a replay again from its seed alone, and compares every visible state and the result with the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ludus.errors import EXIT_FAULT, UserError, shortened
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.action_words import action_words
from ludus.games.balatro.env import BalatroEnv
from ludus.games.balatro.replay_files import GameReplay, ReplayDecision, ReplayResult
from ludus.games.balatro.visible_state import state_hash, visible_state

_MAX_SCORE = 1e300


class ReplayMismatch(UserError):
    """A replay that the engine plays with another outcome than the file has. `step` 0 is the start of the game."""

    exit_code = EXIT_FAULT

    def __init__(self, what: str, *, where: str, fix: str, step: int, expected: Any, got: Any) -> None:
        super().__init__(what, where=where, fix=fix)
        self.step, self.expected, self.got = step, expected, got


@dataclass(frozen=True)
class ReplayFrame:
    """One state of a replayed game, with the decision that is taken in it; None at the end.

    While the caller handles a frame, `env` is in that state.
    """

    step: int
    env: BalatroEnv
    state: dict[str, Any]
    decision: ReplayDecision | None


def replay_env(replay: GameReplay) -> BalatroEnv:
    """Return an env at the start of the game."""
    settings = replay.header.settings()
    env = BalatroEnv(
        settings.deck,
        settings.stake,
        settings.max_ante,
        settings.max_hand,
        settings.max_steps,
        actions=settings.actions,
    )
    env.reset(options={"seed": replay.header.seed})
    return env


def replay_frames(replay: GameReplay, where: str) -> Iterator[ReplayFrame]:
    """Yield every state of the game, played again. ReplayMismatch at the first difference; `where` names the file.

    UserError for a decision that is not legal.
    """
    env = replay_env(replay)
    s, f = env.games.s[0], env.games.f[0]
    state = visible_state(s, f)
    _compare_hash(replay.header.hash, state_hash(state), 0, "the first state", where)
    for step, decision in enumerate(replay.decisions, 1):
        place = f"{where}, step {step}"
        if s[st.PHASE] == n.GAME_OVER:
            raise UserError("the game is over, and the replay goes on", where=place, fix=_FIX_DAMAGED)
        legal = env.action_masks()
        if decision.action >= len(legal) or not legal[decision.action]:
            raise UserError(f"action {decision.action} is illegal here", where=place, fix=_FIX_DAMAGED)
        yield ReplayFrame(step - 1, env, state, decision)
        words = action_words(s, env.engine_action(decision.action))
        env.step(decision.action)
        state = visible_state(s, f)
        got = state_hash(state, decision.action)
        _compare_hash(decision.hash, got, step, f"the state after '{words}'", where)
    _compare_result(replay, result_of(s, f, len(replay.decisions)), where)
    yield ReplayFrame(len(replay.decisions), env, state, None)


def verify_replay(replay: GameReplay, where: str) -> None:
    """Play a replay again. ReplayMismatch or UserError if it does not lead to what the file says."""
    for _ in replay_frames(replay, where):
        pass


def result_of(s: Any, f: Any, decisions: int) -> ReplayResult:
    """Return how the game with the rows `s` and `f` stands."""
    from ludus.games.balatro.report import episode_report

    report = episode_report(s, f)
    return ReplayResult(
        over=bool(s[st.PHASE] == n.GAME_OVER),
        won=report["won"],
        ante=report["ante"],
        round=report["round"],
        money=report["money"],
        lost_to=report["lost_to"],
        best_hand=min(float(f"{report['score']:.12g}"), _MAX_SCORE),
        decisions=decisions,
    )


_FIX_DAMAGED = "the file was changed or belongs to another version of the rules: record the game again"


def _compare_hash(expected: str, got: str, step: int, what: str, where: str) -> None:
    if got == expected:
        return
    hint = (
        "seed, deck, stake and settings must be those that were played"
        if step == 0
        else "this decision or hash was changed, or other rules were played: record the game again"
    )
    raise ReplayMismatch(
        f"{what} differs from the replay: expected hash {expected}, got {got}",
        where=f"{where}, step {step}",
        fix=hint,
        step=step,
        expected=expected,
        got=got,
    )


def _compare_result(replay: GameReplay, own: ReplayResult, where: str) -> None:
    expected, got = replay.result.model_dump(), own.model_dump()
    for name, value in expected.items():
        if got[name] != value:
            raise ReplayMismatch(
                f"the result differs from the replay: expected {name} {shortened(value)}, got {shortened(got[name])}",
                where=f"{where}, step {own.decisions}",
                fix=_FIX_DAMAGED,
                step=own.decisions,
                expected=value,
                got=got[name],
            )
