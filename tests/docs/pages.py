"""The code blocks of a page, and how each is run. `python pages.py PAGE` runs the commands of one page.

A block that begins with `# name.py` or `# name.yaml` is saved as that file. The Python blocks of a page are one script,
in which YAML is checked where it is: a saved one as `ludus train` does first, others as parts of a config. The lines of
bash blocks that begin with `ludus` are run in one process and with small budgets.

HTML comments directly above a block say what a test must know of it:

    <!-- not run: REASON -->                        nothing of the block is run; its commands must still parse
    <!-- not run: "ludus ui", "tensorboard": REASON -->  so for the lines that begin like this
    <!-- run first: ludus train cartpole-ppo -->    what the page takes for granted
    <!-- run with: KEY=VALUE … -->                  smaller settings, for the trainings of this block
    <!-- run with: 20_000=1_024 -->                 so above Python: what to replace by what
"""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"(?P<comments>(?:^[ ]*<!--[^\n]*-->\n)*)^[ ]*```(?P<language>\w+)\n(?P<code>.*?)^[ ]*```$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# (\w+\.(?:py|yaml))\n")
_STEPS, _MORE_STEPS = "1024", "2048"
_TRAINING = {"train", "compare", "sweep"}
_SMALL = {
    "--episodes": "2",
    "-n": "2",
    "--games": "4",
    "--seeds": "2",
    "--trials": "2",
    "--length": "30",
    "--jobs": "1",
}


@dataclass
class Block:
    """One code block: where it is, what it says, and what its comments ask for."""

    line: int
    language: str
    code: str
    first: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    reason: str = ""
    skipped: tuple[str, ...] = ()  # lines that begin so; empty with a reason: the whole block

    @property
    def runs(self) -> bool:
        return not self.reason or bool(self.skipped)

    @property
    def file(self) -> str | None:
        found = _FILE.match(self.code)
        return None if found is None else found[1]

    def commands(self) -> Iterator[tuple[list[str], bool]]:
        """Return each line as words, and whether it is to be run."""
        for line in re.sub(r"\\\n\s*", "", self.code).splitlines():
            words = shlex.split(line, comments=True)
            for end in ("|", "2>/dev/null", ">", "&&"):
                words = words[: words.index(end)] if end in words else words
            if words:
                plain = " ".join(words)
                yield words, self.runs and not any(plain.startswith(start) for start in self.skipped)


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page. Raises ValueError for an unknown comment."""
    text, found = page.read_text("utf-8"), []
    for match in _BLOCK.finditer(text):
        block = Block(text.count("\n", 0, match.start("code")), match["language"], match["code"])
        for comment in re.findall(r"<!-- (.*?) -->", match["comments"]):
            kind, _, said = comment.partition(": ")
            if kind == "run first":
                block.first.append(said)
            elif kind == "run with":
                block.settings += shlex.split(said)
            elif kind == "not run":
                block.skipped = tuple(re.findall(r'"([^"]*)"', said))
                block.reason = said.rpartition('": ')[2]
            elif kind not in ("BEGIN", "END") and not comment.islower():
                raise ValueError(f"{page}:{block.line}: unknown comment: {comment}")
        found.append(block)
    return found


def smaller(words: list[str], settings: list[str]) -> list[str]:
    """Return `ludus WORDS…` with budgets that a test can afford, and names of runs in place of placeholders."""
    command, small = words[0], []
    for word in words:
        if small and small[-1] in _SMALL:
            word = _SMALL[small[-1]]
        elif small and small[-1] == "--steps":
            word = _MORE_STEPS if command == "resume" else _STEPS
        elif small and small[-1] == "--checkpoint" and word.isdigit():
            word = "latest"
        small.append(re.sub(r"^RUN\d?(?=@|$)", "latest", word))
    if command == "train":
        steps = [] if "--steps" in small or any("total_timesteps=" in word for word in settings) else [_STEPS]
        small += [f"total_timesteps={number}" for number in steps] + settings
    if command in {"compare", "sweep"} and "--steps" not in small:
        small += [f"total_timesteps={_STEPS}", *settings]
    if command == "compare" and "--seeds" not in small:
        small += ["--seeds", "2"]
    if command in {"eval", "video", "analyze", "play"} and not {"--episodes", "-n"} & {*small}:
        small += ["--episodes", "2"]
    if command == "match" and "--games" not in small:
        small += ["--games", "4"]
    return small


def check_other(words: list[str]) -> str:
    """Return what is wrong with a line that is no `ludus` command; empty for one that can be checked and is right."""
    if words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
            "optional-dependencies"
        ]
        named = {
            name for word in words for part in re.findall(r"\[(.*?)\]", word) for name in part.split(",")
        }
        return "" if named <= {*extras} else f"no extra {named - {*extras}}"
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        return "" if {*words[1:]} <= {*targets} else f"no target {words[1:]}"
    if words[0] == "python" and words[1].startswith(("benchmarks/", "docs/")):
        return "" if (ROOT / words[1]).is_file() else "no such file"
    return "not a line that a test can run: give a reason above the block (<!-- not run: … -->)"


def program(page: Path) -> str:
    """Return the code of a page as one script."""
    parts = []
    for block in blocks(page):
        if block.runs and block.language == "python" and block.file is None:
            code = block.code
            for setting in block.settings:
                code = code.replace(*setting.split("="))
            parts.append(code)
        elif block.runs and block.language == "yaml":
            parts.append(_SAVED.format(block.file) if block.file is not None else _PART.format(block.code))
    return "\n".join(parts)


_SAVED = """
from ludus import create_trainer, load_config
_trainer = create_trainer(None, load_config({!r}).config)
_trainer.create_model()
_trainer.close()
"""
_PART = """
from pathlib import Path
from ludus.config.loading import read_yaml
from ludus.config.schema import TrainerConfig
Path("part.yaml").write_text({!r}, "utf-8")
TrainerConfig.model_validate(read_yaml(Path("part.yaml"))[0])
"""


def save_files(page: Path, folder: Path) -> None:
    """Save the blocks that begin with a file's name."""
    for block in blocks(page):
        if block.file is not None:
            (folder / block.file).write_text(block.code, "utf-8")


def _run_commands(block: Block) -> None:
    from ludus.cli.app import main

    if block.language != "bash":
        return
    lines = [(shlex.split(line), True) for line in block.first] + list(block.commands())
    for words, runs in lines:
        if runs and words[0] == "ludus":
            arguments = smaller(words[1:], block.settings)
            print(f"$ ludus {shlex.join(arguments)}", flush=True)
            code = main(arguments)
            if code != 0:
                raise SystemExit(f"exit code {code}: ludus {shlex.join(arguments)}")


if __name__ == "__main__":
    for block in blocks(Path(sys.argv[1])):
        _run_commands(block)
