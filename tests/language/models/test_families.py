"""The own forward pass, and the one through transformers, give the logits that transformers gives."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from language_families import FAMILIES, SMALL, logits, save, table_row

from ludus.config.language import AdapterConfig, LanguageConfig
from ludus.config.schema import TrainerConfig
from ludus.errors import UserError
from ludus.language.models.foreign import ForeignModel
from ludus.language.models.llama import LlamaModel
from ludus.language.models.model import whole_rows
from ludus.language.models.models import load_language_model, tiny
from ludus.language.models.tokenizer import ByteTokenizer
from ludus.language.models.weights import save_model
from ludus.training.factory import create_trainer

transformers = pytest.importorskip("transformers")

DOCS = Path(__file__).parents[3] / "docs" / "how-to" / "language-models.md"
FAST = ("llama", "gpt2", "qwen3_5_text", "mamba", "rwkv")
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
OWN: dict[str, Any] = {
    "llama tied": ("LlamaConfig", {"tie_word_embeddings": True}),
    "llama own head": ("LlamaConfig", {"tie_word_embeddings": False, "rms_norm_eps": 1e-5}),
    "llama 3.1 rope": ("LlamaConfig", {"rope_parameters": LLAMA3}),
    "llama head_dim": ("LlamaConfig", {"head_dim": 16}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 16, "tie_word_embeddings": True}),
}
FOREIGN: dict[str, Any] = {
    "gpt2": ("GPT2Config", {"vocab_size": 120, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "neox": ("GPTNeoXConfig", SMALL | {"num_attention_heads": 4}),
}


def tokens_of(rows: int = 2, length: int = 50) -> torch.Tensor:
    return torch.randint(0, 120, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", OWN)
def test_the_own_forward_gives_transformers_logits(name: str, tmp_path: Path) -> None:
    kind, settings = OWN[name]
    theirs = save(tmp_path, kind, SMALL | settings)
    ours = load_language_model(LanguageConfig(model=str(tmp_path)), "cpu")
    assert isinstance(ours, LlamaModel)
    with torch.no_grad():
        torch.testing.assert_close(logits(ours, tokens_of()), theirs(tokens_of()).logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.long) for name in FAMILIES]
)
def test_a_family_samples_trains_and_resumes_as_documented_or_is_refused(name: str, tmp_path: Path) -> None:
    row = table_row(name, tmp_path)
    assert row in DOCS.read_text("utf-8").splitlines(), "python docs/generate_families.py"


def test_the_documentation_lists_these_families_and_no_others() -> None:
    rows = [line for line in DOCS.read_text("utf-8").splitlines() if "| yes |" in line or "| no |" in line]
    assert [row.split("`")[1] for row in rows] == list(FAMILIES)


@pytest.mark.parametrize("name", FOREIGN)
def test_other_families_go_through_transformers(name: str, tmp_path: Path) -> None:
    kind, settings = FOREIGN[name]
    theirs = save(tmp_path, kind, settings)
    ours = load_language_model(LanguageConfig(model=str(tmp_path)), "cpu")
    assert isinstance(ours, ForeignModel)
    with torch.no_grad():
        torch.testing.assert_close(logits(ours, tokens_of()), theirs(tokens_of()).logits, atol=1e-4, rtol=0)
    # packed and padded, as learners do it
    row = tokens_of(1, 12)
    segments = torch.tensor([[1] * 5 + [0] * 2 + [2] * 5])
    positions = torch.tensor([[*range(5), 0, 0, *range(5)]])
    packed = ours.hidden(row, positions, segments, adapter=None)
    for part in (slice(0, 5), slice(7, 12)):
        alone = logits(ours, row[:, part])
        torch.testing.assert_close(ours.head(packed[:, part], adapter=None), alone, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_adapters_of_other_families_learn(name: str, checkpoint: bool, tmp_path: Path) -> None:
    kind, settings = FOREIGN[name]
    save(tmp_path, kind, settings)
    model = load_language_model(LanguageConfig(model=str(tmp_path)), "cpu")
    start = logits(model, tokens_of())
    model.add_adapter("a", AdapterConfig(rank=2), torch.Generator().manual_seed(0))
    model.add_adapter("all", None)
    for adapter in ("a", "all"):
        torch.testing.assert_close(logits(model, tokens_of(), adapter), start)
        optimizer = torch.optim.SGD(model.trainable(adapter), lr=0.1)
        for _ in range(2):  # the first step leaves A as it is, since B is zero
            positions, segments = whole_rows([50, 50], torch.device("cpu"))
            hidden = model.hidden(tokens_of(), positions, segments, adapter=adapter, checkpoint=checkpoint)
            model.head(hidden, adapter=adapter).square().mean().backward()
            optimizer.step()
        moved = (logits(model, tokens_of(), adapter) - start).abs().max()
        assert moved > 1e-3
        torch.testing.assert_close(logits(model, tokens_of()), start)


def test_weights_in_several_files_are_read(tmp_path: Path) -> None:
    theirs = save(tmp_path, "LlamaConfig", SMALL, max_shard_size="40kB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    ours = load_language_model(LanguageConfig(model=str(tmp_path)), "cpu")
    with torch.no_grad():
        torch.testing.assert_close(logits(ours, tokens_of()), theirs(tokens_of()).logits, atol=1e-4, rtol=0)


def test_what_is_saved_is_read_back_by_ludus_and_by_transformers(tmp_path: Path) -> None:
    model = tiny({"layers": 1, "hidden": 32, "heads": 2}, torch.Generator().manual_seed(2))
    model.add_adapter("all", None)
    with torch.no_grad():
        for weight in model.trainable("all"):
            weight.mul_(1.5)
    save_model(model, tmp_path, adapter="all")
    again = load_language_model(LanguageConfig(model=str(tmp_path)), "cpu")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    tokens = torch.arange(20)[None]
    with torch.no_grad():
        expected = logits(model, tokens, "all")
        torch.testing.assert_close(logits(again, tokens), expected)
        torch.testing.assert_close(theirs(tokens).logits, expected, atol=1e-4, rtol=0)
    assert again.tokenizer.encode("a<|end|>") == [97, 258]


def test_a_tokenizer_of_transformers_behind_our_names(tmp_path: Path) -> None:
    save(tmp_path, "LlamaConfig", SMALL)
    tokenizer = load_language_model(LanguageConfig(model=str(tmp_path)), "cpu").tokenizer
    ids = tokenizer.encode("<s>[4]</s>")
    assert len(ids) == 5 and ids[-1] in tokenizer.stop_ids and ids[0] == tokenizer.start_id
    assert tokenizer.decode(ids) == "[4]"
    assert tokenizer.vocab_size == 120
    assert tokenizer.chat([{"role": "user", "content": "hi"}]) == "<s>hi</s>"


def test_bfloat16_is_near_float32(tmp_path: Path) -> None:
    save(tmp_path, "LlamaConfig", SMALL)
    config = LanguageConfig(model=str(tmp_path))
    exact = load_language_model(config, "cpu")
    rounded = load_language_model(config.model_copy(update={"dtype": "bfloat16"}), "cpu")
    with torch.no_grad():
        found = logits(rounded, tokens_of())
        assert found.dtype == torch.float32
        difference = found.log_softmax(-1) - logits(exact, tokens_of()).log_softmax(-1)
    assert 0 < difference.abs().mean() < 2e-2


@pytest.mark.parametrize("damage", ["config", "weights", "cut", "missing", "no-weights"])
def test_a_damaged_folder_is_reported_in_three_lines(damage: str, tmp_path: Path) -> None:
    save(tmp_path, "LlamaConfig", SMALL)
    weights = tmp_path / "model.safetensors"
    if damage == "config":
        (tmp_path / "config.json").write_text("{")
    elif damage == "weights":
        weights.write_bytes(b"nonsense")
    elif damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-1000])
    elif damage == "missing":
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    else:
        weights.unlink()
    with pytest.raises(UserError) as caught:
        load_language_model(LanguageConfig(model=str(tmp_path)), "cpu")
    assert str(tmp_path) in caught.value.where and caught.value.fix


TEXT = {
    "vocab_size": 120,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


def test_vision_towers_are_not_adapted() -> None:
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": 28, "patch_size": 14}
    config = transformers.Gemma3Config(text_config=TEXT, vision_config=vision, mm_tokens_per_image=4)
    inner = transformers.Gemma3ForConditionalGeneration(config)
    model = ForeignModel(inner, ByteTokenizer())
    paths = list(model.products())
    assert len(paths) == 2 * 7 and all(path.startswith("model.language_model.") for path in paths)
    assert [part.split()[0] for part in model.unadapted()] == ["model.vision_tower"]


def test_fused_experts_that_an_adapter_skips_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("textarena")
    save(tmp_path / "model", "MixtralConfig", TEXT | {"num_local_experts": 4})
    config = TrainerConfig(
        algorithm="REINFORCE",
        language={"model": str(tmp_path / "model"), "adapter": {"rank": 2}},
        games={"train": ["TicTacToe-v0"]},
        device="cpu",
        save_dir=str(tmp_path / "runs"),
    )
    trainer = create_trainer(None, config)
    with caplog.at_level(logging.INFO, logger="ludus"):
        trainer.create_model()
    trainer.close()
    assert "adapters are added to the layers k_proj, o_proj, q_proj, v_proj" in caplog.messages
    said = [text for text in caplog.messages if text.startswith("no adapter is added to")]
    assert [text.split()[5] for text in said] == [
        "model.layers.*.mlp.experts.down_proj",
        "model.layers.*.mlp.experts.gate_up_proj",
    ]
