"""Runs the tests of Gymnasium and Stable-Baselines3 against Ludus, and writes what became of them.

    python tests/peers/run.py            the tests, then results.json and docs/reference/peer-tests.md
    python tests/peers/run.py --page     only docs/reference/peer-tests.md, from results.json

Sources are fetched into `.peers`, for the versions that are installed. The sdist of Gymnasium on the package index has
none of its vector tests, so its source archive is fetched from the project's repository; with `--gymnasium FOLDER` (a
clone at that tag, or some files of it) it is not, and outcomes of files that FOLDER does not have are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCES = ROOT / ".peers"
RESULTS = HERE / "results.json"
PAGE = ROOT / "docs" / "reference" / "peer-tests.md"

ARCHIVE = "https://github.com/Farama-Foundation/Gymnasium/archive/refs/tags/v{}.tar.gz"
GYMNASIUM_TESTS = {
    "serial": ["tests/vector", "tests/wrappers/vector"],
    "process": ["tests/vector"],
    "remote": ["tests/vector"],
    "batched": ["tests/vector", "tests/wrappers/vector"],
    "envpool": ["tests/vector", "tests/wrappers/vector"],
}
SB3_TESTS = ["tests/test_env_checker.py", "tests/test_save_load.py", "tests/test_predict.py"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gymnasium", type=Path, help="folder with the source of Gymnasium")
    parser.add_argument("--only", nargs="*", help="backends of Ludus, or sb3")
    parser.add_argument("--page", action="store_true", help="write the page from results.json; run nothing")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"versions": {}, "outcomes": {}}
    if not options.page:
        chosen = options.only or [*GYMNASIUM_TESTS, "sb3"]
        for name in chosen:
            found = _run(name, options.gymnasium)
            kept = _of_other_files(results["outcomes"].get(name, {}), found) if options.gymnasium else {}
            results["outcomes"][name] = dict(sorted((kept | found).items()))
        for name in ("gymnasium", "stable-baselines3"):
            results["versions"][name] = version(name)
        if options.gymnasium is None and options.only is None:
            results["copies"] = {}  # all tests come from the complete sources
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(results))
    failed = {
        test for tests in results["outcomes"].values() for test, one in tests.items() if "failed" in one
    }
    sys.exit("failed:\n  " + "\n  ".join(sorted(failed)) if failed else 0)


def _of_other_files(outcomes: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Earlier outcomes of test files that a folder given by hand does not have."""
    files = {test.partition("::")[0] for test in found}
    return {test: one for test, one in outcomes.items() if test.partition("::")[0] not in files}


def _run(name: str, given: Path | None) -> dict[str, Any]:
    """Run the tests for one backend, or those of SB3. Returns what `count` returns."""
    if name == "envpool" and find_spec("envpool") is None:
        sys.exit("EnvPool is not installed: make test-peers builds an environment with it")
    if name == "sb3":
        folder, tests, arguments = _sdist("stable-baselines3"), SB3_TESTS, ["-p", "sb3_plugin"]
    else:
        folder = given or _gymnasium_source()
        tests, arguments = GYMNASIUM_TESTS[name], ["-p", "gymnasium_plugin", "--backend", name]
    outcomes = SOURCES / f"{name}.json"
    outcomes.unlink(missing_ok=True)
    SOURCES.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")  # not the settings of Ludus or of the peer
    paths = [str(ROOT / "src"), str(HERE), str(folder)]
    print(f"{name}: {' '.join(tests)} of {folder}", flush=True)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--disable-warnings", "--tb=short"]
        + [*arguments, "--outcomes", str(outcomes), *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
    )
    return count(json.loads(outcomes.read_text()))


def count(outcomes: dict[str, list[str]]) -> dict[str, Any]:
    """Return, for each test function: the number of parameters that passed, and the reasons of the others.

    As in `{"vector/test_a.py::test_b": {"passed": 2, "not applicable": {"reason": 1}}}`.
    """
    counts: dict[str, Any] = {}
    for test, (outcome, reason) in sorted(outcomes.items()):
        one = counts.setdefault(test.partition("[")[0].removeprefix("tests/"), {})
        if outcome == "passed":
            one["passed"] = one.get("passed", 0) + 1
        else:
            reasons = one.setdefault({"skipped": "not applicable"}.get(outcome, outcome), {})
            reasons[reason] = reasons.get(reason, 0) + 1
    return counts


def _gymnasium_source() -> Path:
    release = version("gymnasium")
    folder = SOURCES / f"Gymnasium-{release}"
    if not folder.exists():
        url = ARCHIVE.format(release)
        try:
            archive, _ = urllib.request.urlretrieve(url, _made(SOURCES) / f"Gymnasium-{release}.tar.gz")
        except urllib.error.URLError as error:
            sys.exit(
                f"the source of Gymnasium {release} was not found: {error.reason}\n"
                f"  where: {url}\n"
                "  fix:   make test-peers GYMNASIUM=FOLDER, with a clone of Gymnasium at that tag"
            )
        _unpack(Path(archive))
    return folder


def _sdist(name: str) -> Path:
    release = version(name)
    folder = SOURCES / f"{name.replace('-', '_')}-{release}"
    if not folder.exists():
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps"]
            + ["--no-build-isolation", "--dest", str(_made(SOURCES)), f"{name}=={release}"],
            check=True,
        )
        _unpack(folder.with_name(folder.name + ".tar.gz"))
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _unpack(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(SOURCES, filter="data")


def page(results: dict[str, Any]) -> str:
    """Return the page about `results`."""
    outcomes = results["outcomes"]
    gymnasium, sb3 = results["versions"]["gymnasium"], results["versions"]["stable-baselines3"]
    lines = [
        "# Tests of peers",
        "",
        "Gymnasium's own tests are run against Ludus's vector backends: the backend is put in the place of",
        "`SyncVectorEnv` (serial, batched, envpool) or `AsyncVectorEnv` (process, remote). Stable-Baselines3's run",
        "with the VecEnv of `engine: sb3` in the place of `DummyVecEnv`. `make test-peers` repeats it and writes this",
        "page; the code is in [`tests/peers`](../../tests/peers). Gymnasium's env checker (`check_env`) is run on",
        "Ludus's envs and wrappers by `tests/envs/vector/test_gymnasium_contract.py`.",
        "",
        f"Gymnasium {gymnasium}, Stable-Baselines3 {sb3}. A test with several parameters counts once for each;",
        "tests that never build the replaced class are not counted.",
        "",
        *_sources(results.get("copies", {})),
        "| against | passed | not applicable | failed |",
        "|---|---|---|---|",
    ]
    for name, tests in outcomes.items():
        passed = sum(one.get("passed", 0) for one in tests.values())
        others = [
            sum(sum(one.get(what, {}).values()) for one in tests.values())
            for what in ("not applicable", "failed")
        ]
        lines.append(f"| `{name}` | {passed} | {others[0]} | {others[1]} |")
    for heading, what in (("Not applicable, and why", "not applicable"), ("Failed", "failed")):
        rows = _reasons(outcomes, what)
        if rows:
            lines += ["", f"## {heading}", "", "| reason | tests | number |", "|---|---|---|", *rows]
    lines += ["", "## Passed", "", "| test | " + " | ".join(f"`{name}`" for name in outcomes) + " |"]
    lines.append("|---|" + "---|" * len(outcomes))
    for test in sorted({test for tests in outcomes.values() for test in tests}):
        numbers = [tests.get(test, {}).get("passed", "") for tests in outcomes.values()]
        if any(numbers):
            lines.append(f"| `{test}` | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(lines) + "\n"


def _sources(copies: dict[str, str]) -> list[str]:
    """Return where the tests of Gymnasium came from, if that was not its source archive."""
    if not copies:
        return []
    return [
        "Source distributions of Gymnasium on the package index hold none of these tests: in each of 0.29.1, 1.0.0,",
        "1.1.0, 1.1.1, 1.2.0 to 1.2.3, 1.3.0 and 1.4.0 the folder `tests` has two files, `test_core.py` and",
        "`testing_env.py` (`pip download --no-binary :all: --no-deps gymnasium==1.4.0`, then `tar tzf` of the file).",
        "The recorded run used copies of files of its repository instead. Other files were not run, such as",
        "`vector/test_vector_make.py`, the wrappers that record videos, which need moviepy, and",
        "`wrappers/vector/test_normalize_reward.py`, whose copy is of another version: it fails with Gymnasium's own",
        "class, too. `make test-peers` fetches the complete source archive and runs all of them.",
        "",
        "| file | copy |",
        "|---|---|",
        *(f"| `{file}` | {copy} |" for file, copy in sorted(copies.items())),
        "",
    ]


def _reasons(outcomes: dict[str, Any], what: str) -> list[str]:
    found: dict[str, tuple[set[str], dict[str, int]]] = {}
    for name, tests in outcomes.items():
        for test, one in tests.items():
            for reason, number in one.get(what, {}).items():
                functions, numbers = found.setdefault(reason, (set(), {}))
                functions.add(test.rpartition("::")[2])
                numbers[name] = numbers.get(name, 0) + number
    return [
        f"| {reason.replace('|', '/')} | {', '.join(f'`{one}`' for one in sorted(functions))} | "
        + ", ".join(f"{name} {number}" for name, number in numbers.items())
        + " |"
        for reason, (functions, numbers) in sorted(found.items())
    ]


if __name__ == "__main__":
    main()
