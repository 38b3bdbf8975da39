"""The dashboard reads only plain files of runs: not through `..`, not through links, and no secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from dashboard_site import Site, serving, write_run

import ludus.reports.web
from ludus.reports.redaction import hide_in, hide_in_text
from ludus.reports.web.security import RunsFolder

SECRET = b"TOP-SECRET-CONTENT"

STEPS_OUT = [
    "..",
    "../..",
    "..%2f",
    "%2e%2e/",
    "%2e%2e%2f%2e%2e%2f",
    "..%5c..%5c",
    "..\\..\\",
    "%252e%252e%252f",
    "....//....//",
    "..;/",
    "%c0%ae%c0%ae/",
    "..%00/",
    "./../",
    "/",
    "//",
    "%2f",
    "file://",
    "~",
]
PARTS = [
    "",
    "/config",
    "/checkpoints",
    "/videos",
    "/videos/secret.mp4",
    "/logs",
    "/logs/secret.log",
    "/logs/hop.log",
]
PARTS += ["/games", "/games/secret.log", "/games/secret/secret.log", "/league", "/report"]
TARGETS = ["secret.log", "secret.mp4", "secret.txt", "secret/secret.log", "etc/passwd", "run.json"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with secrets next to the runs folder."""
    folder = tmp_path_factory.mktemp("place")
    for name in ("secret.log", "secret.mp4", "secret.txt"):
        (folder / name).write_bytes(SECRET)
    (folder / "secret").mkdir()
    (folder / "secret" / "secret.log").write_bytes(SECRET)
    (folder / "secret" / "report.html").write_bytes(SECRET)
    run = write_run(folder / "runs", "one", [1.0])
    for name in ("logs", "videos", "games"):
        (run / name).mkdir()
    (run / "logs" / "train.log").write_text("fine")
    (run / "videos" / "clip.mp4").write_text("fine")
    return folder


@pytest.fixture(scope="module")
def site(place: Path) -> Iterator[Site]:
    with serving(place / "runs") as found:
        yield found


def fetch(site: Site, path: str) -> tuple[int, bytes]:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    status, _, body = site.ask(head.encode())
    return status, body


@pytest.mark.parametrize("step", STEPS_OUT)
def test_no_way_of_writing_dots_leads_out(site: Site, step: str) -> None:
    run = site.id_of("one")
    for part in (
        f"/api/runs/{run}/logs/",
        f"/api/runs/{run}/videos/",
        f"/api/runs/{run}/games/",
        "/static/",
        "/api/runs/",
        "/",
    ):
        for depth in (1, 2, 4, 6):
            for target in TARGETS:
                joined = step if step.endswith(("/", "\\", "2f", "5c")) else step + "/"
                status, body = fetch(site, part + joined * depth + target)
                assert SECRET not in body and b"root:" not in body
                # what the server itself resolves to a page is the empty frame of the dashboard
                assert (
                    status in (400, 403, 404, 405)
                    or b"<!doctype html>" in body
                    or body.startswith(b'{"version"')
                )


def test_the_files_that_are_served_are_served(site: Site) -> None:
    run = site.id_of("one")
    assert fetch(site, f"/api/runs/{run}/logs/train.log") == (200, b'{"text":"fine"}')
    assert fetch(site, f"/api/runs/{run}/videos/clip.mp4") == (200, b"fine")


def test_links_out_of_the_folder_are_not_followed(place: Path) -> None:
    root = place / "linked-runs"
    run = write_run(root, "one", [1.0])
    (run / "logs").mkdir()
    (run / "logs" / "secret.log").symlink_to(place / "secret.log")
    (run / "logs" / "hop.log").symlink_to(run / "hop")
    (run / "hop").symlink_to(place / "secret.log")
    (run / "videos").symlink_to(place)
    (run / "games").symlink_to(place / "secret")
    (run / "report.html").symlink_to(place / "secret" / "report.html")
    (run / "config.yaml").unlink()
    (run / "config.yaml").symlink_to(place / "secret.txt")
    (run / "checkpoints").symlink_to(place / "secret")
    other = write_run(root, "two")
    (other / "logs").symlink_to(place)
    with serving(root) as site:
        for name in ("one", "two"):
            address = f"/api/runs/{site.id_of(name)}"
            for part in PARTS:
                status, body = fetch(site, address + part)
                assert SECRET not in body, part
                assert status in (200, 404)
            assert fetch(site, address + "/videos")[1] == b"[]"
            assert fetch(site, address + "/checkpoints")[1] == b"[]"


@pytest.mark.parametrize(
    "parts",
    [
        ("..", "secret.txt"),
        ("",),
        (".",),
        ("a/../../secret.txt",),
        ("\0",),
        ("sub", "..", "..", "secret.txt"),
    ],
)
def test_the_folder_opens_only_what_lies_in_it(place: Path, parts: tuple[str, ...]) -> None:
    with pytest.raises(OSError):
        RunsFolder(place / "runs").open(*parts)


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "missing"):
        with pytest.raises(OSError):
            RunsFolder(tmp_path).open(name)
    (tmp_path / "large").write_bytes(b"x" * 100)
    with pytest.raises(OSError, match="more than 99"):
        RunsFolder(tmp_path).read("large", limit=99)


def test_alias_bomb_in_a_config_is_not_expanded(place: Path) -> None:
    root = place / "bombs"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for one, two in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(
            f"{two}: &{two} [*{one}, *{one}, *{one}, *{one}, *{one}, *{one}, *{one}, *{one}, *{one}]"
        )
    (write_run(root, "aliases") / "config.yaml").write_text("\n".join(lines))
    (write_run(root, "loop") / "config.yaml").write_text("a: &a [*a, {b: *a}]")
    (write_run(root, "deep") / "config.yaml").write_text("[" * 50_000)
    (write_run(root, "tag") / "config.yaml").write_text("a: !!python/object/apply:os.system ['touch pwned']")
    with serving(root) as site:
        for name in ("aliases", "loop", "deep", "tag"):
            status, body = fetch(site, f"/api/runs/{site.id_of(name)}/config")
            assert status == 200 and len(body) < 1_000_000


def test_no_script_of_ours_makes_markup_from_text_or_asks_another_host() -> None:
    folder = Path(ludus.reports.web.__file__).parent / "static"
    files = [path for path in folder.iterdir() if path.suffix in (".js", ".html", ".css")]
    assert len(files) > 8
    for path in files:
        text = path.read_text()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
        ), path.name
        assert not re.search(r"""["'(]\s*(?:https?:)?//(?!www\.w3\.org/2000/svg)""", text), path.name
        if path.suffix == ".html":
            assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", text), path.name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2", "password=•••"),
        ("WANDB_API_KEY: 0123456789abcdef", "WANDB_API_KEY: •••"),
        ('{"secret": "x y z"}', '{"secret": •••}'),
        ("Authorization: Bearer abc.def", "Authorization: •••"),
        ("https://user:pass@host/x", "https://•••@host/x"),
        ("ghp_0123456789012345678901234567890123", "•••"),
        ("--hub-token abcdefgh run", "--hub-token ••• run"),
        (
            "max_tokens=64, token: 12, tokens/s: 9.5, keyword: x",
            "max_tokens=64, token: 12, tokens/s: 9.5, keyword: x",
        ),
        ("episode 5 reward 1.5", "episode 5 reward 1.5"),
    ],
)
def test_secrets_are_left_out_and_the_rest_is_not(text: str, shown: str) -> None:
    assert hide_in_text(text) == shown


def test_secrets_are_found_by_their_key_however_deep() -> None:
    data = {"a": [{"api_key": "k" * 8, "fine": "v"}], "token": 12345, "tokens": 5, "auth": True, "steps": 10}
    assert hide_in(data) == {
        "a": [{"api_key": "•••", "fine": "v"}],
        "token": "•••",
        "tokens": 5,
        "auth": True,
        "steps": 10,
    }


def test_a_long_line_is_searched_for_secrets_in_no_time() -> None:
    for text in ("a" * 200_000, "a://" * 50_000, "token" * 40_000, "--" * 100_000, "x:" * 100_000):
        hide_in_text(text)
