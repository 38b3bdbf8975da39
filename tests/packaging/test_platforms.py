"""No module of Ludus needs a POSIX-only module to be imported: what needs one says so when it is used."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import builtins, importlib, pkgutil, sys
import ludus

POSIX = {"fcntl", "grp", "pwd", "resource", "syslog", "termios", "tty", "pty", "curses", "readline"}
BRANCHES = {"ludus.runs.lock", "ludus.posix"}  # they have a branch for Windows
found, plain = [], builtins.__import__

def watched(name, globals=None, *rest):
    importer = (globals or {}).get("__name__", "")
    if name in POSIX and importer.partition(".")[0] == "ludus" and importer not in BRANCHES:
        found.append(f"{importer} imports {name}")
    return plain(name, globals, *rest)

builtins.__import__ = watched
for module in pkgutil.walk_packages(ludus.__path__, "ludus.", onerror=lambda name: None):
    if not module.name.endswith(".__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError:
            pass  # an extra that is not installed here
print(*found, sep="\\n")
sys.exit(len(found))
"""


def test_no_module_imports_a_posix_module_when_it_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
