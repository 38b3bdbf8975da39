"""The mirror of a run: always complete and verified; interrupted uploads resume; downloads are identical."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
from fake_drive import TOKEN, FakeDrive
from mirrored_runs import add_checkpoint, contents, make_run
from s3_server import SECRET, Door

from ludus.errors import MissingExtra, UserError
from ludus.runs.directory import RunDirectory
from ludus.runs.manifest import file_digest
from ludus.runs.mirror.background import mirror_now
from ludus.runs.mirror.inventory import Inventory
from ludus.runs.mirror.pull import pull_run
from ludus.runs.mirror.remote import Pace, Source, open_remote, require_packages
from ludus.runs.mirror.state import MirrorState
from ludus.runs.mirror.sync import Sync, folder_of, read_inventory

BELOW = "Cart-Pole/PPO/mine_20260102-030405"


@pytest.fixture(params=["file", "s3", "gdrive"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a mirror, of every kind."""
    if request.param == "file":
        return f"file://{tmp_path}/back up"
    request.getfixturevalue("s3" if request.param == "s3" else "drive")
    return {"s3": "s3://runs/some/prefix", "gdrive": "gdrive://My runs"}[request.param]


def inventory(run: RunDirectory, url: str) -> Inventory:
    found = read_inventory(open_remote(folder_of(run, url)))
    assert found is not None
    return found


def test_pulled_run_is_identical_to_the_mirrored_one(url: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    state, outcome = mirror_now(run, url)
    assert outcome.files == len(contents(run.path))
    assert (state.missing, state.trouble) == (0, None)
    before = inventory(run, url)
    assert "wandb/local" not in before.files
    assert mirror_now(run, url)[1].names == []
    add_checkpoint(run, 300, keep=2)
    names = mirror_now(run, url)[1].names
    assert sorted({name for name in names if "000000" not in name}) == [
        "checkpoints/latest.json",
        "metrics.jsonl",
    ]
    after = inventory(run, url)
    steps = {path.split("/")[1] for path in after.files if path.count("/") == 2}
    assert steps == {"000000000200", "000000000300"}
    gone = {stored.name for stored in before.files.values()} - {
        stored.name for stored in after.files.values()
    }
    remote = open_remote(folder_of(run, url))
    assert gone and all(remote.size(name) is None for name in gone)
    pulled = pull_run(url, tmp_path / "elsewhere")
    assert pulled.whole
    assert pulled.run.path == tmp_path / "elsewhere" / BELOW
    assert contents(pulled.run.path) == contents(run.path)


def test_deleted_files_stay_in_the_mirror_except_old_checkpoints(
    tmp_path: Path,
) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    mirror_now(run, url)
    whole = contents(run.path)
    shutil.rmtree(run.checkpoints_dir)
    (run.videos_dir / "000000000100.mp4").unlink()
    mirror_now(run, url)
    assert contents(pull_run(url, tmp_path / "elsewhere").run.path) == whole


def test_damaged_checkpoint_does_not_replace_the_mirrored_one(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    mirror_now(run, url)
    good = contents(run.path)
    (run.checkpoints_dir / "000000000200" / "policy.safetensors").write_bytes(b"rotten")
    state, outcome = mirror_now(run, url)
    assert not outcome.whole and state.missing == 1
    assert contents(pull_run(url, tmp_path / "elsewhere").run.path) == good


def cut_s3(door: Door, after: int) -> None:
    door.refuse, door.after, door.writes_only = "broken", after, True


def test_interrupted_upload_keeps_the_last_complete_state_and_resumes(s3: Door, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", steps=(100,))
    mirror_now(run, "s3://runs")
    first = contents(run.path)
    add_checkpoint(run, 300)
    cut_s3(s3, after=2)
    with pytest.raises(
        UserError, match="4 files are missing"
    ):  # half of the checkpoint, the metrics, latest.json
        mirror_now(run, "s3://runs", attempts=1)
    state = MirrorState.load(run.path)
    assert state is not None and state.missing == 4 and state.trouble
    s3.refuse = None
    assert contents(pull_run(f"s3://runs/{BELOW}", tmp_path / "old").run.path) == first
    s3.seen.clear()
    mirror_now(run, "s3://runs")
    sent = [path.rpartition("/")[2] for method, path in s3.seen if method == "PUT"]
    assert sorted(name for name in sent if "safetensors" in name) == []  # those had arrived
    assert contents(pull_run(f"s3://runs/{BELOW}", tmp_path / "new").run.path) == contents(run.path)


def test_interrupted_first_upload_is_not_a_run(s3: Door, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", steps=(200,))
    cut_s3(s3, after=3)
    with pytest.raises(UserError):
        mirror_now(run, "s3://runs", attempts=1)
    s3.refuse = None
    with pytest.raises(UserError, match="mirrored run not found"):
        pull_run(f"s3://runs/{BELOW}", tmp_path / "elsewhere")
    s3.seen.clear()
    mirror_now(run, "s3://runs")
    keys = [path for method, path in s3.seen if method == "PUT"]
    assert not [key for key in keys if "000000000200/" in key and key.endswith("learner.safetensors")]
    assert contents(pull_run(f"s3://runs/{BELOW}", tmp_path / "elsewhere").run.path) == contents(run.path)


def test_drive_resumes_an_upload_after_a_broken_connection(
    drive: FakeDrive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.runs.mirror.drive.BLOCK", 256 * 1024)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    run = make_run(tmp_path / "runs", size=100_000)  # 400 kB and 800 kB: two and four pieces
    drive.cut_off = 2
    state, _ = mirror_now(run, "gdrive://runs", attempts=1)
    assert state.trouble is None and drive.cut_off == 0
    assert contents(pull_run("gdrive://runs", tmp_path / "elsewhere").run.path) == contents(run.path)


def test_s3_errors_are_described(s3: Door, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", steps=(100,))
    meanings = {
        "expired": "credentials are missing, wrong or expired",
        "full": "no space left",
        "read-only": "permission denied",
    }
    for s3.refuse, words in meanings.items():
        s3.writes_only = True
        with pytest.raises(UserError, match=words):
            mirror_now(run, "s3://runs", attempts=1)
    s3.refuse = None
    mirror_now(run, "s3://runs")
    assert contents(pull_run(f"s3://runs/{BELOW}", tmp_path / "elsewhere").run.path) == contents(run.path)


def test_missing_bucket_is_not_created(s3: Door, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="bucket not found"):
        mirror_now(make_run(tmp_path / "runs"), "s3://not-there/runs", attempts=1)


@pytest.mark.parametrize(
    ("trouble", "words"), [("full", "no space left"), ("signed_out", "missing, wrong or expired")]
)
def test_drive_errors_are_described(trouble: str, words: str, drive: FakeDrive, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    setattr(drive, trouble, True)
    with pytest.raises(UserError, match=words):
        mirror_now(run, "gdrive://runs", attempts=1)
    setattr(drive, trouble, False)
    mirror_now(run, "gdrive://runs")
    assert contents(pull_run("gdrive://runs", tmp_path / "elsewhere").run.path) == contents(run.path)


def test_damaged_upload_is_sent_again(drive: FakeDrive, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    drive.corrupt = 1
    with pytest.raises(UserError, match="checksum mismatch after the upload"):
        mirror_now(run, "gdrive://runs", attempts=1)
    drive.corrupt = 1
    mirror_now(run, "gdrive://runs", attempts=2)
    assert len(drive.named("learner.safetensors")) == 2  # one of each checkpoint, none twice
    assert contents(pull_run("gdrive://runs", tmp_path / "elsewhere").run.path) == contents(run.path)


def test_duplicate_files_on_drive_are_replaced_by_one(drive: FakeDrive, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    mirror_now(run, "gdrive://runs")
    twice = drive.named("MIRROR.json")[0]
    drive.add({key: twice[key] for key in ("name", "parents")}, b"another machine's")
    run.report_path.write_text("<html>new")
    mirror_now(run, "gdrive://runs")
    pulled = pull_run("gdrive://runs", tmp_path / "elsewhere")
    assert len(drive.named("MIRROR.json")) == 1
    assert contents(pulled.run.path) == contents(run.path)


def test_drive_opens_no_browser_without_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = pytest.importorskip("pydata_google_auth.cache")
    monkeypatch.setattr(cache.READ_WRITE, "_path", str(tmp_path / "none.json"))
    with pytest.raises(UserError, match="not signed in"):
        mirror_now(make_run(tmp_path / "runs"), "gdrive://runs", attempts=1)


@pytest.mark.parametrize("url", ["file", "s3"], indirect=True)
def test_file_with_a_wrong_hash_raises_and_creates_no_run(url: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", steps=(100,))
    mirror_now(run, url)
    remote = open_remote(folder_of(run, url))
    path = "checkpoints/000000000100/policy.safetensors"
    data = bytearray((run.path / path).read_bytes())
    data[-1] ^= 1
    remote.write(path, Source(BytesIO(data), len(data), Pace()))
    with pytest.raises(UserError, match=r"checksum mismatch: .*policy\.safetensors"):
        pull_run(url, tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere" / BELOW).exists()


def test_interrupted_pull_downloads_only_the_rest(s3: Door, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", steps=(100,))
    mirror_now(run, "s3://runs")
    at = f"s3://runs/{BELOW}"
    s3.refuse, s3.after = "broken", 8
    brought: list[str] = []
    with pytest.raises(UserError, match="cannot read the run"):
        pull_run(at, tmp_path / "elsewhere", note=brought.append)
    s3.refuse = None
    again: list[str] = []
    pulled = pull_run(at, tmp_path / "elsewhere", note=again.append)
    assert len(brought) > 1
    assert sorted(brought[:-1] + again) == sorted(contents(run.path))
    assert contents(pulled.run.path) == contents(run.path)
    assert not list((tmp_path / "elsewhere").rglob(".pull*"))


def test_pull_resumes_inside_a_file(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs", size=1000)
    mirror_now(run, url)
    path = run.checkpoints_dir / "000000000100" / "learner.safetensors"
    staging = tmp_path / "elsewhere" / "Cart-Pole" / "PPO" / ".pull-mine_20260102-030405"
    part = staging / "checkpoints" / "000000000100" / f".part-{file_digest(path)[:16]}"
    part.parent.mkdir(parents=True)
    part.write_bytes(path.read_bytes()[:500])
    (staging / "left-over").write_text("of an older state")
    assert contents(pull_run(url, tmp_path / "elsewhere").run.path) == contents(run.path)


def test_run_that_changes_during_a_pull_is_pulled_in_its_newer_state(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    mirror_now(run, url)
    moved = False

    def move_on(path: str) -> None:
        nonlocal moved
        if not moved:
            moved = True
            add_checkpoint(run, 300, keep=1)
            mirror_now(run, url)

    pulled = pull_run(url, tmp_path / "elsewhere", note=move_on)
    assert contents(pulled.run.path) == contents(run.path)


HOSTILE = [
    "../../escape",
    "/etc/escape",
    "a/../../escape",
    ".mirror/state.json",
    "run.lock",
    "a\\..\\escape",
    "C:escape",
    "a//b",
    "",
    "MIRROR.json",
]


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("place", ["path", "name"])
def test_inventory_with_paths_outside_the_run_raises(path: str, place: str, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    mirror_now(run, url)
    folder = tmp_path / "mirror" / BELOW
    found = json.loads((folder / "MIRROR.json").read_text())
    entry = found["files"].pop("report.html")
    if place == "path":
        found["files"][path] = entry
    else:
        found["files"]["report.html"] = {**entry, "name": path}
    for name in ("MIRROR.json", "MIRROR.spare.json"):
        (folder / name).write_text(json.dumps(found))
    with pytest.raises(UserError, match="is invalid"):
        pull_run(f"{url}/{BELOW}", tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_mirror_without_a_config_raises(tmp_path: Path) -> None:
    run, url = make_run(tmp_path / "here"), f"file://{tmp_path}/mirror"
    run.config_path.unlink()
    mirror_now(run, url)
    with pytest.raises(UserError, match=r"no config\.yaml, so it is not a run"):
        pull_run(url, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_damaged_inventory_is_replaced_by_its_spare_and_by_the_next_pass(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    mirror_now(run, url)
    folder = tmp_path / "mirror" / BELOW
    (folder / "MIRROR.json").write_text('{"format": 1, "fi')
    pull_run(url, tmp_path / "one")
    (folder / "MIRROR.spare.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is invalid"):
        pull_run(f"{url}/{BELOW}", tmp_path / "two")
    mirror_now(run, url)
    assert contents(pull_run(url, tmp_path / "two").run.path) == contents(run.path)


def test_wiped_mirror_is_uploaded_again(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    mirror_now(run, url)
    shutil.rmtree(tmp_path / "mirror")
    mirror_now(run, url)
    assert contents(pull_run(url, tmp_path / "elsewhere").run.path) == contents(run.path)


def test_another_run_of_the_same_name_is_not_overwritten(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    mirror_now(make_run(tmp_path / "runs"), url)
    other = make_run(tmp_path / "others")
    other.update_info(created="2020-01-01T00:00:00+00:00")
    with pytest.raises(UserError, match="contains another run"):
        mirror_now(other, url)


def test_run_resumed_on_another_machine_is_not_overwritten(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    here = make_run(tmp_path / "runs")
    mirror_now(here, url)
    there = pull_run(url, tmp_path / "elsewhere").run
    add_checkpoint(there, 300)
    state, _ = mirror_now(there, url)
    assert state.at == f"{url}/{BELOW}"
    here.report_path.write_text("newer")
    with pytest.raises(UserError, match="resumed on another machine: the mirror has it at step 300"):
        mirror_now(here, url)
    assert contents(pull_run(url, tmp_path / "third").run.path) == contents(there.path)


def test_renamed_pulled_run_keeps_its_folder_in_the_mirror(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    mirror_now(make_run(tmp_path / "runs"), url)
    pulled = pull_run(f"{url}/{BELOW}", to=tmp_path / "under another name").run
    assert Sync(pulled, url, Pace()).state.at == f"{url}/{BELOW}"


def test_pull_does_not_overwrite_an_existing_destination(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    mirror_now(run, url)
    with pytest.raises(UserError, match="destination already exists"):
        pull_run(url, tmp_path / "runs")


def test_pulled_run_has_no_pid(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    run.update_info(pid=1)  # a pid that is alive on this machine, too
    mirror_now(run, url)
    assert pull_run(url, tmp_path / "elsewhere").run.info()["pid"] is None


def test_folder_with_several_runs_raises_with_their_addresses(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    mirror_now(run, url)
    other = RunDirectory(shutil.copytree(run.path, run.path.with_name("other")))
    shutil.rmtree(other.path / ".mirror")
    mirror_now(other, url)
    with pytest.raises(UserError, match="found 2 runs") as caught:
        pull_run(url, tmp_path / "elsewhere")
    assert f"{url}/Cart-Pole/PPO/other" in caught.value.fix


def test_memory_use_does_not_depend_on_file_size(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    with (run.videos_dir / "long.mp4").open("wb") as file:
        file.truncate(96 * 2**20)
    tracemalloc.start()
    try:
        mirror_now(run, url)
        pull_run(url, tmp_path / "elsewhere")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48 * 2**20


def in_time(call: Callable[[], object], pipe: Path) -> None:
    """Call it in a thread; fail if it blocks at `pipe`."""
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(call)
        try:
            waiting.result(10)
        except TimeoutError:
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # releases the thread
            pytest.fail("it waited at the pipe")


@pytest.mark.parametrize("name", ["MIRROR.json", "config.yaml"])
def test_pipe_instead_of_a_file_raises_and_does_not_block(tmp_path: Path, name: str) -> None:
    url = f"file://{tmp_path}/mirror"
    run = make_run(tmp_path / "runs")
    mirror_now(run, url)
    [place] = (tmp_path / "mirror").rglob(name)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(UserError, match="expected a plain file"):
        in_time(lambda: pull_run(url, tmp_path / "elsewhere"), place)
    remote = open_remote(place.parent.as_uri())
    with pytest.raises(UserError, match="expected a plain file"):
        in_time(lambda: remote.write(name, Source(BytesIO(b"x"), 1, Pace())), place)


def test_bandwidth_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = 100.0, 0.0

    def sleep(seconds: float) -> None:
        nonlocal now, slept
        now, slept = now + seconds, slept + seconds

    monkeypatch.setattr("ludus.runs.mirror.remote.time.monotonic", lambda: now)
    monkeypatch.setattr("ludus.runs.mirror.remote.time.sleep", sleep)
    pace = Pace(1_000_000.0)
    for _ in range(20):
        pace.take(100_000)
    assert slept == pytest.approx(2.0)


def test_credentials_are_in_no_file_or_message(
    s3: Door,
    drive: FakeDrive,
    service_account: tuple[Path, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = make_run(tmp_path / "runs", steps=(100,))
    secrets = [SECRET, TOKEN, *service_account[1].splitlines()[1:-1]]
    said = []
    with caplog.at_level(logging.DEBUG, logger="ludus"):
        for url in ("s3://runs", "gdrive://runs"):
            mirror_now(run, url)
            add_checkpoint(run, 300 if url[0] == "s" else 400)
            s3.refuse, drive.signed_out = "expired", True
            with pytest.raises(UserError) as caught:
                mirror_now(run, url, attempts=1)
            said += [str(caught.value), *(record.getMessage() for record in caplog.records)]
            s3.refuse, drive.signed_out = None, False
    held = [entry["content"] for entry in drive.files.values() if "content" in entry]
    held += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for secret in secrets:
        assert not [text for text in said if secret in text]
        assert not [data for data in held if secret.encode() in data]


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(MissingExtra, match="'cloud'"):
        require_packages("s3://runs")
