"""Families of language models, each as a tiny checkpoint with drawn weights, and what Ludus can do with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from language_setup import experience, learner, match, turn

from ludus.config.language import AdapterConfig, LanguageConfig, SamplerConfig
from ludus.errors import UserError
from ludus.language.models.llama import LlamaModel
from ludus.language.models.local import LocalSampler
from ludus.language.models.model import LanguageModel, whole_rows
from ludus.language.models.models import load_language_model
from ludus.language.models.sampling import Request
from ludus.language.turns import Turns

SMALL = {
    "vocab_size": 120,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
STATES = {"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
HYBRID = {
    "mamba_d_state": 8,
    "mamba_n_heads": 6,
    "mamba_d_head": 16,
    "mamba_d_ssm": 96,
    "mamba_n_groups": 1,
    "mamba_expand": 2,
    "mamba_chunk_size": 8,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", SMALL),
    "mistral": ("MistralConfig", SMALL | {"sliding_window": None}),
    "qwen2": ("Qwen2Config", SMALL),
    "qwen3": ("Qwen3Config", SMALL | {"head_dim": 16}),
    "smollm3": ("SmolLM3Config", SMALL),
    "gemma": ("GemmaConfig", SMALL | {"head_dim": 8}),
    "gemma2": ("Gemma2Config", SMALL | {"head_dim": 8}),
    "gemma3_text": ("Gemma3TextConfig", SMALL | {"head_dim": 8}),
    "phi": ("PhiConfig", SMALL | {"num_key_value_heads": 6}),
    "phi3": ("Phi3Config", SMALL),
    "olmo2": ("Olmo2Config", SMALL),
    "granite": ("GraniteConfig", SMALL | {"logits_scaling": 4.0}),
    "cohere": ("CohereConfig", SMALL),
    "glm4": ("Glm4Config", SMALL | {"head_dim": 8}),
    "starcoder2": ("Starcoder2Config", SMALL),
    "stablelm": ("StableLmConfig", SMALL),
    "gpt2": ("GPT2Config", {"vocab_size": 120, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "gpt_neox": ("GPTNeoXConfig", SMALL | {"num_attention_heads": 4}),
    "opt": (
        "OPTConfig",
        SMALL | {"num_attention_heads": 4, "ffn_dim": 64, "word_embed_proj_dim": 48},
    ),
    "bloom": ("BloomConfig", {"vocab_size": 120, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "falcon": ("FalconConfig", SMALL | {"num_attention_heads": 4}),
    "mixtral": ("MixtralConfig", SMALL | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2_moe": ("Qwen2MoeConfig", SMALL | EXPERTS | {"shared_expert_intermediate_size": 32}),
    "qwen3_moe": ("Qwen3MoeConfig", SMALL | EXPERTS | {"head_dim": 8}),
    "gpt_oss": ("GptOssConfig", SMALL | {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "llama4_text": (
        "Llama4TextConfig",
        SMALL | {"head_dim": 8, "num_local_experts": 4, "intermediate_size_mlp": 64},
    ),
    "qwen3_next": (
        "Qwen3NextConfig",
        SMALL | EXPERTS | LINEAR | {"head_dim": 8, "shared_expert_intermediate_size": 32},
    ),
    "qwen3_5_text": ("Qwen3_5TextConfig", SMALL | LINEAR | {"head_dim": 8}),
    "lfm2": ("Lfm2Config", SMALL | {"layer_types": ["conv", "full_attention"]}),
    "jamba": (
        "JambaConfig",
        SMALL
        | {"mamba_d_state": 8, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2}
        | {"use_mamba_kernels": False},
    ),
    "bamba": ("BambaConfig", SMALL | HYBRID | {"attn_layer_indices": [1]}),
    "falcon_h1": ("FalconH1Config", SMALL | HYBRID | {"lm_head_multiplier": 0.5}),
    "granitemoehybrid": (
        "GraniteMoeHybridConfig",
        SMALL
        | HYBRID
        | {"layer_types": ["mamba", "attention"], "num_local_experts": 4, "logits_scaling": 4.0},
    ),
    "recurrent_gemma": (
        "RecurrentGemmaConfig",
        SMALL | {"lru_width": 48, "block_types": ["recurrent", "attention"]},
    ),
    "mamba": ("MambaConfig", STATES),
    "mamba2": (
        "Mamba2Config",
        STATES | {"num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
    ),
    "falcon_mamba": ("FalconMambaConfig", STATES),
    "rwkv": ("RwkvConfig", {"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 2}),
    "xlstm": ("xLSTMConfig", {"vocab_size": 120, "hidden_size": 32, "num_blocks": 2, "num_heads": 2}),
}


def save(folder: Path, kind: str, settings: dict[str, Any], **how: Any) -> Any:
    """A model of transformers with drawn weights, saved with a tokenizer of single characters."""
    import transformers

    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            # biases and norms too: a family that ignores them must be found out
            weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(folder, **how)
    characters = [chr(i) for i in range(33, 126)]
    vocab = {character: i for i, character in enumerate([*characters, "<s>", "</s>"])}
    (folder / "tokenizer.json").write_text(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": [
                    {"id": vocab[s], "content": s, "special": True, "normalized": False, "single_word": False,
                     "lstrip": False, "rstrip": False}
                    for s in ("<s>", "</s>")
                ],
                "decoder": {"type": "Fuse"},
                "model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": None},
            }
        )
    )  # fmt: skip
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
             "chat_template": "{% for m in messages %}<s>{{ m.content }}{% endfor %}</s>"}
        )
    )  # fmt: skip
    return model


def table_row(name: str, folder: Path) -> str:
    """Load a tiny model of the family, sample, train, resume; the row of the table in docs/how-to/language-models.md.

    AssertionError where a family that is loaded does not do what it should.
    """
    kind, settings = FAMILIES[name]
    theirs = save(folder, kind, settings)
    try:
        model = _load(folder)
    except UserError as error:
        reason = error.what.partition(f"models of the family '{name}' ")[2]
        if not (reason and error.where == str(folder) and error.fix):
            raise AssertionError("the error does not say what, where and how to fix it") from error
        return f"| `{name}` | no | {reason.partition(' (')[0]} |"
    tokens = torch.randint(1, 120, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(logits(model, tokens), theirs(tokens).logits.float(), atol=1e-4, rtol=1e-4)
    for adapter in (AdapterConfig(rank=2), None):
        _samples_and_trains(folder, adapter, theirs)
    return f"| `{name}` | yes | computed by {'Ludus' if isinstance(model, LlamaModel) else 'transformers'} |"


def logits(model: LanguageModel, tokens: torch.Tensor, adapter: str | None = None) -> torch.Tensor:
    positions, segments = whole_rows([tokens.shape[1]] * len(tokens), torch.device("cpu"))
    return model.head(model.hidden(tokens, positions, segments, adapter=adapter), adapter=adapter)


def _load(folder: Path) -> LanguageModel:
    return load_language_model(LanguageConfig(model=str(folder)), "cpu")


def _samples_and_trains(folder: Path, adapter: AdapterConfig | None, theirs: Any) -> None:
    """Sampled log-probabilities are those of transformers; an update moves weights; a resumed learner is the same."""
    runs = []
    for _ in range(2):
        model = _load(folder)
        model.add_adapter("learner", adapter, torch.Generator().manual_seed(0))
        runs.append(learner("REINFORCE", model, learning_rate=1e-2))
    one, other = runs
    data = _played(one.context.model)
    for sampled in data.turns:
        ids = torch.tensor([[*sampled.prompt, *sampled.completion]])
        with torch.no_grad():
            expected = theirs(ids).logits[0].float().log_softmax(-1)[len(sampled.prompt) - 1 : -1]
        expected = expected.gather(1, torch.tensor(sampled.completion)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(sampled.log_probs), expected, atol=1e-3, rtol=0)
    start = [weight.clone() for weight in one.context.model.trainable("learner")]
    assert one.update(data, 0.0)["train/grad_norm"] > 0
    weights = one.context.model.trainable("learner")
    assert any(not torch.equal(a, b) for a, b in zip(start, weights, strict=True))
    other.context.model.load_adapter_tensors("learner", one.context.model.adapter_tensors("learner"))
    other.load({key: value.clone() for key, value in one.tensors().items()}, one.values())
    other.context.streams.load_state_dict(*one.context.streams.state_dict())
    again = _played(one.context.model, version=1)
    gap = one.agreement("learner", again.turns)["train/log_prob_gap_max"]
    assert gap < 1e-3, f"the sampler and the learner differ by {gap}"
    for run in (one, other):
        run.update(again, 0.0)
    for a, b in zip(weights, other.context.model.trainable("learner"), strict=True):
        assert torch.equal(a, b), "a resumed learner differs"


def _played(model: LanguageModel, version: int = 0) -> Turns:
    """Sampled turns whose prompts differ in length."""
    settings = SamplerConfig(max_new_tokens=6, max_prompt_tokens=40)
    sampler = LocalSampler(model, settings, torch.Generator().manual_seed(version))
    prompts = [tuple(range(2, 2 + n)) for n in (9, 14, 12, 9)]
    found = sampler.sample(
        [Request(prompt, adapter="learner", key=str(i)) for i, prompt in enumerate(prompts)]
    )
    turns = [
        turn(
            match=i,
            version=version,
            prompt=prompt,
            completion=one.tokens,
            log_probs=one.log_probs,
            raw_log_probs=one.raw_log_probs,
        )
        for i, (prompt, one) in enumerate(zip(prompts, found, strict=True))
    ]
    return experience([match([one], (1.0 - 2 * (i % 2), 0.0)) for i, one in enumerate(turns)])
