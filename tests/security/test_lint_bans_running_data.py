"""The linter refuses what runs data as code, and the few places in `src` that may are known by name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]

BANNED = {
    "eval(text)": "S307",
    "exec(text)": "S102",
    "import pickle\npickle.load(file)": "S301",
    "import pickle\npickle.loads(data)": "S301",
    "import pickle\npickle.Unpickler(file)": "TID251",
    "import marshal\nmarshal.loads(data)": "S302",
    "import shelve\n": "TID251",
    "import dill\n": "TID251",
    "import joblib\n": "TID251",
    "from joblib import load\n": "TID251",
    "import cloudpickle\ncloudpickle.loads(data)": "TID251",
    "import numpy as np\nnp.load(path, allow_pickle=True)": "TID251",
    "import torch\ntorch.load(path)": "TID251",
    "import torch\ntorch.load(path, weights_only=False)": "TID251",
    "from torch import load\n": "TID251",
    "import torch\ntorch.hub.load(name)": "TID251",
    "import torch\ntorch.jit.load(path)": "TID251",
    "import pandas as pd\npd.read_pickle(path)": "TID251",
    "import yaml\nyaml.load(text, Loader=yaml.Loader)": "S506",
    "import yaml\nyaml.unsafe_load(text)": "TID251",
    "import yaml\nyaml.full_load(text)": "TID251",
    "import subprocess\nsubprocess.run(text, shell=True)": "S602",
    "import os\nos.system(text)": "S605",
    "import os\nos.popen(text)": "TID251",
    "import tarfile\ntarfile.open(path).extractall()": "S202",
    "import shutil\nshutil.unpack_archive(path)": "TID251",
    "import runpy\nrunpy.run_path(path)": "TID251",
}
# file, rule: why
ALLOWED = {
    ("envs/vector/wire.py", "S301"): "between a driver and the worker that it started",
    ("sb3/import_zip.py", "S301"): "the statistics of VecNormalize, with --trust",
    ("sb3/import_zip.py", "TID251"): "torch.load with weights_only",
}


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    """Linter findings for each text, as if it were in `src`; one process for all, because starting it is slow."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "json", "--no-cache"]
    folder = _ROOT / "src" / "ludus"
    texts = "\n\n".join(f"def _{n}():\n    " + one.replace("\n", "\n    ") for n, one in enumerate(BANNED))
    said = subprocess.run(
        [*command, "--stdin-filename", str(folder / "attack.py"), "-"],
        input=texts,
        capture_output=True,
        text=True,
        cwd=_ROOT,
    )
    lines = texts.splitlines()
    rules: dict[str, set[str]] = {one: set() for one in BANNED}
    for problem in json.loads(said.stdout):
        row = problem["location"]["row"]
        head = next(line for line in reversed(lines[:row]) if line.startswith("def _"))
        rules[list(BANNED)[int(head[5:-3])]].add(problem["code"])
    return rules


@pytest.mark.parametrize("text", BANNED)
def test_lint_rule_reports_the_banned_call(text: str, found: dict[str, set[str]]) -> None:
    assert BANNED[text] in found[text]


def test_the_exceptions_in_src_are_these() -> None:
    rules = {rule for rule in BANNED.values()}
    silenced = {
        (str(path.relative_to(_ROOT / "src" / "ludus")), rule)
        for path in (_ROOT / "src").rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        for said in re.findall(r"noqa:? ?([A-Z0-9, ]*)", line)
        for rule in rules
        if rule in said or not said.strip()
    }
    assert silenced == set(ALLOWED)
