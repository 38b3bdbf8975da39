"""Models from Weights & Biases are named, downloaded and left unopened. These tests do not call the service."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ludus.errors import MissingExtra, UserError
from ludus.tracking.wandb_models import Reference, download


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wandb:me/sb3/walker", Reference("me/sb3", "walker:latest")),
        ("wandb:me/sb3/walker:v3", Reference("me/sb3", "walker:v3")),
        ("wandb:me/sb3/runs/1a2b3c", Reference("me/sb3", "1a2b3c", "model.zip")),
        ("wandb:me/sb3/runs/1a2b3c/files/last.zip", Reference("me/sb3", "1a2b3c", "files/last.zip")),
    ],
)
def test_an_artifact_or_a_file_of_a_run_is_named(text: str, expected: Reference) -> None:
    assert Reference.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["me/sb3/walker", "wandb:walker", "wandb:a/b/c/d", "wandb:", "wandb:a b/c/d"]
)
def test_invalid_reference_raises_with_the_valid_forms(text: str) -> None:
    with pytest.raises(UserError) as caught:
        Reference.parse(text)
    assert "ENTITY/PROJECT/ARTIFACT" in caught.value.fix


def test_without_wandb_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match="'wandb'"):
        download(Reference("me/sb3", "walker:latest"), tmp_path / "m")


class FakeApi:
    """As much of wandb.Api as `download` calls, with the names and parameters of the real one."""

    names: tuple[str, ...] = ("model.zip",)

    def artifact(self, name: str, type: str | None = None) -> Any:
        if name != "me/sb3/walker:latest":
            raise ValueError(f"artifact '{name}' not found")

        def fetch(root: str | None = None) -> str:
            Path(str(root)).mkdir(parents=True, exist_ok=True)
            for file in self.names:
                (Path(str(root)) / file).write_bytes(b"PK")
            return str(root)

        entries = dict.fromkeys(self.names)
        return SimpleNamespace(manifest=SimpleNamespace(entries=entries), download=fetch)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> type[FakeApi]:
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=FakeApi))
    monkeypatch.setattr(FakeApi, "names", ("model.zip",))
    return FakeApi


def test_an_artifact_lands_in_its_folder(service: type[FakeApi], tmp_path: Path) -> None:
    files = download(Reference.parse("wandb:me/sb3/walker"), tmp_path / "m")
    assert files == [tmp_path / "m" / "model.zip"]


def test_non_empty_folder_raises(service: type[FakeApi], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        download(Reference.parse("wandb:me/sb3/walker"), tmp_path)


def test_error_of_the_service_is_reported_in_one_message(service: type[FakeApi], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ValueError: artifact") as caught:
        download(Reference.parse("wandb:me/sb3/other"), tmp_path / "m")
    assert "wandb login" in caught.value.fix


@pytest.mark.parametrize("name", ["../model.zip", "/etc/x", "a/../../x", "..\\x"])
def test_file_name_that_leads_outside_the_folder_raises(
    service: type[FakeApi], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "names", (name,))
    with pytest.raises(UserError, match="unsafe name"):
        download(Reference.parse("wandb:me/sb3/walker"), tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_real_api_has_the_methods_that_are_called() -> None:
    wandb = pytest.importorskip("wandb")
    assert "root" in inspect.signature(wandb.Artifact.download).parameters
    assert list(inspect.signature(wandb.Api.artifact).parameters)[1] == "name"
    assert list(inspect.signature(wandb.Api.run).parameters)[1] == "path"
