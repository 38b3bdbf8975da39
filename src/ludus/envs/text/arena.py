"""TextArena, kept to itself: its games draw from the process's one random generator, print, and fetch corpora.

Every call into a game goes through `Seclusion`, so that games played side by side do not touch each other or
anything else in the process, and a game is a function of its seed and its actions.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import random
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, cast

from numpy.random import MT19937, mtrand

from ludus.config.language import GameSpec
from ludus.envs.text.table import GameFault, Observed
from ludus.errors import MissingExtra, UserError

_LOCK = threading.RLock()
_GAME = -1  # who speaks in a message of the game's own


class MissingCorpus(UserError):
    """A game needs words that NLTK has not been told to download yet."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(
            f"this game needs NLTK's {' and '.join(repr(name) for name in names)}, not found on this machine",
            where="NLTK's data folders",
            fix=f"python -m nltk.downloader {' '.join(names)}",
        )


class Seclusion:
    """A game's own random state, in place of the process's while inside `with`; nothing is downloaded there."""

    def __init__(self, seed: int) -> None:
        self._python = random.Random(seed).getstate()
        self._numpy = MT19937(seed)

    def __enter__(self) -> None:
        _LOCK.acquire()
        self._outer = random.getstate(), mtrand.get_bit_generator()
        random.setstate(self._python)
        mtrand.set_bit_generator(self._numpy)
        self._nltk = cast("Any", sys.modules.get("nltk"))
        if self._nltk is not None:
            self._download = self._nltk.download
            self._nltk.download = _only_what_is_here

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._nltk is not None:
            self._nltk.download = self._download
        self._python = random.getstate()
        random.setstate(self._outer[0])
        mtrand.set_bit_generator(self._outer[1])
        _LOCK.release()


@functools.cache
def textarena() -> Any:
    """The package, imported once; raises MissingExtra. Its registry is `textarena().envs.registration.ENV_REGISTRY`."""
    with _LOCK, warnings.catch_warnings():  # it silences a warning for the whole process
        try:
            package = importlib.import_module("textarena")
        except ModuleNotFoundError as error:
            if error.name != "textarena":
                raise
            raise MissingExtra("playing text games", "text") from None
    known = package.envs.registration.ENV_REGISTRY
    package.envs.registration.register_with_versions(
        id="KuhnPoker-v0-stakes",
        entry_point="ludus.envs.text.stakes:KuhnWithStakes",
        wrappers={
            "default": known["KuhnPoker-v0"].default_wrappers,
            "-train": known["KuhnPoker-v0-train"].default_wrappers,
        },
        max_rounds=1,
    )
    return package


def registry() -> Mapping[str, Any]:
    """TextArena's entries by id, each with `entry_point`, `kwargs` and `default_wrappers`."""
    entries: Mapping[str, Any] = textarena().envs.registration.ENV_REGISTRY
    return entries


def make_env(game_id: str, kwargs: Mapping[str, Any]) -> Any:
    """A fresh env of TextArena's; to be called in seclusion."""
    # games shuffle lists they are given, and those of the registry are shared
    settings = copy.deepcopy({**registry()[game_id].kwargs, **kwargs})
    env = textarena().make(game_id, **settings)
    _silence(str(registry()[game_id].entry_point))
    return env


class ArenaTable:
    """One TextArena game, started; raises GameFault when it cannot be, UserError when something is missing."""

    def __init__(self, spec: GameSpec, players: int, seed: int) -> None:
        self._seclusion = Seclusion(seed)
        self._players = players
        self._refused = False
        self._observed = Observed("", "", "", 0)
        self._seen: dict[int, list[tuple[int, str, str]]] = {seat: [] for seat in range(players)}
        with self._faults(f"{spec.id} cannot be started by {players}"):
            self._env = make_env(spec.id, spec.kwargs)
            self._env.reset(num_players=players, seed=seed)
            self._inner = _innermost(self._env)
            self._inner.get_observation = functools.partial(self._keep, self._inner.get_observation)
            self._state = self._inner.state
            if hasattr(self._state, "set_invalid_move"):
                # the state forgets within the same step that it refused a move
                self._state.set_invalid_move = functools.partial(self._refuse, self._state.set_invalid_move)
            self._next_turn()

    def observe(self) -> Observed:
        return self._observed

    def play(self, action: str) -> bool:
        with self._faults("the game raised"):
            lost_before = self.invalid()
            self._refused = False
            self._env.step(action)
            self._next_turn()
            return not self._refused and self.invalid() == lost_before

    def rewards(self) -> tuple[float, ...]:
        given = self._state.rewards or {}
        return tuple(float(given.get(seat) or 0.0) for seat in range(self._players))

    def reason(self) -> str:
        reasons = (self._about(seat).get("reason") for seat in range(self._players))
        return next((str(reason) for reason in reasons if reason), "")

    def invalid(self) -> tuple[bool, ...]:
        return tuple(bool(self._about(seat).get("invalid_move")) for seat in range(self._players))

    @property
    def state(self) -> dict[str, Any]:
        held: dict[str, Any] = self._state.game_state or {}
        return held

    @contextlib.contextmanager
    def _faults(self, doing: str) -> Iterator[None]:
        try:
            with self._seclusion:
                yield
        except UserError:
            raise
        except Exception as error:  # a game may raise anything
            raise GameFault.of(error, doing) from error

    def _next_turn(self) -> None:
        self.over = bool(self._state.done)
        if self.over:
            return
        # once in each turn: some games add to what is seen whenever they are asked
        seat, text = self._env.get_observation()
        seen = self._seen[seat]
        prompts = [message for _, message, kind in seen if kind == "PROMPT"]
        boards = [message for _, message, kind in seen if kind == "GAME_BOARD"]
        self._observed = Observed(
            text if isinstance(text, str) else self._transcript(seat),  # raw ids give messages, not text
            boards[-1] if boards else "",
            prompts[0] if prompts else "",
            int(seat),
        )

    def _about(self, seat: int) -> dict[str, Any]:
        held: dict[str, Any] = getattr(self._state, "game_info", {}).get(seat, {})
        return held

    def _keep(self, get_observation: Any) -> Any:
        seat, messages = get_observation()
        self._seen[seat] += [(sender, str(message), kind.name) for sender, message, kind in messages or ()]
        return seat, messages

    def _refuse(self, set_invalid_move: Any, *args: Any, **kwargs: Any) -> Any:
        self._refused = True
        return set_invalid_move(*args, **kwargs)

    def _transcript(self, seat: int) -> str:
        names = self._state.role_mapping or {}
        return "".join(
            f"\n[{'GAME' if sender == _GAME else names.get(sender, f'Player {sender}')}] {message}"
            for sender, message, _ in self._seen[seat]
        )


def _innermost(env: Any) -> Any:
    while isinstance(env, textarena().Wrapper):
        env = env.env
    return env


@functools.cache
def _silence(entry_point: str) -> None:
    """Gives a game's modules a `print` of their own; the process's stdout is not swapped, others write to it."""
    package = entry_point.partition(":")[0].rpartition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.startswith(package) and module is not None:
            vars(module).setdefault("print", _say_nothing)


def _say_nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _only_what_is_here(names: str | list[str], *args: Any, **kwargs: Any) -> bool:
    """Stands in for `nltk.download`: True when all is here already; raises MissingCorpus."""
    find = sys.modules["nltk"].data.find
    asked = [names] if isinstance(names, str) else list(names)
    missing = []
    for name in asked:
        for place in (f"corpora/{name}", f"corpora/{name}.zip", f"taggers/{name}", f"taggers/{name}.zip"):
            with contextlib.suppress(LookupError):
                find(place)
                break
        else:
            missing.append(name)
    if missing:
        raise MissingCorpus(missing)
    return True
