"""A Ray cluster that is started for one run: no other run joins it, and nothing of it outlives the run."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.errors import UserError

_log = logging.getLogger("ludus.scale")
_CLEANUP = Path(__file__).with_name("ray_cleanup.py")
_LONGEST_PARENT = 24  # of a private cluster's folder: the path of a socket in it has room for 107 bytes
_REMOVE_TRIES = 20
_START_TRIES = 4  # Ray gives its processes 30 s to start, which is not enough on a loaded machine
QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
"""Arguments of `ray.init`."""


@dataclass
class PrivateCluster:
    """A cluster that ends with this process: the folder of its sockets and logs, and the process that removes both."""

    folder: Path
    cleanup: subprocess.Popen[bytes] | None
    keep_logs: bool = False

    def give_up(self) -> None:
        """End the processes of a cluster that did not start, and remove what it left."""
        if self.cleanup is not None:
            _start_cleanup(self.folder, 0).wait()
        self.remove()

    def remove(self) -> None:
        """Remove what Ray leaves behind when it is shut down."""
        if self.cleanup is not None:
            self.cleanup.kill()
            self.cleanup.wait()
        if self.keep_logs:
            _log.warning("the logs of Ray are kept in %s", self.folder)
            return
        for _ in range(_REMOVE_TRIES):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.1)  # a process of Ray was still writing


def start_private(ray: Any, cores: int, job: Any, usual: Mapping[str, str]) -> PrivateCluster:
    """Start a cluster in a folder of its own and connect to it. Both end with this process, however that dies.

    `job` is Ray's config for this process; `usual` are the settings in the environment that are not the user's own.
    UserError when Ray does not start.
    """
    _log.info("starting a Ray cluster with %d CPUs for this run", cores)
    for left in reversed(range(_START_TRIES)):
        private = _make_folder(ray)
        try:
            with _without_health_checks(usual):
                ray.init(
                    address="local",
                    num_cpus=cores,
                    include_dashboard=False,
                    job_config=job,
                    _temp_dir=str(private.folder),
                    **QUIET,
                )
            return private
        except Exception as error:  # Ray raises a plain Exception when its processes take too long
            private.give_up()
            what = " ".join(str(error).split())[:200]
            if not left:
                raise UserError(
                    f"Ray did not start: {what}",
                    where="scale.ray: local",
                    fix="start the run again when the machine has less to do, or without scale",
                ) from error
            _log.warning("Ray did not start, trying again: %s", what)
    raise AssertionError


def _make_folder(ray: Any) -> PrivateCluster:
    """Make the folder of a private cluster, and start the process that removes it after this one's death."""
    parent = ray._common.utils.get_default_system_temp_dir()
    if os.name == "posix" and len(os.fsencode(parent)) > _LONGEST_PARENT:
        parent = "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="ludus-ray-", dir=parent))
    return PrivateCluster(folder, _start_cleanup(folder, os.getpid()) if sys.platform == "linux" else None)


def _start_cleanup(folder: Path, driver: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", str(_CLEANUP), str(folder), str(driver)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@contextmanager
def _without_health_checks(usual: Mapping[str, str]) -> Iterator[None]:
    """Turn off health checks for a cluster of one machine started meanwhile: a slow machine is not dead."""
    name = "RAY_health_check_failure_threshold"
    before = os.environ[name]
    if before == usual[name]:
        os.environ[name] = "1000000"
    try:
        yield
    finally:
        os.environ[name] = before
