"""Agents that come with Ludus: trained runs in `agents/`, by the name of their folder. They are read, never written."""

from __future__ import annotations

from pathlib import Path

from ludus.plugins import folders
from ludus.runs.directory import RunDirectory

_PACKAGE = Path(__file__).resolve().parents[1]
# Inside an installed package; beside `src/` in a clone.
_FOLDERS = (_PACKAGE / "agents", _PACKAGE.parents[1] / "agents")


def agent_folders() -> list[Path]:
    """Return where agents are searched: those of Ludus, then those of plugins."""
    return [*_FOLDERS, *folders("agents")]


def agent_names() -> list[str]:
    return sorted({path.parent.name for folder in agent_folders() for path in folder.glob("*/run.json")})


def find_agent(name: str) -> RunDirectory | None:
    """Return the run of the agent of this name, if there is one."""
    if name not in agent_names():  # which are names of folders: no path gets past this
        return None
    return next(
        RunDirectory(folder / name) for folder in agent_folders() if (folder / name / "run.json").is_file()
    )


def is_agent(run: RunDirectory) -> bool:
    return run.path.parent.resolve() in agent_folders()
