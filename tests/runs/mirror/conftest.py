"""Remote storage for tests of mirrors, on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

from ludus.runs.mirror import background

if TYPE_CHECKING:
    from fake_drive import FakeDrive
    from s3_server import Door

_NEEDED = ("fsspec", "s3fs", "gdrive_fsspec", "moto")
collect_ignore_glob = [] if all(find_spec(name) for name in _NEEDED) else ["test_*.py"]


@pytest.fixture(scope="session")
def s3_address() -> Iterator[tuple[str, Door]]:
    from s3_server import s3_server

    with s3_server() as found:
        yield found


@pytest.fixture
def s3(s3_address: tuple[str, Door], monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """An S3 server with the bucket `runs`, which s3fs finds through the environment, as in real use."""
    from s3_server import KEY_ID, SECRET

    address, door = s3_address
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for path, method in (("/moto-api/reset", "POST"), ("/runs", "PUT")):
        urlopen(Request(address + path, method=method)).close()
    door.seen.clear()
    yield door
    door.refuse, door.writes_only, door.after = None, False, 0


@pytest.fixture(scope="session")
def service_account(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A key file as downloaded from Google's console, and its secret. `drive` fills in its token endpoint."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    pem = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        .private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        .decode()
    )
    return tmp_path_factory.mktemp("google") / "key.json", pem


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch, service_account: tuple[Path, str]) -> Iterator[FakeDrive]:
    """A fake Google Drive for the real gdrive-fsspec and the real client: only the host name differs.

    The host cannot be configured in gdrive-fsspec, so its requests are redirected to loopback.
    """
    import fsspec.config
    import httplib2
    from fake_drive import fake_drive

    key, pem = service_account
    with fake_drive() as (address, held):
        request = httplib2.Http.request

        def redirected(self: Any, uri: str, *arguments: Any, **named: Any) -> Any:
            return request(self, uri.replace("https://www.googleapis.com", address), *arguments, **named)

        monkeypatch.setattr(httplib2.Http, "request", redirected)
        account = {
            "type": "service_account",
            "client_email": "ludus@test.iam.gserviceaccount.com",
            "private_key_id": "k",
            "private_key": pem,
            "token_uri": f"{address}/token",
        }
        key.write_text(json.dumps(account))
        settings = {"token": "service_account", "creds": str(key)}
        monkeypatch.setitem(fsspec.config.conf, "gdrive", settings)
        yield held


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_FIRST_PAUSE", 0.02)
