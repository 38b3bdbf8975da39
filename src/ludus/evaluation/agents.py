"""Agents that come with Ludus: trained runs in `agents/`, named after their folder. They are never written to."""

from __future__ import annotations

from pathlib import Path

from ludus.plugins import folders
from ludus.runs.directory import RunDirectory

_PACKAGE = Path(__file__).resolve().parents[1]
# Inside an installed package; next to `src/` in a clone.
_FOLDERS = (_PACKAGE / "agents", _PACKAGE.parents[1] / "agents")


def agent_folders() -> list[Path]:
    """Return the folders of agents: those of Ludus, then those of plugins."""
    return [*_FOLDERS, *folders("agents")]


def agent_names() -> list[str]:
    return sorted({path.parent.name for folder in agent_folders() for path in folder.glob("*/run.json")})


def find_agent(name: str) -> RunDirectory | None:
    """Return the run of the agent of this name, if there is one."""
    if name not in agent_names():  # only names of folders: a path is not accepted
        return None
    return next(
        RunDirectory(folder / name) for folder in agent_folders() if (folder / name / "run.json").is_file()
    )


def is_agent(run: RunDirectory) -> bool:
    return run.path.parent.resolve() in agent_folders()
