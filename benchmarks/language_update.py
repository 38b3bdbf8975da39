"""Updates of the language learners: tokens per second and memory, with drawn weights in the shape of SmolLM2-135M.

    python benchmarks/language_update.py [--device cuda] [--algorithm PPO GRPO] [--tokens-per-step 16384 65536] [--json]
    python benchmarks/language_update.py --check      # does this device learn what a CPU learns?
    python benchmarks/language_update.py --mixed [--model tiny gpt2]    # one long turn among short ones

A row is `learner.update` on turns that were made up: credit, packing and transfers included, the median of --repeats.
Tokens are counted once, prompts included, however many passes an algorithm makes over them. `--mixed` learns from 150
turns of 40 tokens and one of 2,000 in one pass, and from either alone, each in a process of its own: seconds (on a CPU
those of the processor), and the memory that the update takes at its peak.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from sampling import SMOLLM2  # the benchmark beside this one

from ludus.config.language import AdapterConfig, LanguageConfig, RewardsConfig
from ludus.config.registry import find_algorithm
from ludus.language.algorithms.learner import LanguageContext, LanguageLearner
from ludus.language.models.foreign import ForeignModel
from ludus.language.models.llama import LlamaModel
from ludus.language.models.model import LanguageModel
from ludus.language.models.models import tiny
from ludus.language.models.tokenizer import ByteTokenizer
from ludus.language.turns import Turn, Turns
from ludus.league.records import MatchRecord
from ludus.runs.streams import Streams


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--algorithm", nargs="+", default=["REINFORCE", "A2C", "PPO", "GRPO"])
    parser.add_argument("--tokens-per-step", type=int, nargs="+", default=[16_384])
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing")
    parser.add_argument("--turns", type=int, default=256)
    parser.add_argument("--prompt", type=int, nargs=2, default=(150, 350), help="shortest and longest")
    parser.add_argument("--new", type=int, nargs=2, default=(4, 64), help="shortest and longest completion")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--model", nargs="+", choices=list(MIXED), default=["tiny"], help="of --mixed")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    if asked.check:
        for algorithm in asked.algorithm:
            print(
                f"{algorithm}: largest difference of a weight from a CPU's {difference(algorithm, device):.1e}"
            )
        return
    if asked.mixed:
        for model in asked.model:
            compare_mixed(model, asked)
        return
    rows = [
        measure(algorithm, tokens, device, asked)
        for algorithm in asked.algorithm
        for tokens in asked.tokens_per_step
    ]
    for row in rows:
        print(
            f"{row['algorithm']:9}  {row['tokens_per_step']:6} tokens a pass  {row['seconds']:7.3f} s  "
            f"{row['tokens_per_second']:9,.0f} tokens/s  {row['gib']:5.1f} GiB"
        )
    if asked.json:
        print(json.dumps(rows))


def measure(algorithm: str, tokens_per_step: int, device: torch.device, asked: Any) -> dict[str, Any]:
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = LlamaModel(SMOLLM2, ByteTokenizer()).to(dtype)
    model.tokenizer.vocab_size = SMOLLM2.vocab
    model.base.draw(torch.Generator().manual_seed(0))
    model.to(device).add_adapter("learner", AdapterConfig(rank=32))
    settings = {"tokens_per_step": tokens_per_step, "gradient_checkpointing": asked.checkpointing}
    learner = make(algorithm, model, settings, asked.new[1], device)
    turns = made_up(asked.turns, asked.prompt, asked.new, SMOLLM2.vocab)
    seconds = []
    for repeat in range(asked.repeats + 1):
        if repeat == 1 and device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for turn in turns.turns:
            turn.version = learner.version("learner")
        began = time.perf_counter()
        learner.update(turns, 0.0)
        seconds.append(time.perf_counter() - began)
    median = float(np.median(seconds[1:]))
    tokens = sum(len(turn.prompt) + len(turn.completion) for turn in turns.turns)
    return {
        "algorithm": algorithm,
        "tokens_per_step": tokens_per_step,
        "seconds": median,
        "tokens_per_second": tokens / median,
        "gib": torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else float("nan"),
    }


def compare_mixed(model: str, asked: Any) -> None:
    """Print what one update costs for short turns, for a long one, and for both together."""
    found = {}
    for case in ("short", "long", "mixed"):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            found[case] = fresh.submit(measure_case, model, case, asked).result()
        print(f"{model:5} {case:5}  {found[case][0]:7.3f} s  {found[case][1]:8.1f} MiB", flush=True)
    apart = found["short"][0] + found["long"][0], max(found["short"][1], found["long"][1])
    times, memory = (mixed / part for mixed, part in zip(found["mixed"], apart, strict=True))
    added = found["mixed"][1] / (found["short"][1] + found["long"][1])
    print(
        f"{model:5} mixed / apart: {times:.2f} of the time; memory {memory:.2f} of the larger, {added:.2f} of the sum"
    )


def measure_case(model: str, case: str, asked: Any) -> tuple[float, float]:
    """Seconds of one update after a first one (median), and MiB that updates take at their peak."""
    device = torch.device(asked.device)
    turns = made_up(151, (36, 36), (4, 4), 256)
    del turns.turns[151:]
    turns.turns[0].prompt = tuple(i % 256 for i in range(1_996))
    turns.turns = {"short": turns.turns[1:], "long": turns.turns[:1], "mixed": turns.turns}[case]
    made = MIXED[model]().to(device=device, dtype=torch.bfloat16 if device.type == "cuda" else torch.float32)
    made.add_adapter("learner", AdapterConfig(rank=8))
    settings = {"tokens_per_step": asked.tokens_per_step[0], "gradient_checkpointing": asked.checkpointing}
    learner = make("REINFORCE", made, settings, 4, device, mini_batch_size=256)
    learner.transforms.sampling.clear()
    seconds = []
    before = _memory(device)
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    for _ in range(asked.repeats + 1):
        for turn in turns.turns:
            turn.version = learner.version("learner")
        began = clock()
        learner.update(turns, 0.0)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(clock() - began)
    return float(np.median(seconds[1:])), (_memory(device) - before) / 2**20


def _memory(device: torch.device) -> int:
    """Return the most bytes that this process has used so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _tiny() -> LanguageModel:
    return tiny({"layers": 4, "hidden": 256, "heads": 4}, torch.Generator().manual_seed(0))


def _gpt2() -> LanguageModel:
    """A family that runs through transformers, with drawn weights."""
    from transformers import AutoModelForCausalLM, GPT2Config

    sizes = GPT2Config(
        vocab_size=259, n_embd=256, n_layer=4, n_head=4, n_positions=2048, bos_token_id=256, eos_token_id=258
    )
    torch.manual_seed(0)
    return ForeignModel(AutoModelForCausalLM.from_config(sizes).eval(), ByteTokenizer())


MIXED = {"tiny": _tiny, "gpt2": _gpt2}


def difference(algorithm: str, device: torch.device) -> float:
    """How far weights are apart after three updates of a tiny model in float32, here and on a CPU."""
    found = []
    for where in (torch.device("cpu"), device):
        model = tiny({"layers": 2, "hidden": 32, "heads": 2}, torch.Generator().manual_seed(0)).to(where)
        model.add_adapter("learner", None)
        torch.manual_seed(0)
        learner = make(algorithm, model, {"tokens_per_step": 500}, 8, where, learning_rate=1e-3, kl_coef=0.1)
        for seed in range(3):
            learner.update(made_up(48, (5, 40), (1, 8), 256, seed, learner.version("learner")), 0.0)
        found.append([weight.detach().cpu() for weight in model.trainable("learner")])
    return max(float((a - b).abs().max()) for a, b in zip(*found, strict=True))


def make(
    algorithm: str,
    model: LanguageModel,
    settings: dict[str, Any],
    longest: int,
    device: torch.device,
    **hyperparams: Any,
) -> LanguageLearner[Any]:
    entry = find_algorithm(algorithm, "language")
    assert entry.hyperparameters is not None and entry.learner is not None
    place = LanguageContext(
        model=model,
        language=LanguageConfig(sampler={"max_new_tokens": longest}, **settings),
        rewards=RewardsConfig(),
        learners=("learner",),
        device=device,
        streams=Streams(0),
    )
    made: LanguageLearner[Any] = entry.learner(place, entry.hyperparameters(**hyperparams))
    return made


def made_up(
    n: int, prompt: tuple[int, int], new: tuple[int, int], vocab: int, seed: int = 0, version: int = 0
) -> Turns:
    """Matches of four turns between two seats, of random tokens."""
    rng = np.random.default_rng(seed)
    matches = []
    for number in range(-(-n // 4)):
        turns = []
        for index in range(4):
            length = int(rng.integers(new[0], new[1] + 1))
            log_probs = np.full(length, -np.log(vocab), np.float32)
            turns.append(
                Turn(
                    game="TicTacToe-v0",
                    match=number,
                    seat=index % 2,
                    index=index,
                    player="learner",
                    version=version,
                    prompt=tuple(
                        rng.integers(0, vocab, int(rng.integers(prompt[0], prompt[1] + 1))).tolist()
                    ),
                    completion=tuple(rng.integers(0, vocab, length).tolist()),
                    log_probs=log_probs,
                    raw_log_probs=log_probs,
                    observation="",
                    text="",
                    action="[4]",
                )
            )
        rewards = (float(rng.normal()), float(rng.normal()))
        matches.append(
            MatchRecord(
                match=number,
                game="TicTacToe-v0",
                seed=number,
                players=("learner", "learner"),
                rewards=rewards,
                reason="",
                invalid=(False, False),
                cut_off=False,
                length=4,
                moves=[(turn.seat, turn.action) for turn in turns],
                turns=turns,
            )
        )
    every = [turn for match in matches for turn in match.turns]
    return Turns(steps=len(every), episodes=[], turns=every, matches=matches)


if __name__ == "__main__":
    main()
