"""`--to onnx`: one file for ONNX runtimes, on any device and from any language."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ludus.errors import MissingExtra
from ludus.evaluation.agreement import Run, write_checked
from ludus.evaluation.export import Exported
from ludus.evaluation.graph import (
    PolicyGraph,
    capture,
    export_errors,
    origin,
    policy_graph,
    silenced,
)
from ludus.evaluation.load import LoadedPolicy
from ludus.types import Array

FILENAME = "policy.onnx"
OPSET = 18


def export(policy: LoadedPolicy, path: Path) -> Exported:
    """Write the policy, load it back and compare. Raises UserError if it has no graph or the file differs.

    Raises MissingExtra without onnx and onnxscript. Without onnxruntime, onnx's own evaluator compares.
    """
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        raise MissingExtra("export to ONNX", "export")
    graph, notes = policy_graph(policy)
    model = _model(graph)
    _remove_source_locations(model)
    _name_batch_axis(model)
    for key, value in origin(policy).items():
        model.metadata_props.add(key=key, value=value)
    runtime = "onnxruntime" if find_spec("onnxruntime") is not None else "onnx"
    agreement = write_checked(
        path, lambda to: to.write_bytes(model.SerializeToString()), _loader(graph, runtime), graph, policy
    )
    inputs, outputs = graph.describe()
    notes = [
        f"checked with {runtime} {version(runtime)}: {agreement}",
        f"in:  {inputs}",
        f"out: {outputs}",
        *notes,
    ]
    return Exported((path,), tuple(notes), agreement.differences)


def _model(graph: PolicyGraph) -> Any:
    example = graph.example()
    with export_errors(graph), silenced(), torch.no_grad():
        outputs = list(graph(*example))
        program = torch.onnx.export(
            capture(graph, example),
            dynamo=True,
            opset_version=OPSET,
            input_names=graph.input_names,
            output_names=outputs,
            external_data=False,
            verbose=False,
        )
        assert program is not None  # always the case with dynamo=True
        return program.model_proto


def _remove_source_locations(model: Any) -> None:
    """Remove the source locations that torch adds to every node, which contain paths of this machine."""
    graph = model.graph
    for part in (
        model,
        graph,
        *graph.node,
        *graph.initializer,
        *graph.value_info,
        *graph.input,
        *graph.output,
    ):
        del part.metadata_props[:]
        part.ClearField("doc_string")


def _name_batch_axis(model: Any) -> None:
    """Name the first axis of inputs and outputs `batch` everywhere: torch only numbers it."""
    graph = model.graph
    dims = [value.type.tensor_type.shape.dim for value in (*graph.input, *graph.output, *graph.value_info)]
    symbols = {shape[0].dim_param for shape in dims[: len(graph.input)] if shape and shape[0].dim_param}
    for dim in (dim for shape in dims for dim in shape):
        if dim.dim_param in symbols:
            dim.dim_param = "batch"


def _loader(graph: PolicyGraph, runtime: str) -> Any:
    def named(inputs: tuple[Any, ...]) -> dict[str, Array]:
        obs = list(inputs[0].values()) if isinstance(inputs[0], dict) else [inputs[0]]
        tensors = zip(graph.input_names, [*obs, *inputs[1:]], strict=True)
        return {name: tensor.numpy() for name, tensor in tensors}

    def load(path: Path) -> Run:
        if runtime == "onnxruntime":
            import onnxruntime

            session: Any = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            names = [output.name for output in session.get_outputs()]
        else:
            from onnx.reference import ReferenceEvaluator

            session = ReferenceEvaluator(str(path))
            names = session.output_names
        return lambda inputs: dict(zip(names, session.run(None, named(inputs)), strict=True))

    return load
