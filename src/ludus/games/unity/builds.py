"""Unity builds that Ludus starts itself: one process per env, restarted when it ends."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

from ludus.config.own_modules import foreign_folder
from ludus.errors import UserError
from ludus.games.unity.settings import BuildConfig
from ludus.posix import kill_group

_log = logging.getLogger("ludus.games.unity")
_KEEPER = Path(__file__).with_name("keeper.py")
_TAIL = 2_000


def not_launched_reason(build: BuildConfig | None) -> str | None:
    """Return None if the build is to be started here, otherwise the reason. UserError if it must be and cannot."""
    if build is None:
        return "no build is configured"
    if build.launch is False:
        return "env.kwargs.build.launch is false"
    found = shutil.which(os.path.abspath(build.path))
    problem = None
    if not Path(build.path).is_file():
        problem = f"Unity build not found: {build.path}"
    elif foreign_folder(build.path) is not None:
        raise UserError(
            "the Unity build is inside a run or a download, and programs from there are never started",
            where=f"env.kwargs.build.path: {build.path}",
            fix="if it is yours, move it to a folder of its own; otherwise set env.kwargs.build.launch=false",
        )
    elif found is None or (build.path.lower().endswith(".exe") and os.name != "nt"):
        problem = f"{build.path} is not executable on this machine"
    if problem is not None and build.launch is True:
        raise UserError(
            problem,
            where="env.kwargs.build.path",
            fix="correct the path, or leave out launch and start the build yourself",
        )
    return problem


def build_command(build: BuildConfig, port: int, index: int) -> list[str]:
    """Return the command line of a build for a port and an environment id."""
    command = [os.path.abspath(build.path), "--ros-port", str(port), "--environment-id", str(index)]
    command += ["--pause", str(build.pause), "--sample-time", str(build.sample_time)]
    if build.time_scale != 1.0:
        command += ["--time-scale", str(build.time_scale)]
    if build.fixed_delta_time is not None:
        command += ["--fixed-delta-time", str(build.fixed_delta_time)]
    if build.fixed_updates_per_step is not None:
        command += ["--fixed-updates-per-step", str(build.fixed_updates_per_step)]
    return command + (["--headless"] if build.headless else []) + build.arguments


class Builds:
    """The processes of the builds. They end with `close`, or when this process dies for any reason."""

    def __init__(self, build: BuildConfig, ports: list[int], indices: list[int]) -> None:
        self._build = build
        self._ports_and_ids = list(zip(ports, indices, strict=True))
        self._lock = threading.Lock()
        self._held, self._lifeline = os.pipe()  # each keeper ends its build when our end of the pipe closes
        self._processes: list[subprocess.Popen[bytes]] = []
        self._outputs: list[IO[bytes]] = []
        for number in range(len(self._ports_and_ids)):
            process, output = self._start(number)
            self._processes.append(process)
            self._outputs.append(output)

    def exit_code(self, number: int) -> int | None:
        """Return the exit code of a build; None while it runs."""
        return self._processes[number].poll()

    def output_tail(self, number: int) -> str:
        """Return the end of the build's output."""
        output = self._outputs[number]
        with contextlib.suppress(OSError, ValueError):
            size = output.seek(0, os.SEEK_END)
            output.seek(max(0, size - _TAIL))
            return output.read().decode("utf-8", errors="replace").strip()
        return ""

    def restart(self, number: int) -> None:
        """End the build and start it again. It may take seconds: call it from a thread."""
        with self._lock:
            if self._lifeline < 0:
                return
            self._end([self._processes[number]])
            self._outputs[number].close()
            self._processes[number], self._outputs[number] = self._start(number)

    def close(self) -> None:
        with self._lock:
            if self._lifeline < 0:
                return
            os.close(self._lifeline)
            os.close(self._held)
            self._lifeline = -1
            self._end(self._processes)
            for output in self._outputs:
                output.close()

    def _start(self, number: int) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        port, index = self._ports_and_ids[number]
        command = build_command(self._build, port, index)
        _log.info("starting Unity build %d: %s", index, " ".join(command))
        output = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the build
        process = subprocess.Popen(
            [sys.executable, "-I", str(_KEEPER), str(self._held), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(self._held,),
            start_new_session=True,
        )
        return process, output

    @staticmethod
    def _end(processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    kill_group(process.pid)
                process.wait()
