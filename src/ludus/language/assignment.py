"""Which sampler answers which request: one that has the adapter, the one that answered its seat before, none too many.

Plain bookkeeping, the same for the same requests: what is drawn must not depend on which sampler was quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ludus.language.models.sampling import Request


@dataclass
class SamplerShare:
    """The work of one sampler: load these adapters, then answer the requests at these places."""

    load: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class Assignment:
    """Knows what each of the samplers (by number) holds."""

    def __init__(self) -> None:
        self._holds: dict[int, set[str]] = {}
        self._seats: dict[str, int] = {}

    @property
    def samplers(self) -> list[int]:
        return sorted(self._holds)

    def join(self, sampler: int) -> None:
        """A sampler that holds nothing yet."""
        self._holds[sampler] = set()

    def leave(self, sampler: int) -> None:
        del self._holds[sampler]
        self._seats = {key: other for key, other in self._seats.items() if other != sampler}

    def holders(self, adapter: str) -> list[int]:
        return [sampler for sampler in self.samplers if adapter in self._holds[sampler]]

    def drop(self, adapter: str) -> list[int]:
        """Remove an adapter that is no longer used; return the samplers that held it."""
        held = self.holders(adapter)
        for sampler in held:
            self._holds[sampler].discard(adapter)
        return held

    def forget(self) -> None:
        """Forget everything: no sampler holds an adapter."""
        self._seats.clear()
        for held in self._holds.values():
            held.clear()

    def deal(self, requests: Sequence[Request]) -> dict[int, SamplerShare]:
        """Every request to one sampler, none with more than its share of them.

        An adapter goes to a further sampler only when all who hold it have their share: one that is rarely asked for
        stays with one, the learner's comes to be everywhere.
        """
        fair = -(-len(requests) // len(self._holds))
        parts: dict[int, SamplerShare] = {sampler: SamplerShare() for sampler in self.samplers}
        for place, request in enumerate(requests):
            free = [sampler for sampler in parts if len(parts[sampler].places) < fair]
            holding = [s for s in free if request.adapter is None or request.adapter in self._holds[s]]
            before = self._seats.get(request.key)
            if before in holding:
                chosen = before
            else:
                chosen = min(holding or free, key=lambda sampler: len(parts[sampler].places))
            assert chosen is not None
            if request.adapter is not None and request.adapter not in self._holds[chosen]:
                self._holds[chosen].add(request.adapter)
                parts[chosen].load.append(request.adapter)
            if request.key:
                self._seats[request.key] = chosen
            parts[chosen].places.append(place)
        return {sampler: part for sampler, part in parts.items() if part.places}
