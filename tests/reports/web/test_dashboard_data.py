"""Data that the real server sends to the pages over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from dashboard_site import Site, append_rows, serving, write_run

from ludus.config.language import LeagueConfig
from ludus.league.league import League
from ludus.league.records import MatchRecord
from ludus.runs.mirror.state import MirrorState


def test_api_returns_the_table_and_a_run(root: Path, site: Site) -> None:
    write_run(root, "one", [1.0, 2.0], command="ludus train x api_key=abc123def")
    page = site.get("/api/runs/" + site.id_of("one"))
    runs = site.get("/api/runs")
    assert [run["name"] for run in runs["runs"]] == ["one"] and runs["root"] == str(root.resolve())
    assert page["summary"]["reward"] == 2.0 and page["last"]["episodes"] == 6
    assert page["metrics"] == [
        "episodes",
        "rollout/ep_rew_mean",
        "step",
        "time/fps",
        "time/seconds",
        "updates",
    ]
    assert page["has"] == {"videos": 0, "games": 0, "league": False}
    assert page["info"]["command"] == "ludus train x api_key=•••"


def test_damaged_rows_and_the_mirror_are_reported(root: Path, site: Site, tmp_path: Path) -> None:
    path = write_run(root, "one", [1.0, 2.0])
    with (path / "metrics.jsonl").open("a") as file:
        file.write("torn\n")
    MirrorState("s3://bucket/one", missing=2, trouble="it is full").save(path)
    other = write_run(root, "other")
    MirrorState("file:///elsewhere").save(tmp_path)
    (other / ".mirror").symlink_to(tmp_path / ".mirror")
    odd = write_run(root, "odd")
    (odd / ".mirror").mkdir()
    (odd / ".mirror" / "state.json").write_text('{"at": ["x"], "loose": {}, "seen": {}}')
    address = f"/api/runs/{site.id_of('one')}"
    summary = site.get(address)["summary"]
    assert summary["damaged"] == 1 and summary["mirror"] == {
        "url": "s3://bucket/one",
        "mirrored": None,
        "missing": 2,
        "trouble": "it is full",
        "behind": True,
    }
    MirrorState("s3://bucket/one", mirrored="2026-11-01T10:00:00+00:00").save(path)
    assert site.get(address)["summary"]["mirror"]["behind"] is False
    for name in ("other", "odd"):
        assert site.get(f"/api/runs/{site.id_of(name)}")["summary"]["mirror"] is None


def test_series_of_several_runs_over_any_clock_and_any_part_of_it(root: Path, site: Site) -> None:
    write_run(root, "one", [1.0, 2.0, 3.0, 4.0])
    write_run(root, "two", [5.0, 6.0])
    chosen = f"runs={site.id_of('one')}&runs={site.id_of('two')}&runs=nobody"
    chosen += "&metrics=rollout/ep_rew_mean&metrics=nothing"
    found = {one["run"]: one for one in site.get(f"/api/series?{chosen}")["series"]}
    assert found[site.id_of("one")]["x"] == [100, 200, 300, 400]
    assert found[site.id_of("two")]["y"] == [5, 6]
    [one, two] = site.get(f"/api/series?{chosen}&x=time/seconds&from=2.5&to=3.5")["series"]
    assert one["x"] == [2, 3, 4] and two["x"] == [1, 2]
    with pytest.raises(urllib.error.HTTPError, match="409"):
        site.get(f"/api/series?{chosen}&x=reward")


def test_changes_come_as_events(root: Path, site: Site) -> None:
    path = write_run(root, "one", [1.0, 2.0], status="running")
    run = site.id_of("one")
    summary = site.get("/api/runs/" + run)
    address = f"/api/events?since={summary['version']}&watch={run}:{summary['summary']['rows']}:0"
    with urllib.request.urlopen(site.url + address, timeout=20) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        append_rows(path, [7.0], first=3)
        name, data = next_event(stream)
        assert (name, data["rows"], data["columns"]["rollout/ep_rew_mean"]) == ("rows", 3, [7.0])
        assert next_event(stream)[1]["runs"][0]["reward"] == 7.0
        metrics = (path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        (path / "metrics.jsonl").write_bytes(metrics[0])  # as a resume does
        while name != "reset":
            name, data = next_event(stream)
        assert data == {"run": run, "rows": 1, "epoch": 1}


def next_event(stream: Any) -> tuple[str, Any]:
    name = ""
    while True:
        line = stream.readline().decode().strip()
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            return name, json.loads(line.removeprefix("data: "))


def test_the_config_is_shown_as_written_without_its_secrets(root: Path, site: Site) -> None:
    path = write_run(root, "one")
    (path / "config.yaml").write_text(
        "hyperparams: {learning_rate: 3e-4, arch: [64, 64]}\n"
        "env: {id: X, kwargs: {api_key: hunter2hunter2, max_tokens: 64}}\n"
        "mirror: s3://me:geheim@bucket/x\nlist:\n- {a: 1}\n- 2\nnone: null\nempty: {}\nlanguage: {pad_token: <pad>}\n"
    )
    found = dict(site.get(f"/api/runs/{site.id_of('one')}/config"))
    assert found == {
        "hyperparams.learning_rate": "3e-4",
        "hyperparams.arch": "[64, 64]",
        "env.id": "X",
        "env.kwargs.api_key": "•••",
        "env.kwargs.max_tokens": "64",
        "mirror": "s3://•••@bucket/x",
        "list.0.a": "1",
        "list.1": "2",
        "none": "null",
        "empty": "{}",
        "language.pad_token": "<pad>",
    }


def test_logs_are_the_end_of_the_file_without_colours_and_secrets(root: Path, site: Site) -> None:
    path = write_run(root, "one")
    (path / "logs").mkdir()
    (path / "logs" / "train.log").write_text(
        "x" * 200_000
        + "\n\x1b[31mred\x1b[0m\n10 %\r20 %\nHF_TOKEN=hf_abcdefghijklmnopqrst key sk-abcdefghijklmnop1234\ntoken: 17\n"
    )
    (path / "logs" / "notes.md").write_text("not a log")
    address = f"/api/runs/{site.id_of('one')}/logs"
    assert site.get(address) == ["train.log"]
    assert site.get(address + "/train.log")["text"] == "red\n20 %\nHF_TOKEN=••• key •••\ntoken: 17\n"


def test_videos_are_served_in_parts(root: Path, site: Site) -> None:
    path = write_run(root, "one")
    (path / "videos").mkdir()
    (path / "videos" / "000000000100.mp4").write_bytes(bytes(range(256)) * 4)
    address = f"/api/runs/{site.id_of('one')}/videos"
    [video] = site.get(address)
    assert (video["name"], video["size"], video["step"]) == ("000000000100.mp4", 1024, 100)

    def part(asked: str) -> tuple[int, dict[str, str], bytes]:
        head = f"GET {address}/000000000100.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        return site.ask(f"{head}Range: {asked}\r\n\r\n".encode())

    status, headers, body = part("bytes=10-19")
    assert (status, headers["content-range"], body) == (206, "bytes 10-19/1024", bytes(range(10, 20)))
    assert headers["content-type"] == "video/mp4"
    assert part("bytes=1020-")[2] == part("bytes=-4")[2] == bytes(range(252, 256))
    assert part("bytes=2000-")[0] == 416 and part("bytes=5-2")[0] == 416
    status, headers, body = part("lines=1-2")
    assert (status, len(body), headers["accept-ranges"]) == (200, 1024, "bytes")


def test_checkpoints_newest_first(root: Path, site: Site) -> None:
    path = write_run(root, "one")
    for step in (100, 200):
        folder = path / "checkpoints" / f"{step:012d}"
        folder.mkdir(parents=True)
        manifest = {
            "format": 1,
            "step": step,
            "created": "2026-11-01T10:00:00+00:00",
            "exact": True,
            "resumable": True,
        }
        (folder / "MANIFEST.json").write_text(
            json.dumps(manifest | {"files": {"a.bin": {"size": 5, "sha256": ""}}})
        )
    (path / "checkpoints" / "best.json").write_text(
        '{"checkpoint": "000000000100", "metric": "m", "value": 1}'
    )
    found = site.get(f"/api/runs/{site.id_of('one')}/checkpoints")
    assert [(one["step"], one["best"], one["size"], one["path"]) for one in found] == [
        (200, False, 5, "checkpoints/000000000200"),
        (100, True, 5, "checkpoints/000000000100"),
    ]


def test_league_and_games_of_a_self_play_run(root: Path, site: Site) -> None:
    path = write_run(root, "one")
    (path / "config.yaml").write_text("language:\n  model: tiny\n")
    league = League(LeagueConfig())
    league.add("learner", "learner")
    league.add("random", "bot")
    match = MatchRecord(
        1,
        "TicTacToe-v0",
        7,
        ("learner", "random"),
        (1.0, -1.0),
        "three in a row",
        (False, False),
        False,
        2,
        [(0, "[4]"), (1, "[0]")],
    )
    league.record(match)
    (path / "checkpoints" / "000000000100").mkdir(parents=True)
    (path / "checkpoints" / "000000000100" / "state.json").write_text(
        json.dumps({"league": league.state_dict()})
    )
    (path / "games" / "train").mkdir(parents=True)
    turn = {"index": 0, "seat": 0, "text": "I play [4]", "observation": "board", "prompt": [1, 2, 3]}
    row = {
        "match": 1,
        "game": "TicTacToe-v0",
        "players": ["learner", "random"],
        "rewards": [1.0, -1.0],
        "reason": "three in a row",
    }
    row |= {"length": 2, "moves": [[0, "[4]"], [1, "[0]"]], "turns": [turn]}
    (path / "games" / "train" / "00000003.jsonl").write_text(json.dumps(row) + "\ntorn {")
    address = f"/api/runs/{site.id_of('one')}"
    assert site.get(address)["has"] | {"league": True, "games": 1} == site.get(address)["has"]
    table = site.get(address + "/league")["table"]
    assert [(one["name"], one["wins"], one["losses"]) for one in table] == [
        ("learner", 1, 0),
        ("random", 0, 1),
    ]
    [file] = site.get(address + "/games")
    assert file["file"] == "train/00000003.jsonl"
    [game] = site.get(address + "/games/train/00000003.jsonl")
    assert game["moves"] == [[0, "[4]"], [1, "[0]"]] and game["turns"][0]["text"] == "I play [4]"
    assert "prompt" not in game["turns"][0]


def test_run_without_self_play_has_no_league_or_games(root: Path, site: Site) -> None:
    write_run(root, "one")
    address = f"/api/runs/{site.id_of('one')}"
    assert site.get(address + "/league") is None
    for part in ("/games", "/videos", "/logs", "/checkpoints"):
        assert site.get(address + part) == []
    for part in ("/games/train/1.jsonl", "/videos/x.mp4", "/logs/x.log", "/nothing"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            site.get(address + part)


def test_a_folder_that_is_not_there_yet_is_an_empty_one(tmp_path: Path) -> None:
    with serving(tmp_path / "later") as site:
        assert site.get("/api/runs")["runs"] == []
        write_run(tmp_path / "later", "one")
        assert len(site.get("/api/runs")["runs"]) in (0, 1)
