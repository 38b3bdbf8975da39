"""Assignment of requests to samplers: prefer one that has the adapter and answered this seat before; balance the load.

It is deterministic: samples must not depend on which sampler was faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ludus.language.models.sampling import Request


@dataclass
class SamplerShare:
    """The work of one sampler: load these adapters, then answer the requests with these indices."""

    load: list[str] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)


class Assignment:
    """Record of the adapters of each sampler, by its number."""

    def __init__(self) -> None:
        self._holds: dict[int, set[str]] = {}
        self._seats: dict[str, int] = {}

    @property
    def samplers(self) -> list[int]:
        return sorted(self._holds)

    def join(self, sampler: int) -> None:
        """Add a sampler without adapters."""
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
        """Assign every request to a sampler; no sampler gets more than its share.

        An adapter is sent to another sampler only when all samplers that have it have their share. So a rarely used
        adapter stays on one sampler, and the learner's is soon on all.
        """
        fair = -(-len(requests) // len(self._holds))
        parts: dict[int, SamplerShare] = {sampler: SamplerShare() for sampler in self.samplers}
        for index, request in enumerate(requests):
            free = [sampler for sampler in parts if len(parts[sampler].indices) < fair]
            holding = [s for s in free if request.adapter is None or request.adapter in self._holds[s]]
            before = self._seats.get(request.key)
            if before in holding:
                chosen = before
            else:
                chosen = min(holding or free, key=lambda sampler: len(parts[sampler].indices))
            assert chosen is not None
            if request.adapter is not None and request.adapter not in self._holds[chosen]:
                self._holds[chosen].add(request.adapter)
                parts[chosen].load.append(request.adapter)
            if request.key:
                self._seats[request.key] = chosen
            parts[chosen].indices.append(index)
        return {sampler: part for sampler, part in parts.items() if part.indices}
