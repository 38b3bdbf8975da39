"""A checkpoint is restored as it was saved, and every damage is detected."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from ludus.errors import CheckpointError, UnknownName, UserError
from ludus.runs import atomic
from ludus.runs import manifest as manifest_module
from ludus.runs.checkpoints import FORMAT_VERSION, Checkpoint, CheckpointFormatError, CheckpointManager


@pytest.fixture
def store(tmp_path: Path) -> CheckpointManager:
    return CheckpointManager(tmp_path / "checkpoints", keep=3)


def save(store: CheckpointManager, step: int, **options: Any) -> Checkpoint:
    tensors = {"policy": {"w": torch.full((3,), float(step))}, "learner": {"m": torch.zeros(2)}}
    return store.save(step, tensors, {"step": step}, **options)


def steps(store: CheckpointManager) -> list[int]:
    return [checkpoint.step for checkpoint in store.list()]


def rewrite_manifest(checkpoint: Checkpoint, **changes: Any) -> None:
    path = checkpoint.path / "MANIFEST.json"
    content = json.loads(path.read_text())
    del content["sha256"]  # as a user who edits such a file has to
    path.write_text(json.dumps(content | changes))


def test_tensors_of_every_dtype_are_restored_exactly(store: CheckpointManager) -> None:
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    group = {
        "bfloat16": torch.tensor([1.5, -2.25], dtype=torch.bfloat16),
        "scalar": torch.tensor(3.0, dtype=torch.float64),
        "empty": torch.zeros(0, 4),
        "bool": torch.tensor([True, False]),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "transposed": base.t(),
        "shared": base,
        "row of shared": base[1],
        "parameter": torch.nn.Parameter(torch.tensor([7.0])),
        "nan": torch.tensor([math.nan, math.inf]),
    }
    saved = store.save(1, {"policy": group, "nothing": {}}, {})
    loaded = saved.tensors("policy")
    assert loaded.keys() == group.keys()
    for name, tensor in group.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name].nan_to_num(-1.0), tensor.detach().nan_to_num(-1.0)), name
    assert saved.tensors("nothing") == {}
    assert saved.has("policy")
    assert not saved.has("learner")
    with pytest.raises(CheckpointError, match="has no 'learner'"):
        saved.tensors("learner")


def test_state_with_nan_infinities_and_huge_integers_is_restored(store: CheckpointManager) -> None:
    state = {
        "nan": math.nan,
        "inf": [math.inf, -math.inf],
        "big": 2**127 + 1,
        "deep": {"a": [None, True, "é"]},
        "float": 0.1,
    }
    loaded = store.save(1, {}, state).state()
    assert math.isnan(loaded.pop("nan"))
    assert loaded == {key: value for key, value in state.items() if key != "nan"}


def test_training_on_loaded_tensors_does_not_change_the_checkpoint(store: CheckpointManager) -> None:
    saved = save(store, 3)
    loaded = saved.tensors("policy")["w"]
    loaded += 1.0
    saved.verify()
    assert saved.tensors("policy")["w"].tolist() == [3.0, 3.0, 3.0]
    assert loaded.tolist() == [4.0, 4.0, 4.0]


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    a = save(CheckpointManager(tmp_path / "a"), 5)
    b = save(CheckpointManager(tmp_path / "b"), 5)
    for filename in ("policy.safetensors", "learner.safetensors", "state.json"):
        assert (a.path / filename).read_bytes() == (b.path / filename).read_bytes()


def test_names_have_twelve_digits_and_the_manifest_has_the_kind(store: CheckpointManager) -> None:
    saved = save(store, 100_000, exact=False)
    assert saved.name == saved.path.name == "000000100000"
    content = json.loads((saved.path / "MANIFEST.json").read_text())
    policy_bytes = (saved.path / "policy.safetensors").read_bytes()
    assert content["format"] == FORMAT_VERSION
    assert (content["step"], content["exact"], content["resumable"]) == (100_000, False, True)
    assert content["files"]["policy.safetensors"] == {
        "size": len(policy_bytes),
        "sha256": hashlib.sha256(policy_bytes).hexdigest(),
    }
    assert len({path.stat().st_mode for path in saved.path.iterdir()}) == 1, "readable by some, not by others"
    assert not list(store.directory.glob(".*"))


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden"])
def test_a_group_name_cannot_leave_the_checkpoint(store: CheckpointManager, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name"):
        store.save(1, {name: {}}, {})
    assert list(store.directory.iterdir()) == []


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "flipped policy.safetensors": lambda d: flip(d / "policy.safetensors"),
    "flipped state.json": lambda d: flip(d / "state.json"),
    "truncated learner.safetensors": lambda d: (d / "learner.safetensors").write_bytes(b"12345"),
    "missing learner.safetensors": lambda d: (d / "learner.safetensors").unlink(),
    "extra unknown.txt": lambda d: (d / "unknown.txt").write_text("hello"),
    "missing MANIFEST.json": lambda d: (d / "MANIFEST.json").unlink(),
    "truncated MANIFEST.json": lambda d: (d / "MANIFEST.json").write_text('{"format": 1,'),
    "senseless MANIFEST.json": lambda d: (d / "MANIFEST.json").write_text('{"format": 1}'),
    "linked state.json": lambda d: ((d / "state.json").unlink(), (d / "state.json").symlink_to("/dev/null")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    store: CheckpointManager, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    save(store, 10)
    newest = save(store, 20)
    DAMAGE[damage](newest.path)
    with pytest.raises(CheckpointError, match="000000000020") as caught:
        newest.verify()
    filename = damage.split()[1]
    assert filename in caught.value.what
    with caplog.at_level(logging.WARNING, "ludus.runs"):
        found = store.newest_intact()
    assert found is not None
    assert found.step == 10
    assert "000000000020" in caplog.text
    assert filename in caplog.text


def test_training_never_starts_over_when_all_checkpoints_are_damaged(store: CheckpointManager) -> None:
    assert store.newest_intact() is None
    for step in (10, 20):
        flip(save(store, step).path / "state.json")
    with pytest.raises(CheckpointError, match="000000000020, 000000000010"):
        store.newest_intact()


def test_reading_a_damaged_file_is_refused_even_without_verify(store: CheckpointManager) -> None:
    saved = save(store, 1)
    flip(saved.path / "policy.safetensors")
    flip(saved.path / "state.json")
    with pytest.raises(CheckpointError, match=r"policy\.safetensors"):
        saved.tensors("policy")
    with pytest.raises(CheckpointError, match=r"state\.json"):
        saved.state()


def test_a_policy_only_checkpoint_is_latest_but_not_resumed_from(store: CheckpointManager) -> None:
    save(store, 10)
    save(store, 20, resumable=False)
    latest, resumed = store.latest(), store.newest_intact()
    assert latest is not None
    assert resumed is not None
    assert (latest.step, resumed.step) == (20, 10)
    assert json.loads((store.directory / "latest.json").read_text())["checkpoint"] == "000000000010"


def test_only_an_exact_checkpoint_is_given_when_exactness_is_asked(store: CheckpointManager) -> None:
    save(store, 10, exact=False)
    with pytest.raises(CheckpointError, match="none is exact"):
        store.newest_intact(exact_only=True)
    save(store, 20)
    save(store, 30, exact=False)
    found = store.newest_intact(exact_only=True)
    assert found is not None
    assert found.step == 20


def test_prune_keeps_the_newest_the_best_and_the_pinned(store: CheckpointManager) -> None:
    store.mark_best(save(store, 10), "eval/mean_reward", math.nan)
    save(store, 20)
    store.pin(20)
    save(store, 25, resumable=False)
    for step in (30, 40, 50, 60):
        save(store, step)
    assert steps(store) == [10, 20, 40, 50, 60]
    store.unpin("000000000020")
    store.mark_best(store.find(50), "eval/mean_reward", 1.0)
    store.prune()
    assert steps(store) == [40, 50, 60]


def test_a_policy_only_checkpoint_lives_until_it_can_be_marked_best(store: CheckpointManager) -> None:
    first = save(store, 10, resumable=False)
    store.mark_best(first, "eval/mean_reward", 1.0)
    second = save(store, 20, resumable=False)
    store.mark_best(second, "eval/mean_reward", 2.0)
    save(store, 30)
    assert steps(store) == [20, 30]


def test_keep_zero_keeps_everything(tmp_path: Path) -> None:
    store = CheckpointManager(tmp_path, keep=0)
    for step in range(8):
        save(store, step, resumable=step % 2 == 0)
    assert steps(store) == list(range(8))


def test_nothing_is_deleted_while_the_pins_are_unreadable(
    store: CheckpointManager, caplog: pytest.LogCaptureFixture
) -> None:
    save(store, 10)
    store.pin("latest")
    (store.directory / "pins.json").write_text("{")
    for step in (20, 30, 40, 50):
        save(store, step)
    assert steps(store) == [10, 20, 30, 40, 50]
    assert "pins.json is damaged" in caplog.text


def test_checkpoints_are_found_by_word_name_and_step(store: CheckpointManager) -> None:
    save(store, 100_000)
    save(store, 200_000)
    store.mark_best(store.find(100_000), "eval/mean_reward", 3.0)
    assert store.find("latest").step == store.find(200_000).step == store.find("000000200000").step == 200_000
    assert store.find("best").step == store.find("100000").step == 100_000
    with pytest.raises(UnknownName, match="'000000200000'"):
        store.find("000000200001")
    with pytest.raises(UnknownName, match="latest"):
        store.find("lates")


def test_find_in_a_run_without_checkpoints_raises(store: CheckpointManager) -> None:
    assert store.list() == []
    assert store.latest() is None
    assert store.best() is None
    for ref in ("latest", "best", "5"):
        with pytest.raises(UserError):
            store.find(ref)


def test_checkpoints_are_found_when_the_hint_files_are_missing_or_damaged(store: CheckpointManager) -> None:
    store.mark_best(save(store, 10), "eval/mean_reward", 1.0)
    save(store, 20)
    (store.directory / "latest.json").write_text('{"checkpoint": "../../etc"}')
    (store.directory / "best.json").write_text('{"checkpoint": "../../etc"}')
    assert store.find("latest").step == 20
    assert store.best() is None
    with pytest.raises(CheckpointError, match=r"best\.json is damaged"):
        store.find("best")


def test_a_policy_only_checkpoint_is_upgraded_in_place_and_never_downgraded(store: CheckpointManager) -> None:
    policy_only = save(store, 10, resumable=False)
    store.mark_best(policy_only, "eval/mean_reward", 1.0)
    full = store.save(10, {"policy": {"w": torch.ones(1)}}, {"full": True})
    best = store.best()
    assert best is not None
    assert best.resumable
    assert policy_only.tensors("policy")["w"].tolist() == [1.0]
    assert save(store, 10, resumable=False) == full
    assert save(store, 10, exact=False) == full
    assert store.find(10).state() == {"full": True}
    flip(full.path / "policy.safetensors")
    assert not save(store, 10, exact=False).exact


def test_resume_from_an_older_checkpoint_removes_the_newer_ones(store: CheckpointManager) -> None:
    for step in (10, 20, 30):
        save(store, step)
    store.pin(20)
    store.mark_best(store.find(30), "eval/mean_reward", 9.0)
    (store.find(30).path / "MANIFEST.json").unlink()
    store.truncate_after(10)
    assert [(c.step, c.resumable) for c in store.list()] == [(10, True), (20, False)]
    assert store.best() is None
    assert json.loads((store.directory / "latest.json").read_text())["checkpoint"] == "000000000010"
    resumed = store.newest_intact()
    assert resumed is not None
    assert resumed.step == 10
    store.find(20).verify()
    assert save(store, 20).resumable


def test_newer_format_raises_and_is_never_skipped(store: CheckpointManager) -> None:
    save(store, 10)
    newest = save(store, 20)
    rewrite_manifest(newest, format=FORMAT_VERSION + 6, files="laid out in another way")
    for look in (store.newest_intact, store.latest, lambda: store.find(20), newest.verify):
        with pytest.raises(CheckpointFormatError, match=r"newer Ludus \(format 7\)"):
            look()


def test_an_older_format_is_read_through_its_migration(
    store: CheckpointManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = save(store, 10)
    rewrite_manifest(saved, format=0)
    with pytest.raises(CheckpointFormatError, match="format 0"):
        saved.state()
    monkeypatch.setitem(manifest_module.MIGRATIONS, 0, lambda state: state | {"migrated": True})
    assert saved.state() == {"step": 10, "migrated": True}


@pytest.mark.parametrize("filename", ["model.zip", "model.pt", "replay.pkl"])
def test_model_of_another_library_raises_and_no_pickle_is_read(tmp_path: Path, filename: str) -> None:
    foreign = tmp_path / "000000000010"
    foreign.mkdir()
    (foreign / filename).write_bytes(b"PK\x03\x04")
    for path in (foreign, foreign / filename):
        with pytest.raises(CheckpointError, match=r"not a Ludus checkpoint.*does not read pickle"):
            Checkpoint.open(path)
    with pytest.raises(CheckpointError, match="not a Ludus checkpoint"):
        CheckpointManager(foreign).find("latest")
    with pytest.raises(CheckpointError, match="000000000010"):
        CheckpointManager(tmp_path).newest_intact()


def lying_header(header: dict[str, Any], length: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + b"\0" * 8


LIES = {
    "shape": lying_header({"w": {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 8]}}),
    "offsets": lying_header({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 10**12]}}),
    "negative": lying_header({"w": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}),
    "length": lying_header({}, 2**62),
    "dtype": lying_header({"w": {"dtype": "EVIL", "shape": [2], "data_offsets": [0, 8]}}),
    "nothing": b"",
    "pickle": b"\x80\x04K\x01.",
}


@pytest.mark.parametrize("lie", LIES)
def test_invalid_safetensors_header_raises(store: CheckpointManager, lie: str) -> None:
    saved = save(store, 1)
    files = json.loads((saved.path / "MANIFEST.json").read_text())["files"]
    (saved.path / "policy.safetensors").write_bytes(LIES[lie])
    files["policy.safetensors"] = {"size": len(LIES[lie]), "sha256": hashlib.sha256(LIES[lie]).hexdigest()}
    rewrite_manifest(saved, files=files)
    with pytest.raises(CheckpointError, match="not valid safetensors"):
        saved.tensors("policy")


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "MANIFEST.json", ""])
def test_a_manifest_cannot_point_outside_its_checkpoint(store: CheckpointManager, name: str) -> None:
    saved = save(store, 1)
    rewrite_manifest(saved, files={name: {"size": 0, "sha256": ""}})
    with pytest.raises(CheckpointError, match=r"MANIFEST\.json is invalid"):
        saved.verify()


def test_a_checkpoint_copied_under_another_steps_name_is_noticed(store: CheckpointManager) -> None:
    saved = save(store, 10)
    saved.path.rename(store.directory / "000000000020")
    with pytest.raises(CheckpointError, match="of step 10"):
        store.find(20)


def test_a_full_disk_leaves_the_store_as_it_was(
    store: CheckpointManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 10, resumable=False)
    before = sorted(path.relative_to(store.directory) for path in store.directory.rglob("*"))

    for operation in ("write_bytes", "write_by", "sync", "make_directory"):
        with monkeypatch.context() as patch:

            def refuse(*arguments: object) -> None:
                raise OSError(28, "No space left on device")

            patch.setattr(atomic, operation, refuse)
            with pytest.raises(OSError, match="No space"):
                save(store, 10)
        assert sorted(path.relative_to(store.directory) for path in store.directory.rglob("*")) == before
        store.find(10).verify()
