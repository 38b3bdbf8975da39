"""Speed benchmark: the same work on Ludus and other libraries, alternating, each in its own process.

Compilation, imports and the first updates are not counted; the seconds of compilation are listed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ludus.experiments.libraries import Library
from ludus.experiments.workloads import Workload


@dataclass(frozen=True)
class Measurement:
    """One library on one workload: steps per second of each repeat; other values from the first repeat."""

    workload: str
    library: str
    version: str
    threads: int
    fps: tuple[float, ...]
    compile_seconds: float
    vector: str | None = None
    memory_mib: float | None = None
    memory_before_mib: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.fps)

    def summary(self) -> dict[str, Any]:
        return {**asdict(self), "median": round(self.median, 1)}


def measure(
    workload: Workload,
    libraries: Sequence[Library],
    repeats: int,
    report: Callable[[str], None] = lambda text: None,
) -> list[Measurement]:
    """Run the workload `repeats` times on each library that has its algorithm, alternating."""
    answers: dict[str, list[dict[str, Any]]] = {}
    for repeat in range(repeats):
        for library in libraries:
            if not library.has(workload):
                continue
            answer = library.run("speed", workload)
            answers.setdefault(library.name, []).append(answer)
            report(
                f"{workload.name} {repeat + 1}/{repeats}  {library.name:6} {answer['fps']:>10,.0f} steps/s"
                f"  (compiled in {answer['compile_seconds']:.1f} s)"
            )
    return [
        Measurement(
            workload=workload.name,
            library=library,
            version=results[0]["version"],
            threads=results[0]["threads"],
            fps=tuple(result["fps"] for result in results),
            compile_seconds=results[0]["compile_seconds"],
            vector=results[0].get("vector"),
            memory_mib=results[0].get("memory_mib"),
            memory_before_mib=results[0].get("memory_before_mib"),
        )
        for library, results in answers.items()
    ]
