"""Ray needs a token, shows no dashboard, and is not imported without `scale:`."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import same

from ludus.runs.directory import RunDirectory

LUDUS = [str(Path(sys.executable).parent / "ludus")]
TINY = ["--algo", "ppo", "--env", "CartPole-v1", "--n-envs", "2", "--steps", "512"]
FAST = ["hyperparams.n_steps=64", "hyperparams.n_epochs=1", "evaluation=null", "checkpoint=null"]


def ludus(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LUDUS, *words], capture_output=True, text=True, cwd=cwd, env=os.environ | environment, timeout=120
    )


def with_mark(mark: str) -> list[int]:
    """Processes that were started with `mark` in their environment, and their children."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def listening() -> dict[int, str]:
    """TCP ports that something listens on, and at which address (hexadecimal)."""
    found = {}
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    for line in [line for table in tables for line in table.read_text().splitlines()[1:]]:
        _, local, _, state, *_ = line.split()
        if state == "0A":
            address, port = local.split(":")
            found[int(port, 16)] = address
    return found


@pytest.fixture(scope="module")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A cluster that `ludus cluster up` started, in a home of its own."""
    home = tmp_path_factory.mktemp("home")
    mark = f"ludus-test-{uuid.uuid4()}"
    with socket.socket() as probe, socket.socket() as other:
        probe.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, client_port = probe.getsockname()[1], other.getsockname()[1]
    environment = {"HOME": str(home), "LUDUS_MARK": mark, "RAY_AUTH_TOKEN": ""}
    before = set(listening())
    try:
        words = ["cluster", "up", "--port", str(port), "--client-port", str(client_port), "--cpus", "2"]
        up = ludus(*words, "--json", cwd=home, **environment)
        assert up.returncode == 0, up.stderr
        started = json.loads(up.stdout.splitlines()[-1])
        ports = {port: address for port, address in listening().items() if port not in before}
        yield {
            "home": home,
            "environment": environment,
            "ports": ports,
            "client": f"ray://127.0.0.1:{client_port}",
            "auto": "auto",
            **started,
        }
    finally:
        for pid in with_mark(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_the_token_is_made_for_its_owner_alone(own_cluster: dict[str, Any]) -> None:
    token = Path(own_cluster["token"])
    assert token == own_cluster["home"] / ".ray" / "auth_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600 and len(token.read_text()) == 64


def test_ray_dashboard_does_not_listen(own_cluster: dict[str, Any]) -> None:
    assert own_cluster["ports"] and 8265 not in own_cluster["ports"]


@pytest.mark.parametrize("way", ["address", "client", "auto"])
def test_a_run_with_the_token_trains_there(way: str, own_cluster: dict[str, Any]) -> None:
    if way == "client" and " " in sys.executable:
        pytest.skip("Ray starts the server of Ray Client by an unquoted shell line")
    home, environment, address = own_cluster["home"], own_cluster["environment"], own_cluster[way]
    status = ludus("cluster", "status", address, "--json", cwd=home, **environment)
    assert status.returncode == 0, status.stderr
    (node,) = json.loads(status.stdout.splitlines()[-1])["nodes"]
    assert node["alive"] and node["cpus"] == 2
    done = ludus("train", *FAST, *TINY, "--scale", address, "--json", cwd=home, **environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == 512
    if way == "auto":
        assert f":{own_cluster['address'].rpartition(':')[2]})" in done.stdout + done.stderr


def test_a_run_that_is_killed_there_is_resumed_to_the_same_bytes(own_cluster: dict[str, Any]) -> None:
    home, environment = own_cluster["home"], own_cluster["environment"]
    words = ["train", *FAST[:3], *TINY[:6], "--steps", "12800", "--scale", own_cluster["address"]]
    words += ["checkpoint.every=2560", "timestamp=false"]
    assert ludus(*words, "--name", "whole", cwd=home, **environment).returncode == 0
    cut = subprocess.Popen(
        [*LUDUS, *words, "--name", "cut"], cwd=home, env=os.environ | environment, stderr=subprocess.DEVNULL
    )
    runs = home / "runs" / "CartPole-v1" / "PPO"
    wait_for(lambda: (runs / "cut" / "checkpoints" / "000000002560").exists())
    cut.kill()
    cut.wait()
    done = ludus("resume", str(runs / "cut"), "--exact", cwd=home, **environment)
    assert done.returncode == 0, done.stderr
    same(RunDirectory.open(runs / "whole"), RunDirectory.open(runs / "cut"))


def wait_for(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("token", ["", "somebody-elses-token-0123456789abcdef"])
def test_a_run_without_the_token_is_refused_in_three_lines(
    token: str, own_cluster: dict[str, Any], tmp_path: Path
) -> None:
    environment = {"HOME": str(tmp_path), "RAY_AUTH_TOKEN": token}
    done = ludus("train", *FAST, *TINY, "--scale", own_cluster["address"], cwd=tmp_path, **environment)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 3 and "refused" in lines[0] and "RAY_AUTH_TOKEN_PATH" in lines[2], done.stderr


@pytest.mark.parametrize("address", ["somewhere", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_address_where_nothing_is_gives_three_lines(address: str, tmp_path: Path) -> None:
    done = ludus("cluster", "status", address, cwd=tmp_path)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 3, done.stderr


def test_without_scale_nothing_of_ray_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from ludus.cli.app import main\n"
        f"assert main(['train', *{FAST + TINY!r}, '--quiet']) == 0\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] == 'ray' or name.startswith('ludus.scale')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_workers_do_not_look_for_modules_in_the_working_directory(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from ludus.scale import cluster\n"
        "session, ray = cluster.connect('local'), cluster.import_ray()\n"
        "def find():\n"
        "    import sys\n"
        "    return sys.path\n"
        "print(*ray.get(ray.remote(num_cpus=0)(find).remote()), sep='\\n')\n"
        "session.close()\n"
    )
    found = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stderr
    assert str(tmp_path) not in found.stdout.splitlines() and "" not in found.stdout.splitlines()
