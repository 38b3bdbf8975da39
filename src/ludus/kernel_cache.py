"""A place for compiled kernels where neither the installation nor the home directory can be written to.

numba keeps what it compiles beside the source, else below the home directory, and refuses to work where it can do
neither. What it keeps is run when it is read back, so the place must be nobody else's to write.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"


def ensure_kernel_cache_dir() -> None:
    """Tell numba where to keep what it compiles, if it would find no place by itself."""
    if os.environ.get(VARIABLE) or _writable(Path(__file__).parent) or _writable(_home_cache()):
        return
    folder = str(_private_folder())
    os.environ[VARIABLE] = folder  # for the processes that this one starts, too
    if "numba" in sys.modules:  # it has read the variable already
        from numba import config

        config.CACHE_DIR = folder  # type: ignore[attr-defined]  # numba makes its settings up as it goes


def _home_cache() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(cache) if cache else Path(os.path.expanduser("~")) / ".cache"


def _writable(folder: Path) -> bool:
    """Whether something can be made in `folder`, or the folder itself where it is not there yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _private_folder() -> Path:
    """One folder for all processes of this user, so that a kernel is compiled once; a new one if that is not safe."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = Path(tempfile.gettempdir()) / f"ludus-kernels-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
        if stat.S_ISDIR(found.st_mode) and own and not found.st_mode & 0o022:
            return folder
    except OSError:
        pass  # somebody has put something else there
    return Path(tempfile.mkdtemp(prefix="ludus-kernels-"))
