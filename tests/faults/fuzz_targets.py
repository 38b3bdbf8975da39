"""Fuzz targets: each takes bytes and raises only the errors that it documents.

`python tests/faults/fuzz_targets.py TARGET CASES [SEED]` mutates valid inputs and prints a line of JSON: cases,
accepted, refused, and the first that raised another error. With `atheris` before TARGET, atheris searches by coverage.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_LONGEST_CASE_S = 20.0
_INTERESTING = [0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]

Run = Callable[[bytes], bool]
"""True where the input was taken, False where it was refused as promised; raises where a promise is broken."""


@dataclass(frozen=True)
class Target:
    run: Run
    seeds: list[bytes]
    tokens: list[bytes] = field(default_factory=list)


class TookTooLong(BaseException):
    """Not an Exception, so that no target mistakes it for one of its own."""


def mutate(rng: random.Random, seeds: list[bytes], tokens: list[bytes], longest: int = 20_000) -> bytes:
    """A valid input with a few wounds."""
    data = bytearray(rng.choice(seeds))
    for _ in range(1 + int(rng.expovariate(0.7))):
        kind = rng.randrange(9)
        at = rng.randrange(len(data) + 1)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 2:
            data[at:at] = rng.randbytes(1 + rng.randrange(8))
        elif kind == 3:
            del data[at : at + 1 + rng.randrange(1 + len(data) // 4)]
        elif kind == 4:
            piece = data[at : at + 1 + rng.randrange(64)]
            data[at:at] = piece * (1 + rng.randrange(3))
        elif kind == 5:
            other = rng.choice(seeds)
            data[at:] = other[rng.randrange(len(other) + 1) :]
        elif kind == 6:
            del data[at:]
        elif kind == 7 and len(data) >= 4:
            number = rng.choice([*_INTERESTING, len(data), rng.randrange(1 << 32)])
            at = min(at, len(data) - 4)
            data[at : at + 4] = struct.pack(rng.choice("<>") + "I", number)
        elif tokens:
            token = rng.choice(tokens)
            data[at : at + rng.choice([0, 0, len(token), rng.randrange(12)])] = token
    return bytes(data[:longest])


def _scratch() -> Path:
    """A folder in memory, gone with the process."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="ludus-fuzz-", dir=base)
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


_YAML_TOKENS = [
    *(
        b"!!python/object/apply:os.system",
        b"&a ",
        b"*a",
        b"<<: *a",
        b"- ",
        b": ",
        b"{",
        b"}",
        b"[",
        b"]",
        b"null",
        b"~",
    ),
    *(
        b"1e400",
        b"-1",
        b"0",
        b".inf",
        b".nan",
        b"0x7fffffffffffffffff",
        b"1_000",
        b"\n",
        b"\t",
        b"'",
        b'"',
        b"true",
    ),
    *(
        b"env:",
        b"hyperparams:",
        b"policy:",
        b"algorithm: ",
        b"language: {model: tiny}",
        b"games:",
        b"league: {}",
    ),
    *(
        b"rewards:",
        b"scale: auto",
        b"mirror: file:///x",
        b'total_timesteps: "5 min"',
        b"n_envs: ",
        b"../../x",
        b"\x1b[2J",
    ),
    *(
        b"learning_rate: {linear: [1, 0]}",
        "é\u2028\U0001f600".encode(),
        b"%YAML 1.1",
        b"---",
        b"...",
        b"? ",
        b"!!binary ",
    ),
    *(b">-\n", b"# ", b"resume: auto", b"sweep: {}", b"{a: {b: {c: [[[[]]]]}}}", b"9" * 24, b"9" * 5_000),
    b"env: {id: CartPole-v1, wrappers: [x:y]}",
]


def _config(name: str, seeds: list[bytes], tokens: list[bytes], *overrides: str) -> Target:
    from ludus.config.loading import dump_yaml, load_config
    from ludus.errors import UserError

    path = _scratch() / name

    def run(data: bytes) -> bool:
        path.write_bytes(data)
        try:
            loaded = load_config(path, overrides)
        except UserError as error:
            return not str(error)
        dump_yaml(loaded.config)
        return True

    return Target(run, seeds, tokens)


def yaml_config() -> Target:
    files = [*(_ROOT / "configs").glob("*.yaml"), *(_ROOT / "tests/data/pipeline").glob("*.yaml")]
    seeds = [path.read_bytes() for path in sorted(files)]
    # a line at a time reaches further than a whole file, most wounds of which are fatal
    seeds += [b"env: CartPole-v1\n" + line for seed in seeds for line in seed.split(b"\n") if b":" in line]
    return _config("config.yaml", seeds, _YAML_TOKENS)


def foreign_config() -> Target:
    zoo = (_ROOT / "tests/data/zoo/ppo.yml").read_bytes().split(b"\n\n")
    blocks = [block.partition(b":\n")[2] for block in zoo if 20 < len(block) < 2_000]
    seeds = [b"CartPole-v1:\n" + block.replace(b"!!float ", b"") for block in blocks][:20]
    seeds += [(_ROOT / "tests/data/diambra/settings.yaml").read_bytes()]
    return _config("ppo.yml", seeds, _YAML_TOKENS, "env=CartPole-v1")


def python_config() -> Target:
    seeds = [
        b"settings = {'game_id': 'doapp', 'action_space': 'discrete'}\nenv_settings = {'env_num': 1}\n"
        b"ppo_settings = {'n_steps': 8, 'policy_kwargs': {'net_arch': [64, 64]}, 'learning_rate': [1e-4, 1e-5]}\n",
        b"class A:\n    game_id = 'x'\n\nsettings = {'game_id': A.game_id}\nppo_settings = {'n_steps': 8 * 4}\n",
    ]
    tokens = [
        b"import os\n",
        b"os.system('x')",
        b"lambda: 0",
        b"2 ** 9 ** 9",
        b"'x' * 10 ** 9",
        b"[",
        b"(",
        b"{",
        b"\\N{x}",
        b"f'{x}'",
        b"-" * 300,
        b"(" * 300,
        b"None",
        b"1j",
        b"...",
        b"dict(a=1)",
        b"\x00",
        b"# -*- coding: x -*-\n",
    ]
    return _config("config.py", seeds, tokens)


def override() -> Target:
    from ludus.config.loading import load_config
    from ludus.errors import UserError

    seeds = [
        b"seed=1",
        b"env.id=CartPole-v1",
        b"hyperparams.learning_rate={linear: [1e-3, 0]}",
        b"n_envs=8",
        b"total_timesteps=5 min",
        b"policy.activation=ReLU",
        b"checkpoint.every=100 updates",
        b"env={id: x}",
    ]

    def run(data: bytes) -> bool:
        try:
            load_config(None, [data.decode("utf-8", "surrogateescape")])
        except UserError:
            return False
        return True

    return Target(run, seeds, _YAML_TOKENS)


def checkpoint() -> Target:
    """Byte 0 says which file of a checkpoint is replaced by the rest, and whether the manifest is made to fit."""
    import safetensors.torch
    import torch

    from ludus.errors import UserError
    from ludus.runs.checkpoints import CheckpointManager
    from ludus.runs.directory import RunDirectory

    run = RunDirectory.create(_scratch(), "CartPole-v1", "PPO", "fuzzed")
    store = CheckpointManager(run.checkpoints_dir)
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.int64)}
    saved = store.save(8, {"policy": tensors}, {"steps": 8, "rng": [1, 2.5, None], "deep": {"a": {"b": []}}})
    store.mark_best(saved, "eval/mean_reward", 1.0)
    store.pin(8)
    files = [
        saved.path / "policy.safetensors",
        saved.path / "state.json",
        saved.path / "MANIFEST.json",
        run.checkpoints_dir / "best.json",
        run.checkpoints_dir / "pins.json",
        run.checkpoints_dir / "latest.json",
        run.info_path,
    ]
    looks: list[Callable[[], Any]] = [
        lambda: store.find(8).tensors("policy"),
        lambda: store.find(8).state(),
        store.newest_intact,
        lambda: (store.best(), store.find("best")),
        lambda: store.unpin(8),
        lambda: (store.latest(), store.prune()),
        run.info,
    ]
    whole = [path.read_bytes() for path in files]
    unsealed = json.loads(whole[2])
    for key in list(unsealed):
        if key == "sha256":
            del unsealed[key]

    def attack(data: bytes) -> bool:
        which = data[0] % len(files) if data else 0
        content = data[1:]
        files[which].write_bytes(content)
        if which < 2 and data[:1] > b"\x7f":  # an attacker makes the manifest fit
            entry = unsealed["files"][files[which].name]
            before = dict(entry)
            entry.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
            files[2].write_text(json.dumps(unsealed))
            entry.update(before)
        try:
            looks[which]()
        except UserError:
            return False
        finally:
            files[which].write_bytes(whole[which])
            if which < 2:
                files[2].write_bytes(whole[2])
        return True

    header = safetensors.torch.save({"x": torch.zeros(1)})
    seeds = [bytes([which + flag]) + content for which, content in enumerate(whole) for flag in (0, 126)]
    seeds += [bytes([133]) + header, bytes([134]) + b"{}"]  # with a manifest that fits
    tokens = [
        b'{"__float__": "nan"}',
        b"NaN",
        b'"format": 9',
        b"[" * 500,
        b'{"a":' * 500,
        b'"step": -1',
        b"9" * 5_000,
        b'"../../x": {"size": 1, "sha256": ""}',
        b'"dtype":"F64"',
        b'"shape":[9223372036854775807,2]',
        b'"data_offsets":[0,18446744073709551615]',
        b'"shape":[-1]',
        b"\x00" * 8,
        b"\xff" * 8,
        b"null",
        b"1e999",
    ]
    return Target(attack, seeds, tokens)


def cdr() -> Target:
    """Byte 0 says of which message the rest is."""
    from ludus.games.unity.cdr import CdrError, compile_messages
    from ludus.games.unity.use_case import load_use_case

    cases = json.loads((_ROOT / "tests/data/unity/cdr.json").read_text("utf-8"))
    codecs, seeds = [], []
    for number, case in enumerate(cases):
        described = case.get("described") or load_use_case(case["source"]).messages
        codecs.append(compile_messages(described)[case["message"]])
        seeds.append(bytes([number]) + bytes.fromhex(case["bytes"]))

    def run(data: bytes) -> bool:
        codec = codecs[data[0] % len(codecs)] if data else codecs[0]
        try:
            message = codec.decode(data[1:])
        except CdrError:
            return False
        codec.encode(message)
        return True

    return Target(
        run, seeds, [b"\xff\xff\xff\xff", b"\x00\x01\x00\x00", b"\x00\x00\x00\x80", b"\x01\x00\x00\x00\x00"]
    )


def frames() -> Target:
    from ludus.games.unity.frames import FrameError, FrameParser, pack_command, pack_frame

    def run(data: bytes) -> bool:
        parser = FrameParser(longest=1 << 16)
        try:
            for at in range(0, len(data), 1 + len(data) // 3):
                for frame in parser.feed(data[at : at + 1 + len(data) // 3]):
                    frame.text()
                    with contextlib.suppress(FrameError):
                        frame.json()
        except FrameError:
            return False
        return True

    seeds = [
        pack_frame("topic", b"payload"),
        pack_command("__handshake", {"version": "v0.7.0", "metadata": "{}"}),
        pack_frame(""),
        pack_frame("__log", b'{"text": "x"}'),
        pack_frame("a", b"1") + pack_frame("b", b"2" * 40),
    ]
    return Target(
        run,
        seeds,
        [b"\xff\xff\xff\xff", b"__request", b'{"text":', b"[" * 400, b"\x00\x00\x00\x00", b"__log"],
    )


def action() -> Target:
    """Fuzz the answer of a model: every extraction, then the parser of every game."""
    from ludus.games.board.codecs import GAMES, codec_for
    from ludus.language.text_games.extraction import make_extractor

    extractors = [make_extractor(name) for name in ("brackets", "boxed", "last-line", "whole")]
    extractors.append(make_extractor({"regex": r"move:\s*(\w+)?"}))
    readers = [codec for codec in map(codec_for, GAMES) if codec is not None]

    def run(data: bytes) -> bool:
        text = data.decode("utf-8", "surrogateescape")
        taken = False
        for extract in extractors:
            found, well_formed = extract(text)
            assert isinstance(found, str) and isinstance(well_formed, bool)
            for codec in readers:
                index = codec.index(found)
                assert index is None or 0 <= index < codec.rules.n_actions
                taken |= index is not None
        return taken

    seeds = [
        b"I think [4] is best",
        b"<think>[1]</think>\\boxed{[col 3]}",
        b"[1 2]",
        b"[bet]",
        b"move: 5\nmove: 6",
        b"\\boxed{\\boxed{3}}",
        b"[ 7 ]",
        b"[col   2]",
        "[٣]".encode(),
        b"7",
    ]
    tokens = [
        b"</think>",
        b"\\boxed{",
        b"[",
        b"]",
        b"}",
        b"9" * 5_000,
        "４".encode(),
        b"\x00",
        b"\r\n",
        b"[fold]",
        b"[col ",
        b" " * 200,
        b"\xff\xfe",
        "\u2028".encode(),
        b"move:",
    ]
    return Target(run, seeds, tokens)


def table() -> Target:
    """The same answers, played at TextArena's own tables; byte 0 says at which."""
    from ludus.config.language import GameSpec
    from ludus.envs.seats import GameFault
    from ludus.language.text_games.arena import ArenaTable

    games = [("TicTacToe-v0", 2), ("KuhnPoker-v0", 2), ("Nim-v0", 2), ("ConnectFour-v0", 2)]

    def run(data: bytes) -> bool:
        game, players = games[data[0] % len(games)] if data else games[0]
        try:
            opened = ArenaTable(GameSpec(id=game), players, seed=1)
            for part in data[1:].split(b"\x1e")[:4]:
                if opened.over:
                    break
                opened.play(part.decode("utf-8", "surrogateescape"))
        except GameFault:  # counted, and the match dropped
            return False
        return True

    base = action()
    return Target(
        run, [bytes([at % 4]) + seed for at, seed in enumerate(base.seeds)], [*base.tokens, b"\x1e"]
    )


def template() -> Target:
    """Byte 0 says whether the rest is a template, or what a game shows."""
    from ludus.envs.seats import Observed
    from ludus.errors import ConfigError
    from ludus.language.text_games.templates import make_template

    class Plain:
        def chat(self, messages: Any) -> str | None:
            return None if len(messages) > 1 else json.dumps(messages)

    shipped = [
        make_template(n) for n in ("default", "chat", "qwen3", "qwen3-reasoning", "gemma3", "llama-instruct")
    ]

    def run(data: bytes) -> bool:
        text = data[1:].decode("utf-8", "surrogateescape")
        observed = Observed(text, "board", "rules", 0, "pos")
        if data[:1] > b"\x7f":
            kind = ("prompt", "chat", "name", "system")[data[0] % 4]
            try:
                made = make_template(
                    {kind: text} if kind in ("prompt", "chat") else {"chat": "{board}", kind: text}
                )
            except ConfigError:
                return False
            assert make_template(made.as_dict()) == made
            made.render(observed, Plain())
            return True
        for made in shipped:
            prompt = made.render(observed, Plain())
            # what a game shows is shown, never filled in again
            assert made.chat or text.strip("\n") in prompt
        return True

    seeds = [
        b"\x00{observation}{board} plain",
        b"\x80Board: {board}\nYou are {seat}.",
        b"\x81{observation} {{}}",
        b"\x00Player 1: {system}",
        b"\x83Be brief.",
    ]
    return Target(
        run,
        seeds,
        [b"{observation}", b"{board}", b"{position}", b"{0}", b"{x!r}", b"{", b"}", b"%s", b"\\g<1>"],
    )


def metrics() -> Target:
    from ludus.reports.reading import read_metrics, summarize
    from ludus.runs.directory import RunDirectory
    from ludus.tracking.jsonl import read_jsonl

    run = RunDirectory.create(_scratch(), "CartPole-v1", "PPO", "fuzzed")
    name = str(run.metrics_path)

    def look(data: bytes) -> bool:
        with open(name, "wb") as file:
            file.write(data)
        found = read_metrics(run, max_points=8)
        summarize(run)
        list(read_jsonl(run.metrics_path))
        return not found.damaged

    row = b'{"step": 2048, "time/seconds": 1.5, "rollout/ep_rew_mean": 21.5, "time/fps": 9000, "eval/x": null}\n'
    tokens = [
        b'{"step": 1e400}\n',
        b"[" * 600,
        b"9" * 5_000,
        b'{"step": -1, "a": 1}\n',
        b"NaN",
        b"\n",
        b'"step": true',
        b'"a": {}',
        b"\xff",
        b'{"step": 18446744073709551616, "a": 2}\n',
        b"null\n",
        b'{"": 0, "step": 0}\n',
    ]
    return Target(look, [row * 3, row + row.replace(b"2048", b"4096")], tokens)


def sb3_zip() -> Target:
    import torch

    from ludus.errors import UserError
    from ludus.sb3.import_zip import read_sb3_zip

    path = _scratch() / "model.zip"

    def packed(method: int, weights: dict[str, Any]) -> bytes:
        buffer, inner = io.BytesIO(), io.BytesIO()
        torch.save(weights, inner)
        with zipfile.ZipFile(buffer, "w", method) as archive:
            data = {"policy_class": {":serialized:": "gASV"}, "num_timesteps": 8, "gamma": 0.99, "n_steps": 8}
            archive.writestr("data", json.dumps(data))
            archive.writestr("policy.pth", inner.getvalue())
            archive.writestr("system_info.txt", "x")
        return buffer.getvalue()

    weights = {
        f"mlp_extractor.policy_net.0.{n}": torch.zeros(s) for n, s in (("weight", (4, 4)), ("bias", (4,)))
    }
    seeds = [packed(zipfile.ZIP_STORED, weights), packed(zipfile.ZIP_DEFLATED, weights)]

    def run(data: bytes) -> bool:
        path.write_bytes(data)
        try:
            read_sb3_zip(path, "PPO")
        except UserError:
            return False
        return True

    return Target(
        run, seeds, [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x80\x04", b"cos\nsystem\n", b"../../x"]
    )


def adapter() -> Target:
    import safetensors.torch
    import torch

    from ludus.errors import UserError
    from ludus.language.models.peft_files import read_peft

    path = _scratch() / "adapter.zip"

    def packed(method: int) -> bytes:
        buffer = io.BytesIO()
        stem = "base_model.model.model.layers.0.self_attn.q_proj"
        tensors = {f"{stem}.lora_A.weight": torch.ones(2, 4), f"{stem}.lora_B.weight": torch.ones(4, 2)}
        with zipfile.ZipFile(buffer, "w", method) as archive:
            archive.writestr(
                "adapter_config.json", json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4})
            )
            archive.writestr("adapter_model.safetensors", safetensors.torch.save(tensors))
        return buffer.getvalue()

    def run(data: bytes) -> bool:
        path.write_bytes(data)
        try:
            read_peft(path)
        except UserError:
            return False
        return True

    seeds = [packed(zipfile.ZIP_STORED), packed(zipfile.ZIP_DEFLATED)]
    return Target(
        run,
        seeds,
        [b"PK\x03\x04", b"PK\x01\x02", b'"r": 1e9', b"\xff\xff\xff\xff", b'"shape":[9999999999,4]'],
    )


TARGETS: dict[str, Callable[[], Target]] = {
    "config: YAML": yaml_config,
    "config: foreign YAML": foreign_config,
    "config: Python": python_config,
    "config: key=value": override,
    "checkpoint reader": checkpoint,
    "CDR codec": cdr,
    "frames of simulators": frames,
    "action parser": action,
    "TextArena's tables": table,
    "prompt templates": template,
    "metrics reader": metrics,
    "zip of Stable-Baselines3": sb3_zip,
    "adapter": adapter,
}


def fuzz(target: Target, cases: int, seed: int) -> dict[str, Any]:
    """Mutate `cases` inputs; report the first one that raises an unexpected error, with its traceback."""
    rng = random.Random(seed)
    accepted, broken, slowest = 0, [], 0.0
    previous = signal.signal(signal.SIGALRM, _too_long)
    try:
        for number in range(cases):
            data = mutate(rng, target.seeds, target.tokens)
            began = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, _LONGEST_CASE_S)
            try:
                accepted += target.run(data)
            except (Exception, TookTooLong) as error:
                where = "".join(traceback.format_exception(error)[-6:])
                broken.append({"case": number, "data": data[:2_000].hex(), "error": where})
                if len(broken) >= 10:
                    cases = number + 1
                    break
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            slowest = max(slowest, time.perf_counter() - began)
    finally:
        signal.signal(signal.SIGALRM, previous)
    refused = cases - accepted - len(broken)
    return {"cases": cases, "accepted": accepted, "refused": refused, "broken": broken, "slowest_s": slowest}


def _too_long(signum: int, frame: Any) -> None:
    raise TookTooLong(f"a case of more than {_LONGEST_CASE_S:.0f} s")


def fuzz_by_coverage(name: str, cases: int, seed: int) -> None:
    """Let atheris choose the inputs; its exit code is not zero where one broke the promise."""
    import atheris

    with atheris.instrument_imports(include=["ludus"], exclude=["ludus.algorithms", "ludus.experiments"]):
        target = TARGETS[name]()
    corpus = _scratch()
    for number, content in enumerate(target.seeds[:200]):
        (corpus / str(number)).write_bytes(content)
    words = corpus.with_suffix(".dict")
    words.write_text("".join(f'"{_escaped(token[:60])}"\n' for token in target.tokens if token))
    options = [
        f"-runs={cases}",
        f"-seed={seed}",
        "-max_len=8192",
        f"-timeout={_LONGEST_CASE_S:.0f}",
        "-verbosity=1",
    ]
    options += [f"-dict={words}", "-artifact_prefix=" + tempfile.gettempdir() + "/ludus-fuzz-"]

    def one(data: bytes) -> None:
        target.run(data)

    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


def main(arguments: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if arguments[0] == "atheris":
        fuzz_by_coverage(arguments[1], int(arguments[2]), int(arguments[3]) if arguments[3:] else 1)
        return
    seed = int(arguments[2]) if arguments[2:] else 1
    print(json.dumps(fuzz(TARGETS[arguments[0]](), int(arguments[1]), seed)))


if __name__ == "__main__":
    main(sys.argv[1:])
