"""Evaluation that saves a replay of every game."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ludus.envs.make import EnvSpec
from ludus.envs.seeds import EpisodeSeed
from ludus.envs.user_code import build, close_env
from ludus.errors import UserError
from ludus.evaluation.evaluate import EpisodeState, EvaluationResult, choose, step_limit
from ludus.evaluation.load import LoadedPolicy
from ludus.evaluation.policy_outputs import PolicyOutput, PolicyProbe
from ludus.games.balatro import state as st
from ludus.games.balatro.env import BalatroEnv
from ludus.games.balatro.facts import DECK_NAMES
from ludus.games.balatro.replay_check import result_of
from ludus.games.balatro.replay_files import (
    MAX_CONSIDERED,
    MAX_DECISIONS,
    MAX_ESTIMATE,
    GameReplay,
    ReplayDecision,
    ReplayHeader,
)
from ludus.games.balatro.seeds import seed_text
from ludus.games.balatro.visible_state import state_hash, visible_state
from ludus.types import EpisodeRecord

_NOT_IN_NAMES = re.compile(r"[^\w.@-]+")


def record_games(
    policy: LoadedPolicy,
    spec: EnvSpec,
    seeds: Sequence[EpisodeSeed],
    folder: Path,
    *,
    deterministic: bool = True,
    max_steps: int | None = None,
) -> EvaluationResult:
    """Evaluate as `evaluate` does, one game after the other, and save a replay of each in `folder`.

    Files are named after the policy and the seed. UserError for an env whose wrappers change actions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    probe = PolicyProbe(policy, policy.reward_scale())
    name = re.split(r"[/\\]", policy.name)[-1]  # a path says more about this machine than about the policy
    stem_of_name = _NOT_IN_NAMES.sub("-", name).strip("-.")[:80] or "policy"
    used: dict[str, int] = {}
    records = []
    env = build(spec)
    try:
        limit = min(step_limit(env, max_steps) or MAX_DECISIONS, MAX_DECISIONS)
        for seed in seeds:
            recorder = _Recorder(policy, name, probe, EpisodeState(env, seed, limit), seed)
            records.append(recorder.play(deterministic))
            stem = f"{stem_of_name}-{recorder.header.seed}"
            used[stem] = used.get(stem, 0) + 1
            number = f"-{used[stem]}" if used[stem] > 1 else ""  # the same seed again
            recorder.replay().save(folder / f"{stem}{number}.jsonl")
    finally:
        close_env(env)
    return EvaluationResult(tuple(records))


class _Recorder:
    """One game that is being recorded."""

    def __init__(
        self, policy: LoadedPolicy, name: str, probe: PolicyProbe, game: EpisodeState, seed: EpisodeSeed
    ) -> None:
        self._policy, self._probe, self._game = policy, probe, game
        inner: Any = game.env.unwrapped
        assert isinstance(inner, BalatroEnv)
        self._inner = inner
        self._decisions: list[ReplayDecision] = []
        s = inner.games.s[0]
        self.header = ReplayHeader(
            seed=seed_text(seed),
            deck=DECK_NAMES[int(s[st.DECK])],
            stake=int(s[st.STAKE]),
            max_ante=int(s[st.LAST_ANTE]) or None,
            max_hand=inner.settings.max_hand,
            actions="moves" if inner.settings.actions == "moves" else "cards",
            policy=name[:200],
            hash=self._hash(),
        )

    def play(self, deterministic: bool) -> EpisodeRecord:
        """Play the game to its end and return its record."""
        record = None
        while record is None:
            output = self._probe.inspect(self._game)
            action = int(choose(self._policy, [self._game], deterministic=deterministic)[0])
            legal = bool(self._inner.action_masks()[action])
            expected = self._inner.engine_action(action)
            steps = int(self._inner.games.s[0, st.STEPS])
            record = self._game.step(action)
            if self._inner.last_action != expected or int(self._inner.games.s[0, st.STEPS]) != steps + 1:
                raise UserError(
                    "cannot record replays: a wrapper of the env changes or repeats actions",
                    where="env.wrappers, env.frame_skip",
                    fix="evaluate without --replays, or train without that wrapper",
                )
            if legal:  # an illegal action changes nothing
                self._decisions.append(
                    ReplayDecision(action=action, hash=self._hash(action), **_considered(output, action))
                )
        return record

    def replay(self) -> GameReplay:
        """Return the replay of the game so far."""
        games = self._inner.games
        result = result_of(games.s[0], games.f[0], len(self._decisions))
        return GameReplay(header=self.header, decisions=self._decisions, result=result)

    def _hash(self, action: int | None = None) -> str:
        return state_hash(visible_state(self._inner.games.s[0], self._inner.games.f[0]), action)


def _considered(output: PolicyOutput, action: int) -> dict[str, Any]:
    """Return the optional fields of a decision: the value, and the likeliest actions with the chosen one among them."""
    found: dict[str, Any] = {}
    if output.value is not None and abs(output.value) <= MAX_ESTIMATE:  # not NaN
        found["value"] = round(output.value, 6)
    if output.weights is None:
        return found
    weighed = {i: w for i, w in enumerate(output.weights) if abs(w) <= MAX_ESTIMATE}
    if output.weighing == "probability":
        weighed = {i: w for i, w in weighed.items() if w > 0.0005 or i == action}
    best = sorted(weighed, key=lambda i: (i != action, -weighed[i]))[:MAX_CONSIDERED]
    rows = [(i, round(weighed[i], 6)) for i in sorted(best, key=lambda i: -weighed[i])]
    return found | {"probabilities" if output.weighing == "probability" else "q_values": rows}
