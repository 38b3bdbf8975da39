"""The recorded steps as a columnar file: Parquet through pyarrow, or CSV without it."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ludus.errors import MissingExtra
from ludus.evaluation.analysis.recording import Recording

Format = Literal["csv", "parquet"]


def usual_format() -> Format:
    """Return "parquet" if pyarrow is installed, else "csv"."""
    return "csv" if importlib.util.find_spec("pyarrow") is None else "parquet"


def require_format(kind: Format) -> None:
    """Raise MissingExtra unless files of this kind can be written."""
    if kind == "parquet" and usual_format() != "parquet":
        raise MissingExtra("writing Parquet", "parquet")


def write_steps(recording: Recording, path: Path, kind: Format, about: Mapping[str, Any]) -> Path:
    """Write the columns to `path` atomically; Parquet has `about` as its metadata."""
    require_format(kind)
    partial = path.with_name(f".{path.name}.partial")
    try:
        (_write_csv if kind == "csv" else _write_parquet)(recording, partial, about)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _write_csv(recording: Recording, path: Path, about: Mapping[str, Any]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(recording.columns)
        cells = [
            ["" if value != value else value for value in column.tolist()]  # NaN becomes an empty cell
            for column in recording.columns.values()
        ]
        writer.writerows(zip(*cells, strict=True))


def _write_parquet(recording: Recording, path: Path, about: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: pa.array(column) for name, column in recording.columns.items()})
    table = table.replace_schema_metadata({"ludus": json.dumps(about, default=str)})
    pq.write_table(table, str(path), compression="zstd")
