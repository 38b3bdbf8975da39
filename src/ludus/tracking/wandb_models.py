"""Download of models from Weights & Biases. Files are only downloaded, never opened.

`wandb:entity/project/artifact` (newest version, or `artifact:v3`), or the files of a run as its page shows them:
`wandb:entity/project/runs/ID/model.zip`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ludus.config.own_modules import DOWNLOADED
from ludus.errors import MissingExtra, UserError

SCHEME = "wandb:"
_NAME = r"[\w.-]+"
_ARTIFACT = re.compile(rf"({_NAME})/({_NAME})/({_NAME}(?::{_NAME})?)")
_RUN_FILE = re.compile(rf"({_NAME})/({_NAME})/runs/({_NAME})(?:/(.+))?")
_FORMS = "wandb:ENTITY/PROJECT/ARTIFACT[:VERSION], or wandb:ENTITY/PROJECT/runs/ID/FILE"


@dataclass(frozen=True)
class Reference:
    """An artifact, or one `file` of a run."""

    project: str
    name: str
    file: str | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse one of the forms above. Raises a UserError that lists them."""
        path = text.removeprefix(SCHEME)
        of_run, artifact = _RUN_FILE.fullmatch(path), _ARTIFACT.fullmatch(path)
        if of_run is not None:
            return cls(f"{of_run[1]}/{of_run[2]}", of_run[3], of_run[4] or "model.zip")
        if artifact is None or not text.startswith(SCHEME):
            raise UserError(f"'{text}' does not name a model", where="command line", fix=_FORMS)
        name = artifact[3] if ":" in artifact[3] else f"{artifact[3]}:latest"
        return cls(f"{artifact[1]}/{artifact[2]}", name)

    @property
    def folder(self) -> str:
        """Name of the download folder."""
        return self.name.replace(":", "-")


def download(reference: Reference, folder: Path) -> list[Path]:
    """Fetch the model into `folder`; returns its files. MissingExtra without wandb, UserError when it fails."""
    try:
        import wandb
    except ImportError as error:
        raise MissingExtra("fetching models from Weights & Biases", "wandb") from error
    if folder.exists() and any(path.name != DOWNLOADED for path in folder.iterdir()):
        raise UserError(
            f"'{folder}' is not empty", where=str(folder.absolute()), fix="choose another with --to"
        )
    try:
        api: Any = wandb.Api()
        if reference.file is None:
            artifact = api.artifact(f"{reference.project}/{reference.name}")
            for name in artifact.manifest.entries:
                _check_inside(name)
            mark_as_download(folder)
            artifact.download(root=str(folder))
        else:
            _check_inside(reference.file)
            run = api.run(f"{reference.project}/{reference.name}")
            mark_as_download(folder)
            run.file(reference.file).download(root=str(folder), replace=False)
    except UserError:
        raise
    except Exception as error:  # the W&B client raises many kinds of errors
        raise UserError(
            f"download from Weights & Biases failed: {type(error).__name__}: {' '.join(str(error).split()):.200}",
            where=f"{SCHEME}{reference.project}/{reference.name}",
            fix="check the name and the network; `wandb login` once for private projects",
        ) from error
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DOWNLOADED)


def mark_as_download(folder: Path) -> None:
    """Mark an empty folder as a download, whose files are never trusted as the user's own code."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DOWNLOADED).touch()


def _check_inside(name: str) -> None:
    """Raise UserError for a file name that leads outside the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise UserError(
            f"the model holds a file with an unsafe name: {name!r}", fix="do not trust this model"
        )
