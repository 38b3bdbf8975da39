"""Adapters come from and go to PEFT, which computes the same with them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ludus.config.language import AdapterConfig
from ludus.errors import UserError
from ludus.language.models.llama import LlamaModel
from ludus.language.models.low_rank import LowRank
from ludus.language.models.model import whole_rows
from ludus.language.models.models import tiny
from ludus.language.models.peft_files import CONFIG, WEIGHTS, export_peft, read_peft
from ludus.language.models.weights import save_model

TOKENS = torch.arange(30)[None]


def make_model(seed: int = 0, **adapter: Any) -> LlamaModel:
    model = tiny({"layers": 2, "hidden": 32, "heads": 2})
    model.add_adapter("a", AdapterConfig.model_validate({"rank": 4, "alpha": 6.0, **adapter}))
    generator = torch.Generator().manual_seed(seed)
    for weight in model.trainable("a"):
        torch.nn.init.normal_(weight, std=0.2, generator=generator)
    return model


@torch.no_grad()
def logits(model: LlamaModel, adapter: str | None) -> torch.Tensor:
    hidden = model.hidden(TOKENS, *whole_rows([TOKENS.shape[1]], TOKENS.device), adapter=adapter)
    return model.head(hidden, adapter=adapter)


@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "down_proj"]])
def test_peft_computes_the_same_with_an_exported_adapter(targets: Any, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    model = make_model(targets=targets)
    save_model(model, tmp_path / "base")
    export_peft(model, "a", tmp_path / "adapter", base=str(tmp_path / "base"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    theirs = peft.PeftModel.from_pretrained(theirs, tmp_path / "adapter")
    with torch.no_grad():
        torch.testing.assert_close(theirs(TOKENS).logits, logits(model, "a"), atol=1e-4, rtol=0)


def test_an_adapter_that_peft_saved_is_read(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    model = tiny({"layers": 2, "hidden": 32, "heads": 2})
    save_model(model, tmp_path / "base")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    config = peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "up_proj"], init_lora_weights=False
    )
    theirs = peft.get_peft_model(theirs, config).eval()
    theirs.save_pretrained(tmp_path / "adapter")
    model.add_adapter("read", AdapterConfig(rank=99, start=str(tmp_path / "adapter")))
    adapter = model.adapter("read")
    assert isinstance(adapter, LowRank) and (adapter.rank, adapter.alpha) == (4, 8.0)
    with torch.no_grad():
        torch.testing.assert_close(logits(model, "read"), theirs(TOKENS).logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("form", ["folder", "folder below", "zip", "zip with a folder"])
def test_folders_and_zips_are_read_alike(form: str, tmp_path: Path) -> None:
    model = make_model()
    export_peft(model, "a", tmp_path / "lora ckpt", base="tiny")
    source = {"folder": tmp_path / "lora ckpt", "folder below": tmp_path}.get(form)
    if source is None:
        source = tmp_path / "lora.zip"
        inside = "" if form == "zip" else "checkpoint/"
        with zipfile.ZipFile(source, "w") as archive:
            for name in (CONFIG, WEIGHTS):
                archive.write(tmp_path / "lora ckpt" / name, inside + name)
    model.add_adapter("b", AdapterConfig(start=str(source)))
    torch.testing.assert_close(logits(model, "b"), logits(model, "a"))


def test_names_of_older_versions_are_understood(tmp_path: Path) -> None:
    model = make_model()
    export_peft(model, "a", tmp_path, base="tiny")
    stored = load_file(tmp_path / WEIGHTS)
    save_file({k.replace(".weight", ".default.weight"): v for k, v in stored.items()}, tmp_path / WEIGHTS)
    model.add_adapter("b", AdapterConfig(start=str(tmp_path)))
    torch.testing.assert_close(logits(model, "b"), logits(model, "a"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"peft_type": "IA3"}, "does not compute"),
        ({"use_dora": True}, "use_dora"),
        ({"rank_pattern": {"q_proj": 2}}, "rank_pattern"),
        ({"r": "four"}, "does not describe a LoRA adapter"),
    ],
)
def test_adapters_of_other_kinds_are_refused(damage: dict[str, Any], said: str, tmp_path: Path) -> None:
    export_peft(make_model(), "a", tmp_path, base="tiny")
    settings = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps(settings | damage))
    with pytest.raises(UserError, match=said) as caught:
        read_peft(tmp_path)
    assert str(tmp_path) in caught.value.where


@pytest.mark.parametrize("form", ["nothing there", "pickled", "cut off", "no zip", "two in a zip"])
def test_unreadable_files_are_reported(form: str, tmp_path: Path) -> None:
    export_peft(make_model(), "a", tmp_path / "x", base="tiny")
    source = tmp_path / "x"
    if form == "nothing there":
        source = tmp_path / "y"
    elif form == "pickled":
        (source / WEIGHTS).rename(source / "adapter_model.bin")
    elif form == "cut off":
        (source / WEIGHTS).write_bytes((source / WEIGHTS).read_bytes()[:-50])
    elif form == "no zip":
        source = source / CONFIG
    else:
        source = tmp_path / "two.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for folder in ("a", "b"):
                for name in (CONFIG, WEIGHTS):
                    archive.write(tmp_path / "x" / name, f"{folder}/{name}")
    with pytest.raises(UserError) as caught:
        read_peft(source)
    assert caught.value.fix


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    export_peft(make_model(), "a", tmp_path, base="tiny")
    smaller = tiny({"layers": 1, "hidden": 32, "heads": 2})
    with pytest.raises(UserError):
        smaller.add_adapter("a", AdapterConfig(start=str(tmp_path)))
    assert smaller.adapters == []


def test_a_whole_copy_is_no_low_rank_adapter(tmp_path: Path) -> None:
    model = make_model()
    model.add_adapter("all", None)
    with pytest.raises(UserError, match="all weights"):
        export_peft(model, "all", tmp_path, base="tiny")


def test_an_export_stands_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OSError):
        export_peft(make_model(), "a", tmp_path / "taken", base="tiny")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
