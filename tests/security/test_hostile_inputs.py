"""Configs, zips, mirrors, models and adapters of other people: no code runs, nothing outside is read or written."""

from __future__ import annotations

import io
import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hostile_runs import lying_safetensors, pickles
from safetensors.torch import save as to_safetensors
from watchtower import SECRET, Watch

from ludus.runs.mirror.inventory import Identity, Inventory, Stored

pytest.importorskip("stable_baselines3")


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return Watch(tmp_path)


def refused(watch: Watch, *words: str) -> str:
    """Return the output of a command that must refuse its input in three lines."""
    code, said = watch.run(*words)
    assert code == 2, (code, said[-1_500:])
    assert "\x1b" not in said
    return said


# Configs


def _bomb(times: int = 12) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    return "\n".join(lines + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, times)])


CONFIGS: dict[str, str] = {
    "a tag": "env: !!python/object/apply:os.mkdir ['{mark}']\n",
    "a tag in a key": "? !!python/object/apply:os.mkdir ['{mark}']\n: 1\n",
    "a tag of one's own": "env: !evil {{id: CartPole-v1}}\n",
    "aliases that unfold": _bomb().replace("{", "{{").replace("}", "}}"),
    "aliases in themselves": "env: &a {{id: x, kwargs: *a}}\n",
    "nesting without end": "env: " + "[" * 50_000,
    "megabytes": "name: " + "x" * 3_000_000,
    "an env module that is not there": "env: nowhere_at_all:Evil-v0\nalgorithm: PPO\n",
    "a wrapper that is a function": "env: {{id: CartPole-v1, wrappers: [{{'os:mkdir': {{path: '{mark}'}}}}]}}\n",
    "an extractor that is a function": "env: CartPole-v1\npolicy: {{features_extractor: 'os:mkdir'}}\n",
    "commands to the terminal": 'env: CartPole-v1\n"\\e[2J\\a": 1\n',
    "a network no memory holds": (
        "env: CartPole-v1\nn_envs: 1\nhyperparams: {{policy_net_arch: [1000000000, 1000000000]}}\n"
    ),
    "more envs than there could be": "env: CartPole-v1\nn_envs: 1000000000000\n",
}
_COMMANDS = {
    "train": ["train", "evil.yaml", "-q"],
    "config": ["config", "evil.yaml"],
    "convert": ["convert", "evil.yaml"],
    "sweep": ["sweep", "evil.yaml", "--trials", "1", "--steps", "64", "-q"],
    "compare": ["compare", "evil.yaml", "--seeds", "1", "--steps", "64", "-q"],
    "play": ["play", "evil.yaml"],
}


@pytest.mark.parametrize("attack", CONFIGS)
def test_a_config_is_refused_by_training(attack: str, watch: Watch) -> None:
    Path("evil.yaml").write_text(CONFIGS[attack].format(mark=watch.mark, outside=watch.outside))
    refused(watch, *_COMMANDS["train"])
    assert not Path("runs").exists()


@pytest.mark.faults
@pytest.mark.parametrize("command", [name for name in _COMMANDS if name != "train"])
def test_a_config_does_no_harm_elsewhere(
    command: str, watch: Watch, record_fault: Callable[..., None]
) -> None:
    watch.may = ("subprocess.Popen",) if command in ("sweep", "compare") else ()
    for attack, text in CONFIGS.items():
        Path("evil.yaml").write_text(text.format(mark=watch.mark, outside=watch.outside))
        code, said = watch.run(*_COMMANDS[command])
        assert code in (0, 1, 2), (attack, code, said[-1_000:])
    record_fault("hostile config: code run, or files outside touched", len(CONFIGS), len(CONFIGS))


@pytest.mark.parametrize("name", ["../../outside/x", "..", "\\..\\x"])
def test_names_of_runs_stay_in_their_folder(name: str, watch: Watch) -> None:
    before = {path for path in watch.here.iterdir()}
    watch.run("train", "--algo", "a2c", "--env", "CartPole-v1", "--steps", "16", f"name={json.dumps(name)}", "-q",
              "n_envs=1", "kernels=false", "evaluation.every=null", "tracking.tensorboard=false")  # fmt: skip
    assert {path.name for path in watch.here.iterdir()} - {path.name for path in before} <= {"runs"}
    assert all(path.resolve().is_relative_to(watch.here / "runs") for path in Path("runs").rglob("*"))


# Zips of Stable-Baselines3


def _zip(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _zips(mark: Path) -> dict[str, bytes]:
    data = json.dumps({"policy_class": {":serialized:": "gASV"}, "num_timesteps": 8}).encode()
    buffer = io.BytesIO()
    torch.save({"a": torch.zeros(2)}, buffer)
    weights = buffer.getvalue()
    found = {
        f"weights: {kind}": _zip({"data": data, "policy.pth": content})
        for kind, content in pickles(mark).items()
    }
    import base64
    import pickle

    from hostile_runs import Evil

    payload = base64.b64encode(pickle.dumps(Evil(mark))).decode()
    serialized = {
        key: {":type:": "x", ":serialized:": payload} for key in ("policy_class", "observation_space", "lr")
    }
    return found | {
        "settings: pickle": _zip({"data": json.dumps(serialized).encode(), "policy.pth": weights}),
        "settings: nested deeply": _zip({"data": b"[" * 100_000, "policy.pth": weights}),
        "names that slip": _zip(
            {"../../outside/secret.txt": b"x", "/etc/x": b"x", "data": data, "policy.pth": weights}
        ),
        "it unfolds to many times its size": _zip(
            {"data": b" " * (300 << 20), "policy.pth": weights}, zipfile.ZIP_DEFLATED
        ),
        "no zip": pickles(mark)["pickle, protocol 4"],
    }


@pytest.mark.faults
def test_no_zip_of_stable_baselines_runs_code(watch: Watch, record_fault: Callable[..., None]) -> None:
    zips = _zips(watch.mark)
    for content in zips.values():
        Path("evil.zip").write_bytes(content)
        refused(watch, "import", "evil.zip", "--env", "CartPole-v1")
        refused(watch, "import", "evil.zip", "--env", "CartPole-v1", "--trust")
        refused(watch, "eval", "evil.zip")
    assert not Path("runs").exists()
    record_fault(
        "hostile zip of Stable-Baselines3: code run, or files outside touched", 3 * len(zips), 3 * len(zips)
    )


def test_a_pickle_in_a_zip_of_stable_baselines_is_refused(watch: Watch) -> None:
    evil = pickles(watch.mark)["torch.save"]
    Path("evil.zip").write_bytes(
        _zip({"data": b'{"policy_class": {":serialized:": "gASV"}}', "policy.pth": evil})
    )
    refused(watch, "import", "evil.zip", "--env", "CartPole-v1", "--trust")


def test_statistics_that_are_pickled_are_read_only_with_a_word(watch: Watch) -> None:
    Path("evil.zip").write_bytes(_zip({"data": b"{}", "policy.pth": pickles(watch.mark)["torch.save"]}))
    Path("evil_vecnormalize.pkl").write_bytes(pickles(watch.mark)["pickle, protocol 4"])
    refused(watch, "import", "evil.zip", "--env", "CartPole-v1", "--vecnormalize", "evil_vecnormalize.pkl")


# Mirrors


def _mirror(place: Path, files: dict[str, Stored]) -> None:
    place.mkdir()
    identity = Identity("../../outside/x", "../..", "..", "2026-01-01T00:00:00+00:00")
    inventory = Inventory(identity, files, whole=True, written="2026-01-01T00:00:00+00:00")
    (place / "MIRROR.json").write_text(inventory.as_json())


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "/etc/evil",
        "a/../../outside/x",
        "..",
        "",
        "a\\..\\b",
        ".ssh/keys",
        "run.lock",
        "a//b",
    ],
)
def test_no_path_in_a_mirror_leads_out(path: str, watch: Watch) -> None:
    import hashlib

    content = b"evil"
    stored = Stored("blob", len(content), hashlib.sha256(content).hexdigest())
    _mirror(Path("mirror"), {path: stored})
    Path("mirror/blob").write_bytes(content)
    refused(watch, "pull", f"file://{watch.here}/mirror")
    assert not any(
        path.read_bytes() == content
        for path in Path().rglob("*")
        if path.is_file() and path.parent.name != "mirror"
    )


@pytest.mark.parametrize("name", ["../outside/secret.txt", "/etc/hostname", "link"])
def test_no_file_name_in_a_mirror_leads_out(name: str, watch: Watch) -> None:
    import hashlib

    secret = (watch.outside / "secret.txt").read_bytes()
    stored = Stored(name, len(secret), hashlib.sha256(secret).hexdigest())
    _mirror(Path("mirror"), {"run.json": stored})
    code, said = watch.run("pull", f"file://{watch.here}/mirror")
    assert code == 2, said


# Models and adapters

_LLAMA = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 8,
    "vocab_size": 300,
}
_CODE = {
    "AutoConfig": "evil.Config",
    "AutoModelForCausalLM": "evil.Model",
    "AutoTokenizer": ["evil.Tok", None],
}


def _model(folder: Path, mark: Path, config: Any, files: dict[str, bytes]) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    (folder / "evil.py").write_text(
        f"import os\nos.mkdir({str(mark)!r})\nclass Config: pass\nclass Model: pass\nclass Tok: pass\n"
    )
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _models(mark: Path) -> dict[str, tuple[Any, dict[str, bytes]]]:
    good = to_safetensors({"model.embed_tokens.weight": torch.zeros(300, 8)})
    evil = pickles(mark)
    own_code = _LLAMA | {"model_type": "evil", "auto_map": _CODE}
    tokenizer = json.dumps({"tokenizer_class": "Evil", "auto_map": _CODE}).encode()
    index = json.dumps({"weight_map": {"a": "../outside/secret.txt", "b": "../../../etc/passwd"}}).encode()
    return {
        "code of its own": (own_code, {"model.safetensors": good}),
        "code of its own, for a known family": (_LLAMA | {"auto_map": _CODE}, {"model.safetensors": good}),
        "a tokenizer with code": (_LLAMA, {"model.safetensors": good, "tokenizer_config.json": tokenizer}),
        "pickled weights": (
            _LLAMA,
            {"pytorch_model.bin": evil["torch.save"], "model.pt": evil["torch.save of old"]},
        ),
        "pickled weights of another family": (
            {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "vocab_size": 4},
            {"pytorch_model.bin": evil["torch.save"]},
        ),
        "pickle called safetensors": (_LLAMA, {"model.safetensors": evil["pickle, protocol 4"]}),
        **{
            f"weights with {name}": (_LLAMA, {"model.safetensors": content})
            for name, content in lying_safetensors().items()
        },
        "an index that leads out": (_LLAMA, {"model.safetensors.index.json": index}),
        "an index of another kind": (_LLAMA, {"model.safetensors.index.json": b'{"weight_map": [1, 2]}'}),
        "a model of 10^18 weights": (
            _LLAMA | {"hidden_size": 10**9, "vocab_size": 10**9},
            {"model.safetensors": good},
        ),
        "layers without end": (_LLAMA | {"num_hidden_layers": 10**12}, {"model.safetensors": good}),
        "layers without end, of another family": (
            {"model_type": "gpt2", "n_embd": 8, "n_layer": 10**12, "n_head": 1, "vocab_size": 4},
            {"model.safetensors": good},
        ),
        "sizes that are no numbers": (
            _LLAMA | {"hidden_size": "x", "rope_parameters": [1]},
            {"model.safetensors": good},
        ),
        "no heads": (_LLAMA | {"num_attention_heads": 0}, {"model.safetensors": good}),
        "a config nested deeply": ("[" * 100_000, {"model.safetensors": good}),
        "a GGUF with a lying header": (
            _LLAMA,
            {"model.gguf": b"GGUF" + b"\xff" * 60, "model.safetensors": b"GGUF" + b"\xff" * 60},
        ),
        "stop tokens nested deeply": (
            _LLAMA,
            {"model.safetensors": good, "generation_config.json": b"[" * 100_000},
        ),
    }


@pytest.mark.faults
def test_no_model_folder_runs_code_or_fills_the_memory(
    watch: Watch, record_fault: Callable[..., None]
) -> None:
    pytest.importorskip("transformers")
    models = _models(watch.mark)
    for name, (config, files) in models.items():
        shutil.rmtree("evil", ignore_errors=True)
        _model(Path("evil"), watch.mark, config, files)
        said = refused(watch, "train", "tictactoe-tiny", f"language.model={watch.here}/evil", "-q")
        assert SECRET not in said, name
    record_fault("hostile model folder: code run, memory filled", len(models), len(models))


def _adapters(mark: Path) -> dict[str, bytes]:
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
    stem = "base_model.model.model.layers.0.self_attn.q_proj"
    good = to_safetensors(
        {f"{stem}.lora_A.weight": torch.ones(2, 8), f"{stem}.lora_B.weight": torch.ones(8, 2)}
    )

    def packed(settings: Any, weights: bytes = good, **more: bytes) -> bytes:
        text = settings if isinstance(settings, bytes) else json.dumps(settings).encode()
        return _zip({"adapter_config.json": text, "adapter_model.safetensors": weights, **more})

    return {
        "pickled weights alone": _zip(
            {
                "adapter_config.json": json.dumps(config).encode(),
                "adapter_model.bin": pickles(mark)["torch.save"],
            }
        ),
        "pickle called safetensors": packed(config, pickles(mark)["pickle, protocol 4"]),
        "a rank no memory holds": packed(config | {"r": 10**12}),
        "a negative rank": packed(config | {"r": -1}),
        "settings nested deeply": packed(b"[" * 100_000),
        "names that slip": _zip(
            {"../../outside/adapter_config.json": b"{}", "/adapter_model.safetensors": good}
        ),
        "it unfolds to many times its size": _zip(
            {"adapter_config.json": b"{}", "adapter_model.safetensors": b"\0" * (300 << 20)},
            zipfile.ZIP_DEFLATED,
        ),
        **{f"weights with {name}": packed(config, content) for name, content in lying_safetensors().items()},
    }


@pytest.mark.faults
def test_no_adapter_runs_code_or_fills_the_memory(watch: Watch, record_fault: Callable[..., None]) -> None:
    adapters = _adapters(watch.mark)
    for content in adapters.values():
        Path("evil.zip").write_bytes(content)
        refused(watch, "train", "tictactoe-tiny", "language.adapter.start=evil.zip", "-q")
    record_fault("hostile adapter: code run, memory filled", len(adapters), len(adapters))


def test_code_that_a_model_brings_is_not_run(watch: Watch) -> None:
    pytest.importorskip("transformers")
    for name in ("code of its own", "pickled weights"):
        shutil.rmtree("evil", ignore_errors=True)
        _model(Path("evil"), watch.mark, *_models(watch.mark)[name])
        refused(watch, "train", "tictactoe-tiny", f"language.model={watch.here}/evil", "-q")


def test_a_wheel_with_another_model_is_refused(watch: Watch) -> None:
    pytest.importorskip("gguf")
    from ludus.language.models.known import KNOWN

    name, known = next(iter(KNOWN.items()))
    watch.may = ("subprocess.Popen",)
    Path("evil.whl").write_bytes(_zip({known.gguf: b"GGUF" + b"\xff" * 100, "../outside/secret.txt": b"x"}))
    refused(watch, "models", "get", name, "--wheel", "evil.whl", "--force")
