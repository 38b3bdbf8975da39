"""The options that several commands share, so that they mean and say the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="End with one JSON object on stdout, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Every metric row, and what goes on inside.")]
Root = Annotated[str, typer.Option("--root", "-C", metavar="DIR", help="Where the runs are.")]
EnvId = Annotated[
    str | None, typer.Option("--env", metavar="ID", help="A Gymnasium id, or module:Id to import it first.")
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="The first episode's seed; the next ones follow.")
]
Stochastic = Annotated[
    bool, typer.Option("--stochastic", help="Sample actions as in training, instead of the likeliest.")
]
Bandwidth = Annotated[
    str | None, typer.Option("--bandwidth", metavar="RATE", help='At most so fast, as in "5 MB/s".')
]
