"""A corpus of runs that another person might send: each entry changes a good run into one that attacks."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

Attack = Callable[[Path, Path, Path], None]
"""Run directory, the folder outside, the file that shows that code was run."""


class Evil:
    """Unpickled, it makes a file."""

    def __init__(self, mark: Path) -> None:
        self._mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self._mark,)


def newest(run: Path) -> Path:
    return sorted(path for path in (run / "checkpoints").iterdir() if path.name.isdigit())[-1]


def put(run: Path, name: str, content: bytes, *, fits: bool = True) -> None:
    """Replace a file of the newest checkpoint; `fits`: the manifest says that this is what was written."""
    folder = newest(run)
    (folder / name).write_bytes(content)
    if fits:
        path = folder / "MANIFEST.json"
        manifest = json.loads(path.read_text())
        manifest.pop("sha256", None)
        manifest["files"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        path.write_text(json.dumps(manifest))


def pickles(mark: Path) -> dict[str, bytes]:
    """The same payload in every format that unpickles."""
    found = {f"pickle, protocol {n}": pickle.dumps(Evil(mark), protocol=n) for n in range(6)}
    buffer = io.BytesIO()
    torch.save({"policy": Evil(mark)}, buffer)
    found["torch.save"] = buffer.getvalue()
    buffer = io.BytesIO()
    torch.save({"policy": Evil(mark)}, buffer, _use_new_zipfile_serialization=False)
    found["torch.save of old"] = buffer.getvalue()
    buffer = io.BytesIO()
    np.save(buffer, np.array([Evil(mark)], dtype=object), allow_pickle=True)
    found["numpy, an array of objects"] = buffer.getvalue()
    buffer = io.BytesIO()
    np.savez(buffer, a=np.array([Evil(mark)], dtype=object))
    found["numpy, an archive of them"] = buffer.getvalue()
    import joblib

    buffer = io.BytesIO()
    joblib.dump(Evil(mark), buffer)
    found["joblib"] = buffer.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data", json.dumps({"policy_class": {":serialized:": "gAR"}}))
        archive.writestr("policy.pth", found["torch.save"])
        archive.writestr("../../../outside/secret.txt", "slipped")
    found["a zip of Stable-Baselines3"] = buffer.getvalue()
    return found


def _header(content: Any, data: bytes = b"\0" * 64, length: int | None = None) -> bytes:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def lying_safetensors() -> dict[str, bytes]:
    def one(shape: list[int], offsets: list[int], dtype: str = "F32") -> dict[str, Any]:
        return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}

    return {
        "a header of 2^63 bytes": _header(b"{}", length=1 << 63),
        "a header longer than the file": _header(b"{}", length=10_000),
        "a header of 100 MB that is not there": _header(b"{}", length=100_000_000),
        "a shape of 2^62 numbers": _header(one([1 << 31, 1 << 31], [0, 64])),
        "a shape that overflows": _header(one([1 << 62, 8], [0, 0])),
        "a negative shape": _header(one([-1], [0, 4])),
        "offsets beyond the file": _header(one([1 << 20], [0, 4 << 20])),
        "offsets backwards": _header(one([16], [64, 0])),
        "an unknown type": _header(one([16], [0, 64], "PICKLE")),
        "a header nested deeply": _header(b'{"a":' * 20_000 + b"1" + b"}" * 20_000),
        "a header that is no object": _header(b"[1, 2, 3]"),
        "nothing": b"",
        "seven bytes": b"\0" * 7,
        "metadata as a name": _header({"__metadata__": {"a": "b"}}, b""),
    }


def _link(name: str, target: str) -> Attack:
    def attack(run: Path, outside: Path, mark: Path) -> None:
        path = (
            newest(run) / name.removeprefix("CHECKPOINT/") if name.startswith("CHECKPOINT/") else run / name
        )
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(outside / target if target else outside)

    return attack


def _pipe(name: str) -> Attack:
    def attack(run: Path, outside: Path, mark: Path) -> None:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return attack


def _text(name: str, content: Callable[[Path, Path], str]) -> Attack:
    return lambda run, outside, mark: (run / name).write_text(content(outside, mark)) and None


def _config(**changes: Any) -> Attack:
    def attack(run: Path, outside: Path, mark: Path) -> None:
        from ludus.config.plain_yaml import read_yaml, write_yaml

        config, _ = read_yaml(run / "config.yaml")
        for dotted, value in changes.items():
            node = config
            *sections, key = dotted.split("__")
            for section in sections:
                node = node.setdefault(section, {}) or {}
            node[key] = json.loads(json.dumps(value).replace("OUTSIDE", str(outside)))
        (run / "config.yaml").write_text(write_yaml(config))

    return attack


def _info(**changes: Any) -> Attack:
    def attack(run: Path, outside: Path, mark: Path) -> None:
        info = json.loads((run / "run.json").read_text())
        info.pop("sha256", None)
        (run / "run.json").write_text(json.dumps(info | changes))

    return attack


def _tensors(name: str, kind: str) -> Attack:
    return lambda run, outside, mark: put(run, name, pickles(mark)[kind])


def _bytes(name: str, content: bytes) -> Attack:
    return lambda run, outside, mark: put(run, name, content)


def _next_to(*names: str) -> Attack:
    def attack(run: Path, outside: Path, mark: Path) -> None:
        content = list(pickles(mark).values())
        for number, name in enumerate(names):
            path = run / name if "/" in name else newest(run) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content[number % len(content)])
            if name.endswith(".py"):
                path.write_text(f"import os; os.mkdir({str(mark)!r})\n")

    return attack


def _manifest(name: str) -> Attack:
    def attack(run: Path, outside: Path, mark: Path) -> None:
        path = newest(run) / "MANIFEST.json"
        manifest = json.loads(path.read_text())
        manifest.pop("sha256", None)
        content = (outside / "secret.txt").read_bytes()
        entry = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        manifest["files"][name.replace("OUTSIDE", str(outside))] = entry
        manifest["files"].pop("policy.safetensors")
        path.write_text(json.dumps(manifest))

    return attack


def _alias_bomb(outside: Path, mark: Path) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(lines)


def _text_as_video(run: Path, outside: Path, mark: Path) -> None:
    (run / "videos").mkdir(exist_ok=True)
    (run / "videos" / "000000000032.mp4").write_bytes(pickles(mark)["pickle, protocol 4"])


_DEEP = "[" * 100_000
_WIDE = 1_000_000_000
_HOSTILE_TEXT = "\x1b[2J\x1b]0;pwned\x07<script>alert(1)</script>\r../../outside/x"

ATTACKS: dict[str, Attack] = {
    **{f"weights: {kind}": _tensors("policy.safetensors", kind) for kind in pickles(Path("unused"))},
    **{
        f"learner: {kind}": _tensors("learner.safetensors", kind)
        for kind in ("pickle, protocol 4", "torch.save")
    },
    "state: pickle": _tensors("state.json", "pickle, protocol 0"),
    "pickles next to the weights": _next_to("policy.pt", "optimizer.pkl", "data.joblib", "sitecustomize.py"),
    "pickles in the run": _next_to(
        "models/policy.pt", "vecnormalize/x.pkl", "logs/evil.py", "checkpoints/model.zip"
    ),
    "Python next to the config": _next_to(
        "./conftest.py", "./sitecustomize.py", "./ludus.py", "./gymnasium.py"
    ),
    **{
        f"weights: {name}": _bytes("policy.safetensors", content)
        for name, content in lying_safetensors().items()
    },
    "state: nested deeply": _bytes("state.json", _DEEP.encode()),
    "state: no object": _bytes("state.json", b"[1]"),
    "state: of another kind": _bytes(
        "state.json", b'{"steps": "many", "streams": [[[]]], "league": {"a": 1}}'
    ),
    "state: a number of 100,000 digits": _bytes("state.json", b'{"steps": ' + b"9" * 100_000 + b"}"),
    "manifest: a way up": _manifest("../../../outside/secret.txt"),
    "manifest: an absolute path": _manifest("OUTSIDE/secret.txt"),
    "manifest: a way up, as weights": _manifest("../../../outside/policy.safetensors"),
    "manifest: nested deeply": lambda run, o, m: (newest(run) / "MANIFEST.json").write_text(_DEEP) and None,
    "link: metrics": _link("metrics.jsonl", "secret.txt"),
    "link: episodes": _link("episodes.jsonl", "secret.txt"),
    "link: config": _link("config.yaml", "secret.txt"),
    "link: run.json": _link("run.json", "secret.json"),
    "link: lock": _link("run.lock", "secret.txt"),
    "link: checkpoints": _link("checkpoints", "folder"),
    "link: a checkpoint": _link("CHECKPOINT/.", "folder"),
    "link: weights": _link("CHECKPOINT/policy.safetensors", "secret.txt"),
    "link: state": _link("CHECKPOINT/state.json", "secret.json"),
    "link: manifest": _link("CHECKPOINT/MANIFEST.json", "secret.json"),
    "link: best": _link("checkpoints/best.json", "secret.json"),
    "link: logs": _link("logs", "folder"),
    "link: the log": _link("logs/train.log", "folder/secret.log"),
    "link: videos": _link("videos", "folder"),
    "link: a video": _link("videos/000000000032.mp4", "folder/secret.mp4"),
    "link: tensorboard": _link("tensorboard", "folder"),
    "link: report": _link("report.html", "secret.txt"),
    "link: games": _link("games.json", "secret.json"),
    "link: analysis": _link("analysis", "folder"),
    "pipe: metrics": _pipe("metrics.jsonl"),
    "pipe: config": _pipe("config.yaml"),
    "pipe: run.json": _pipe("run.json"),
    "pipe: the log": _pipe("logs/train.log"),
    "config: a tag": _text("config.yaml", lambda o, m: f"env: !!python/object/apply:os.mkdir ['{m}']\n"),
    "config: aliases": _text("config.yaml", _alias_bomb),
    "config: nested deeply": _text("config.yaml", lambda o, m: "a: " + _DEEP),
    "config: binary": lambda run, o, m: (
        (run / "config.yaml").write_bytes(pickles(m)["pickle, protocol 2"]) and None
    ),
    "config: a wrapper that is a function": _config(env__wrappers=[{"os:mkdir": {"path": "OUTSIDE/made"}}]),
    "config: an extractor that is a function": _config(policy__features_extractor="os:mkdir"),
    "config: an env that is a module": _config(env__id="antigravity:Evil-v0"),
    "config: a starting policy elsewhere": _config(pretrained_model="OUTSIDE"),
    "config: a network of 10^18 weights": _config(hyperparams__policy_net_arch=[_WIDE, _WIDE]),
    "config: a name with commands": _config(name=_HOSTILE_TEXT),
    "run.json: names with commands": _info(
        name=_HOSTILE_TEXT,
        env_id=_HOSTILE_TEXT,
        algorithm=_HOSTILE_TEXT,
        tags=[_HOSTILE_TEXT],
        preset=_HOSTILE_TEXT,
    ),
    "run.json: nested deeply": _text("run.json", lambda o, m: _DEEP),
    "run.json: of other kinds": _info(
        name=[1], env_id={"a": 1}, created=7, tags="x", evaluation=[], pid="x", seed="y"
    ),
    "metrics: pickle": lambda run, o, m: (
        (run / "metrics.jsonl").write_bytes(pickles(m)["pickle, protocol 5"]) and None
    ),
    "metrics: nested deeply": _text(
        "metrics.jsonl", lambda o, m: '{"step": ' + _DEEP + "\n" + '{"step": 1, "a": 1}\n'
    ),
    "metrics: names with commands": _text(
        "metrics.jsonl", lambda o, m: json.dumps({"step": 1, _HOSTILE_TEXT: 1.0}) + "\n"
    ),
    "games.json: of other kinds": _text(
        "games.json", lambda o, m: '{"games": "x", "hands": [1], "jokers": {"a": []}}'
    ),
    "a text file as video": _text_as_video,
}
