"""`--to torchscript`: a file that `torch.jit.load` runs, in Python or C++, without Ludus."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import torch

from ludus.evaluation.agreement import Run, write_checked
from ludus.evaluation.export import Exported
from ludus.evaluation.graph import capture, export_errors, origin, policy_graph, silenced
from ludus.evaluation.load import LoadedPolicy
from ludus.types import Array

_jit: Any = torch.jit  # torch.jit has no types
FILENAME = "policy.pt"
METADATA = "ludus.json"
"""The file in the archive with the origin of the policy."""


def export(policy: LoadedPolicy, path: Path) -> Exported:
    """Write the policy, load it back and compare. Raises UserError if it has no graph or the file differs."""
    graph, notes = policy_graph(policy)
    example = graph.example()
    with export_errors(graph), silenced(), torch.no_grad():
        capture(
            graph, example
        )  # raises where a trace would silently be wrong: for example one branch of an `if`
        traced = _jit.freeze(_jit.trace(graph, example, strict=False, check_trace=False))

    def write(to: Path) -> None:
        file = io.BytesIO()  # with a path, torch would store its name in the archive
        with silenced():
            _jit.save(traced, file, _extra_files={METADATA: json.dumps(origin(policy))})
        to.write_bytes(file.getvalue())

    agreement = write_checked(path, write, _load, graph, policy)
    inputs, outputs = graph.describe()
    notes = [
        f"checked with torch {torch.__version__}: {agreement}",
        f"in:  {inputs}",
        f"out: {outputs}",
        *notes,
    ]
    return Exported((path,), tuple(notes), agreement.differences)


def _load(path: Path) -> Run:
    with silenced():
        module = _jit.load(str(path))

    def run(inputs: tuple[Any, ...]) -> dict[str, Array]:
        with torch.no_grad():
            return {name: tensor.numpy() for name, tensor in module(*inputs).items()}

    return run
