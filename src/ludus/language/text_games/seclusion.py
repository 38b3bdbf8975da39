"""Isolation of text games, which use the global random generator, download corpora, raise errors and hang.

Every call of a game goes through `secluded`, so that parallel games do not affect each other or the process, and a game
depends only on its seed and actions.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, cast

from numpy.random import MT19937, mtrand

from ludus.envs.seats import GameFault
from ludus.errors import UserError
from ludus.language.text_games.watchdog import TooSlow, Watchdog

LOCK = threading.RLock()
_WATCHDOG = Watchdog()
_DEADLINE_S = 60.0


class MissingCorpus(UserError):
    """A game needs an NLTK corpus that is not downloaded yet."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(
            f"this game needs NLTK's {' and '.join(repr(name) for name in names)}, not found on this machine",
            where="NLTK's data folders",
            fix=f"python -m nltk.downloader {' '.join(names)}",
        )


class Seclusion:
    """A game's own random state, which replaces the global one inside `with`.

    Inside, downloads are refused, and TooSlow is raised after a minute.
    """

    def __init__(self, seed: int) -> None:
        self._python = random.Random(seed).getstate()
        self._numpy = MT19937(seed)

    def __enter__(self) -> None:
        LOCK.acquire()
        self._outer = random.getstate(), mtrand.get_bit_generator()
        random.setstate(self._python)
        mtrand.set_bit_generator(self._numpy)
        self._nltk = cast("Any", sys.modules.get("nltk"))
        if self._nltk is not None:
            self._download = self._nltk.download
            self._nltk.download = _only_what_is_here
        _WATCHDOG.arm(_DEADLINE_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _WATCHDOG.disarm()
        if self._nltk is not None:
            self._nltk.download = self._download
        self._python = random.getstate()
        random.setstate(self._outer[0])
        mtrand.set_bit_generator(self._outer[1])
        LOCK.release()


@contextlib.contextmanager
def secluded(seclusion: Seclusion, doing: str) -> Iterator[None]:
    """Call a game inside: its errors become a GameFault of `doing`; UserError is passed on."""
    try:
        with seclusion:
            yield
    except UserError:
        raise
    except TooSlow:
        raise GameFault(f"{doing}: no answer within {_DEADLINE_S:.0f} s") from None
    except Exception as error:  # a game may raise anything
        raise GameFault.of(error, doing) from error


def _only_what_is_here(names: str | list[str], *args: Any, **kwargs: Any) -> bool:
    """Replacement of `nltk.download`: return True if all corpora are installed. Raises MissingCorpus."""
    find = sys.modules["nltk"].data.find
    asked = [names] if isinstance(names, str) else list(names)
    missing = []
    for name in asked:
        for path in (f"corpora/{name}", f"corpora/{name}.zip", f"taggers/{name}", f"taggers/{name}.zip"):
            with contextlib.suppress(LookupError):
                find(path)
                break
        else:
            missing.append(name)
    if missing:
        raise MissingCorpus(missing)
    return True
