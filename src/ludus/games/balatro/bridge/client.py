"""The client: plays the real game with a policy, and checks after every request that it shows what the engine expects.

An action is never sent again blindly. After a fault of the connection the client asks for the state of the game: if it
is the one after the action, the action was carried out; if it stays the one before, it was not and is sent again; if it
is another one, the client stops with a report.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ludus.errors import SimulatorLost, UserError
from ludus.evaluation.evaluate import Actor, EpisodeState, choose
from ludus.games.balatro import state as st
from ludus.games.balatro.bridge.protocol import (
    BASE_METHODS,
    INVALID_STATE,
    CallFailed,
    CallRefused,
    GameConnection,
    offered_methods,
    title_and_version,
)
from ludus.games.balatro.bridge.requests import Request, Translator, rearrange_hand
from ludus.games.balatro.bridge.twin import Twin, expected_view
from ludus.games.balatro.bridge.view import FieldDifference, View, differences, order_of_hand, read_view
from ludus.games.balatro.engine import apply
from ludus.games.balatro.env import NO_LOG, NO_QUEUE

_ENDED = ("MENU", "GAME_OVER", "SPLASH")  # states in which no run would be lost
_STABLE = 3  # times in a row that a state is seen before it counts as the one at rest


@dataclass(frozen=True)
class Patience:
    """How long the client waits, in seconds, and how often it tries again."""

    start: float = 60.0  # for the game to answer at all
    settle: float = 20.0  # for the state that an answered action leads to
    pause: float = 0.5  # between two questions for the state
    skip: float = (
        10.0  # for the answer to a skip that opens a pack: 1.4.1 gives none until the pack is closed
    )
    resends: int = 3  # of one action


class GamesDiffer(Exception):
    """The game does not show what the engine expects, or refused an action that the engine allows."""

    def __init__(self, what: str, found: list[FieldDifference], expected: View, shown: View) -> None:
        super().__init__(what)
        self.what = what
        self.differences = found
        self.expected = expected
        self.shown = shown


@dataclass
class PlayedGame:
    """The result of one run."""

    seed: str
    won: bool = False
    ante: int = 1
    round: int = 0
    requests: list[str] = field(default_factory=list)
    ended: str = ""  # won, lost or cut

    def as_dict(self) -> dict[str, Any]:
        row = {"seed": self.seed, "won": self.won, "ante": self.ante, "round": self.round}
        return row | {"requests": len(self.requests), "ended": self.ended}


class GameClient:
    """Carries out requests in the game, each checked against the view that the engine expects."""

    def __init__(self, connection: GameConnection, patience: Patience | None = None) -> None:
        self.connection = connection
        self.patience = patience or Patience()
        self.methods = BASE_METHODS
        self.title = ""
        self.raw: Any = None  # the last game state, for reports
        self.shown: View = {}
        self.log: list[str] = []

    def wait_for_game(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Wait until the game answers, and ask for its methods. Raises SimulatorLost after `patience.start`."""
        deadline = time.monotonic() + self.patience.start
        waiting = False
        while True:
            try:
                self.connection.call("health", timeout=max(1.0, deadline - time.monotonic()))
                break
            except CallRefused:
                break
            except CallFailed as failure:
                if time.monotonic() > deadline:
                    raise self._lost(f"no game answers at {self.connection.address}: {failure}") from None
                if not waiting:
                    waiting = True
                    say(f"waiting up to {self.patience.start:g} s for the game at {self.connection.address}")
                time.sleep(self.patience.pause)
        try:
            document = self.connection.call("rpc.discover")
        except CallRefused:
            document = None
        except CallFailed as failure:
            raise self._lost(f"the game stopped answering: {failure}") from None
        self.methods, self.title = offered_methods(document), title_and_version(document)

    def look(self) -> View:
        """Return the view of the game now; asks again after faults. Raises SimulatorLost after `patience.settle`."""
        deadline = time.monotonic() + self.patience.settle
        while True:
            try:
                return self._note(self.connection.call("gamestate"))
            except (CallFailed, CallRefused) as failure:
                if time.monotonic() > deadline:
                    raise self._lost(f"the game stopped answering: {failure}") from None
                time.sleep(self.patience.pause)

    def perform(self, request: Request, before: View, after: View) -> None:
        """Carry out a request that leads from the view `before` to `after`, exactly once.

        Raises GamesDiffer if the game shows another state or refuses the request, SimulatorLost if it is gone.
        """
        if request.permutes:
            ids = self.shown.get(request.permutes, [])
            before = {**before, request.permutes: ids}
            after = {**after, request.permutes: [ids[place] for place in request.order]}
        opens_pack = request.method == "skip" and after.get("state") == "SMODS_BOOSTER_OPENED"
        for _ in range(1 + self.patience.resends):
            self.log.append(str(request))
            refusal: CallRefused | None = None
            try:
                timeout = min(self.patience.skip, self.connection.timeout) if opens_pack else None
                self._note(self.connection.call(request.method, request.params, timeout))
            except CallRefused as answer:
                refusal = answer
            except CallFailed:
                pass
            else:
                self._settle(request, None, after)
                return
            if self._settle(request, before, after, refusal):
                return
            if refusal is not None and refusal.name != INVALID_STATE:
                raise GamesDiffer(f"the game refused '{request}' ({refusal})", [], after, self.shown)
        if refusal is not None:
            raise GamesDiffer(f"the game refused '{request}' ({refusal})", [], after, self.shown)
        raise self._lost(f"'{request}' was sent {1 + self.patience.resends} times and never carried out")

    def _settle(
        self, request: Request, before: View | None, after: View, refusal: CallRefused | None = None
    ) -> bool:
        """Wait until the game shows `after`; return False if it stays at `before`, which may be None.

        Without `before` the last answer is the first state to be compared. Raises GamesDiffer for any other state.
        """
        deadline = time.monotonic() + self.patience.settle
        shown, unchanged = (self.shown, 0) if before is None else (self.look(), 0)
        while True:
            found = differences(after, shown)
            if not found:
                return True
            if [difference.field for difference in found] == ["hand"] and not request.permutes:
                order = order_of_hand(after, shown)
                if order is not None:  # the engine breaks ties between equal cards in another way
                    self._sort_hand(order, after, shown)
                    return True
            unchanged = unchanged + 1 if before is not None and not differences(before, shown) else 0
            if unchanged >= _STABLE:
                return False
            if time.monotonic() > deadline:
                why = "" if refusal is None else f" (the game refused it: {refusal})"
                what = f"after '{request}' the game shows another state than the engine expects{why}"
                raise GamesDiffer(what, found, after, shown)
            time.sleep(self.patience.pause)
            shown = self.look()

    def _sort_hand(self, order: list[int], after: View, shown: View) -> None:
        self.perform(rearrange_hand(order), {**after, "hand": shown["hand"]}, after)

    def _note(self, state: Any) -> View:
        self.shown = read_view(state)
        self.raw = state
        return self.shown

    def _lost(self, what: str) -> SimulatorLost:
        return SimulatorLost(
            what,
            where=f"Balatro at {self.connection.address}",
            fix="start the game with the mod balatrobot (uvx balatrobot serve), or: ludus balatro serve",
        )


class BridgePlayer:
    """Plays runs of the real game with a policy, in step with a twin."""

    def __init__(self, client: GameClient, twin: Twin, actor: Actor, *, deterministic: bool = True) -> None:
        self.client = client
        self.twin = twin
        self.actor = actor
        self.deterministic = deterministic

    def play(self, seed: str, *, leave_run: bool = False) -> PlayedGame:
        """Play one run of a seed. Raises GamesDiffer, SimulatorLost, or UserError if another run is in progress."""
        self.client.log = []
        game = PlayedGame(seed, requests=self.client.log)
        episode = EpisodeState(self.twin.env, seed)
        settled = self._start(seed, leave_run)
        translator = Translator(self.client.methods)
        record = None
        while record is None:
            choice = int(choose(self.actor, [episode], deterministic=self.deterministic)[0])
            action = self.twin.engine_action(choice)
            requests = [] if action is None else translator.requests(self.twin.s, action)
            ahead = self.twin.game_copy()
            record = episode.step(choice)
            for number, request in enumerate(requests):
                if request.engine_action is not None:
                    apply(ahead.s[0], ahead.f[0], NO_QUEUE, NO_LOG, request.engine_action)
                last = number == len(requests) - 1
                after = self.twin.view() if last else expected_view(ahead.s[0], ahead.f[0])
                assert after is not None
                self.client.perform(request, settled, after)
                settled = after
        game.won = bool(record.success)
        game.ended = "won" if game.won else "lost" if episode.ended == "terminated" else "cut"
        game.ante, game.round = int(self.twin.s[st.ANTE]), int(self.twin.s[st.ROUND])
        return game

    def _start(self, seed: str, leave_run: bool) -> View:
        shown = self.client.look()
        if shown["state"] not in _ENDED and not leave_run:
            raise UserError(
                f"a run is in progress in the game (state {shown['state']})",
                where=f"Balatro at {self.client.connection.address}",
                fix="finish it or go to the main menu; --leave-run abandons it",
            )
        menu: View = {"state": "MENU"}
        if shown["state"] != "MENU":
            self.client.perform(Request("menu"), {"state": shown["state"]}, menu)
        run = {"deck": self.twin.deck, "stake": self.twin.stake, "seed": seed}
        expected = self.twin.view()
        assert expected is not None
        self.client.perform(Request("start", run), menu, {**expected, **run})
        return expected


def write_report(path: Path, differ: GamesDiffer, client: GameClient, run: dict[str, Any]) -> None:
    """Write what the engine expected, what the game shows, and the requests so far as JSON."""
    content = {
        "what": differ.what,
        "run": run,
        "requests": client.log,
        "differences": [vars(difference) for difference in differ.differences],
        "expected": differ.expected,
        "shown": differ.shown,
        "game_state": client.raw,
    }
    try:
        text = json.dumps(content, indent=2)
    except RecursionError:  # the game's answer is nested as deeply as the parser allows
        text = json.dumps(content | {"game_state": None}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")
