"""Tokens per second of the local sampler beside `generate` and vLLM, with the shares of prefill and decoding.

python benchmarks/sampling.py                                   # the device there is, 135M parameters, 32 or 256 games
python benchmarks/sampling.py --model smollm2-135m --peers transformers vllm      # vLLM: in its own environment
python benchmarks/sampling.py --check                           # do sampler and learner agree on log-probabilities?
python benchmarks/sampling.py --turns 4 --shared 200            # prompts that grow, and begin alike

Without --model the weights are drawn, in the shape of SmolLM2-135M: speed does not depend on them. Nothing stops
early: every completion has --new tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
import torch

from ludus.config.language import AdapterConfig, LanguageConfig, SamplerConfig
from ludus.language.models.llama import LlamaModel
from ludus.language.models.local import LocalSampler
from ludus.language.models.model import whole_rows
from ludus.language.models.models import find_model, load_language_model
from ludus.language.models.sampling import Completion, Request
from ludus.language.models.shape import Shape, as_config
from ludus.language.models.tokenizer import ByteTokenizer
from ludus.language.models.weights import tensors_by_name

SMOLLM2 = Shape(
    family="llama",
    vocab=49_152,
    hidden=576,
    layers=30,
    heads=9,
    kv_heads=3,
    head_dim=64,
    intermediate=1536,
    context=8192,
    norm_eps=1e-5,
    rope={"rope_type": "default", "rope_theta": 100_000.0},
    tied=True,
)
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a name, folder or hub id; default: drawn weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=["auto", "float32", "bfloat16"], default="auto")
    parser.add_argument("--games", type=int, help="requests in a call; default: 256 on a GPU, 32 on a CPU")
    parser.add_argument("--prompt", type=int, nargs=2, default=(150, 350), help="shortest and longest")
    parser.add_argument("--shared", type=int, default=0, help="tokens that all prompts begin with")
    parser.add_argument(
        "--turns", type=int, default=1, help="calls in a row; each prompt goes on from the last"
    )
    parser.add_argument("--new", type=int, help="tokens to draw; default: 64 on a GPU, 16 on a CPU")
    parser.add_argument("--rank", type=int, default=32, help="of the adapters; 0: none")
    parser.add_argument("--adapters", type=int, default=1, help="how many play in one batch")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", nargs="*", choices=["transformers", "vllm"], default=[])
    parser.add_argument("--check", action="store_true", help="compare log-probabilities with the learner's")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    on_gpu = torch.device(asked.device).type == "cuda"
    asked.games = asked.games or (256 if on_gpu else 32)
    asked.new = asked.new or (64 if on_gpu else 16)
    model = make_model(asked)
    model.tokenizer.stop_ids = frozenset()
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if on_gpu else f"{torch.get_num_threads()} CPU threads",
        "model": asked.model or "drawn, 135M",
        "dtype": str(model.dtype).removeprefix("torch."),
        "games": asked.games,
        "new": asked.new,
        "adapters": asked.adapters if asked.rank else 0,
    }
    print(", ".join(f"{key} {value}" for key, value in result.items()), flush=True)
    if asked.check:
        result["check"] = check(model, asked)
    else:
        result["local"] = local(model, asked)
        for peer in asked.peers:
            result[peer] = (with_transformers if peer == "transformers" else with_vllm)(model, asked)
            ratio = result["local"]["tokens_per_s"] / result[peer]["tokens_per_s"]
            print(f"local is {ratio:.2f} times as fast as {peer}, prefill included")
    if asked.json:
        print(json.dumps(result))
    if asked.check and not result["check"]["agrees"]:
        sys.exit(1)


def make_model(asked: argparse.Namespace) -> LlamaModel:
    config = LanguageConfig(model=asked.model or "tiny", dtype=asked.dtype)
    if asked.model:
        model = load_language_model(config, asked.device)
        assert isinstance(model, LlamaModel), "a family that goes through transformers: nothing to compare"
    else:
        model = LlamaModel(SMOLLM2, ByteTokenizer())
        model.base.draw(torch.Generator().manual_seed(0))
        rounded = asked.dtype == "bfloat16" or (asked.dtype == "auto" and asked.device != "cpu")
        model.base.to(torch.bfloat16 if rounded else torch.float32)
        model.to(asked.device)
    for i in range(asked.adapters if asked.rank else 0):
        generator = torch.Generator().manual_seed(i)
        model.add_adapter(f"a{i}", AdapterConfig(rank=asked.rank), generator)
        with torch.no_grad():
            for weight in model.trainable(f"a{i}"):
                weight.add_(torch.randn(weight.shape, generator=generator).to(weight.device), alpha=0.01)
    return model


def make_requests(model: LlamaModel, asked: argparse.Namespace, seed: int) -> list[Request]:
    rng = np.random.default_rng(seed)
    low, high = asked.prompt
    shared = rng.integers(3, model.shape.vocab, size=asked.shared).tolist()
    requests = []
    for i in range(asked.games):
        own = rng.integers(3, model.shape.vocab, size=int(rng.integers(low, high + 1))).tolist()
        adapter = f"a{i * asked.adapters // asked.games}" if asked.rank else None
        requests.append(Request((*shared, *own)[: max(len(own), asked.shared + 8)], adapter, f"{seed}.{i}/0"))
    return requests


def make_sampler(model: LlamaModel, asked: argparse.Namespace, seed: int, **settings: Any) -> LocalSampler:
    config = SamplerConfig(max_new_tokens=asked.new, max_prompt_tokens=4096, **settings)
    return LocalSampler(model, config, torch.Generator().manual_seed(seed))


def local(model: LlamaModel, asked: argparse.Namespace) -> dict[str, float]:
    """Calls to one sampler, the first of which (compiling, capturing) does not count."""
    sampler = make_sampler(model, asked, 0)
    found: list[dict[str, float]] = []
    for repeat in range(asked.repeats + 1):
        requests = make_requests(model, asked, repeat)
        sampler.forget()
        work = sampler.work
        before = dict(vars(work))
        began = time.perf_counter()
        for turn in range(asked.turns):
            completions = sampler.sample(requests)
            if turn + 1 < asked.turns:
                requests = grown(requests, completions, repeat + turn)
        seconds = time.perf_counter() - began
        spent = {key: value - before[key] for key, value in vars(work).items()}
        first = asked.games * asked.turns  # the first token of a completion comes with the prompt
        found.append(
            {
                "seconds": seconds,
                "tokens_per_s": spent["generated"] / seconds,
                "decode_tokens_per_s": (spent["generated"] - first) / max(spent["decode_seconds"], 1e-9),
                "prefill_tokens_per_s": spent["prompt_tokens"] / spent["prefill_seconds"],
                "prompt_computed": spent["computed"] / spent["prompt_tokens"],
                "prefill_share": spent["prefill_seconds"] / seconds,
                "decode_share": spent["decode_seconds"] / seconds,
            }
        )
    middle = sorted(found[1:], key=lambda one: one["seconds"])[len(found[1:]) // 2]
    print(
        f"local         {middle['tokens_per_s']:9,.0f} tokens/s in all, {middle['decode_tokens_per_s']:9,.0f} "
        f"decoding ({middle['decode_share']:.0%} of the time), prompts {middle['prefill_tokens_per_s']:9,.0f} "
        f"tokens/s ({middle['prefill_share']:.0%}), {middle['prompt_computed']:.0%} of them computed; "
        f"first call {found[0]['seconds']:.1f} s",
        flush=True,
    )
    return middle


def grown(requests: list[Request], completions: list[Completion], seed: int) -> list[Request]:
    """The next turn: what was shown, what was answered, and 40 tokens more."""
    rng = np.random.default_rng(seed)
    return [
        Request((*r.prompt, *c.tokens, *rng.integers(3, 250, size=40).tolist()), r.adapter, r.key)
        for r, c in zip(requests, completions, strict=True)
    ]


def with_transformers(model: LlamaModel, asked: argparse.Namespace) -> dict[str, float]:
    """The same prompts and weights through `generate`: padded at the left, sampling, key-value cache.

    Without adapters, which would only slow it down.
    """
    import transformers

    config = transformers.LlamaConfig(**as_config(model.shape))
    theirs = transformers.LlamaForCausalLM(config).to(model.device, model.dtype).eval()
    with torch.no_grad():
        for name, weight in tensors_by_name(model.shape, model.base).items():
            theirs.get_parameter(name).copy_(weight)
    rates = []
    for repeat in range(asked.repeats + 1):
        prompts = [list(request.prompt) for request in make_requests(model, asked, repeat)]
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts], device=model.device)
        seen = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=model.device)
        times = []
        for new in (1, asked.new):
            settings = {"do_sample": True, "top_k": 0, "min_new_tokens": new, "max_new_tokens": new}
            _wait(model.device)
            began = time.perf_counter()
            theirs.generate(ids, attention_mask=seen, pad_token_id=0, **settings)
            _wait(model.device)
            times.append(time.perf_counter() - began)
        decode = (asked.new - 1) * asked.games / max(times[1] - times[0], 1e-9)
        rates.append((asked.new * asked.games / times[1], decode, times[0] / times[1]))
    total, decode, share = sorted(rates[1:])[len(rates[1:]) // 2]
    print(
        f"transformers  {total:9,.0f} tokens/s in all, {decode:9,.0f} decoding, prompts {share:.0%} of the time"
    )
    return {"tokens_per_s": total, "decode_tokens_per_s": decode, "prefill_share": share}


def with_vllm(model: LlamaModel, asked: argparse.Namespace) -> dict[str, float]:
    """The same prompts through vLLM as it comes, without adapters and, as the others, without early stops."""
    from vllm import LLM, SamplingParams

    if not asked.model:
        sys.exit("vLLM takes its weights from a folder: give --model")
    theirs = LLM(
        str(find_model(asked.model)), dtype=str(model.dtype).removeprefix("torch."), max_model_len=1024
    )
    settings = SamplingParams(temperature=1.0, max_tokens=asked.new, ignore_eos=True)
    rates = []
    for repeat in range(asked.repeats + 1):
        prompts = [{"prompt_token_ids": list(r.prompt)} for r in make_requests(model, asked, repeat)]
        began = time.perf_counter()
        theirs.generate(prompts, settings, use_tqdm=False)
        rates.append(asked.new * asked.games / (time.perf_counter() - began))
    total = sorted(rates[1:])[len(rates[1:]) // 2]
    print(f"vllm          {total:9,.0f} tokens/s in all")
    return {"tokens_per_s": total}


def check(model: LlamaModel, asked: argparse.Namespace) -> dict[str, Any]:
    """Log-probabilities of the sampler beside those of hidden() and head(), over prompts and temperatures."""
    differences = []
    for temperature in (1.0, 0.7):
        sampler = make_sampler(model, asked, 1, temperature=temperature)
        requests = make_requests(model, asked, 7)
        for turn in range(max(asked.turns, 2)):
            completions = sampler.sample(requests)
            differences.append(_differences(model, requests, completions, temperature))
            requests = grown(requests, completions, turn)
    every = np.concatenate(differences)
    mean, most = float(np.abs(every).mean()), float(np.abs(every).max())
    tolerance = TOLERANCE[model.dtype]
    measured, value = ("largest", most) if model.dtype == torch.float32 else ("mean", mean)
    agrees = value <= tolerance
    print(
        f"{len(every):,} tokens: mean difference {mean:.2e}, largest {most:.2e}; "
        f"{'agrees' if agrees else 'DISAGREES'} within {tolerance:g} ({measured})"
    )
    return {"tokens": len(every), "mean": mean, "largest": most, "agrees": agrees}


@torch.no_grad()
def _differences(
    model: LlamaModel, requests: list[Request], completions: list[Completion], temperature: float
) -> Any:
    found = []
    for request, completion in zip(requests, completions, strict=True):
        tokens = torch.tensor([[*request.prompt, *completion.tokens]], device=model.device)
        positions, segments = whole_rows([tokens.shape[1]], model.device)
        hidden = model.hidden(tokens, positions, segments, adapter=request.adapter)
        logits = model.head(hidden[0, len(request.prompt) - 1 : -1], adapter=request.adapter)
        drawn = tokens[0, len(request.prompt) :, None]
        for ours, recorded in (
            (torch.log_softmax(logits / temperature, -1), completion.log_probs),
            (torch.log_softmax(logits, -1), completion.raw_log_probs),
        ):
            found.append(ours.gather(1, drawn)[:, 0].cpu().numpy() - recorded)
    return np.concatenate(found)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
