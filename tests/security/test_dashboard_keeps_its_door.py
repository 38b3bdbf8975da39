"""Access to the dashboard: only pages of this machine, and clients with the token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from dashboard_site import Site, serving, write_run

from ludus.errors import UserError
from ludus.reports.web.security import is_loopback, token_for

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("runs")
    write_run(root, "one", [1.0])
    with serving(root) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("runs")
    write_run(root, "one", [1.0])
    with serving(root, token=TOKEN) as found:
        yield found


def ask(
    site: Site, path: str = "/api/runs", method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    known = {"Host": f"127.0.0.1:{site.port}", "Connection": "close"}
    given = known | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return site.ask(f"{method} {path} HTTP/1.1\r\n{lines}Content-Length: 0\r\n\r\n".encode("latin-1"))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:9000", "localhost:8642", "LOCALHOST", "localhost.", "[::1]:8642", "127.5.5.5"],
)
def test_names_of_this_machine_are_served(site: Site, host: str) -> None:
    assert ask(site, Host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8642",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "evil.example#localhost",
        "0.0.0.0:8642",
        "192.168.1.5",
        "[::ffff:192.168.1.5]",
        "2130706433",
        "0x7f000001",
        "127.1",
        "",
        "[::1",
        "localhost:8642, evil.example",
    ],
)
def test_a_name_that_was_made_to_point_here_is_not(site: Site, host: str) -> None:
    assert ask(site, Host=host)[0] in (400, 403)
    assert ask(site, "/", Host=host)[0] in (400, 403)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "file://",
        "http://127.0.0.1:1",
        "http://localhost",
        "http://127.0.0.1.evil.example",
    ],
)
def test_pages_of_other_sites_get_nothing(site: Site, origin: str) -> None:
    for method in ("GET", "POST"):
        assert ask(site, method=method, Origin=origin, X_Ludus_Ui="1")[0] == 403


@pytest.mark.parametrize("where", ["cross-site", "same-site"])
def test_other_sites_may_link_here_and_nothing_more(site: Site, where: str) -> None:
    assert ask(site, "/", Sec_Fetch_Site=where, Sec_Fetch_Mode="navigate")[0] == 200
    for mode in ("no-cors", "cors", "websocket"):
        assert ask(site, "/api/runs", Sec_Fetch_Site=where, Sec_Fetch_Mode=mode)[0] == 403
    assert ask(site, method="POST", Sec_Fetch_Site=where, Sec_Fetch_Mode="navigate", X_Ludus_Ui="1")[0] == 403


@pytest.mark.parametrize("path", ["/stop", "/resume"])
def test_what_changes_something_needs_our_own_header(site: Site, path: str) -> None:
    address = f"/api/runs/{site.id_of('one')}{path}"
    own = f"http://127.0.0.1:{site.port}"
    assert ask(site, address, "POST", Origin=own)[0] == 403
    assert (
        ask(site, address, "POST", Origin=own, X_Ludus_Ui="1")[0] == 409
    )  # admitted, and refused with a reason
    assert ask(site, address, "GET")[0] == 405
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        status, headers, _ = ask(site, address, method, Origin=own, X_Ludus_Ui="1")
        assert status == 405 and "access-control-allow-origin" not in headers


def test_every_answer_has_the_strict_headers(site: Site) -> None:
    for path, host in (
        ("/", "localhost"),
        ("/api/runs", "localhost"),
        ("/nothing", "localhost"),
        ("/", "evil.example"),
    ):
        _, headers, _ = ask(site, path, Host=host)
        policy = headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy
            and "script-src 'self'" in policy
            and "frame-ancestors 'none'" in policy
        )
        assert "unsafe" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_without_the_token_there_is_only_a_form_to_give_it(guarded: Site) -> None:
    for path in ("/", "/api/runs", "/static/app.js", "/api/events"):
        status, _, body = ask(guarded, path)
        assert status == 401 and b"<form" in body
    assert ask(guarded, "/api/runs/x/stop", "POST", X_Ludus_Ui="1")[0] == 401


@pytest.mark.parametrize(
    "given",
    [
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer ",
        "Bearer",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN.upper()}",
        "Bearer \xe9",
    ],
)
def test_almost_the_token_is_not_the_token(guarded: Site, given: str) -> None:
    assert ask(guarded, Authorization=given)[0] == 401


def test_the_token_opens_from_anywhere(guarded: Site) -> None:
    assert ask(guarded, Authorization=f"Bearer {TOKEN}", Host="machine.lan:8642")[0] == 200
    assert (
        ask(guarded, Authorization=f"Bearer {TOKEN}", Host="machine.lan", Origin="http://evil.example")[0]
        == 403
    )


def test_the_token_in_the_address_becomes_a_cookie(guarded: Site) -> None:
    assert ask(guarded, "/?token=wrong")[0] == 401
    status, headers, _ = ask(guarded, f"/run/abc?token={TOKEN}&a=1")
    assert (status, headers["location"]) == (303, "/run/abc?a=1")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    pair = cookie.partition(";")[0]
    assert ask(guarded, Cookie=pair)[0] == 200
    assert ask(guarded, Cookie=pair[:-1] + ("0" if pair[-1] != "0" else "1"))[0] == 401
    assert ask(guarded, Cookie="ludus_ui=")[0] == ask(guarded, Cookie="=;;=")[0] == 401


@pytest.mark.parametrize(
    "path", ["//evil.example", "/\\evil.example", "/%2F/evil.example", "/\t/evil.example"]
)
def test_logging_in_leads_nowhere_else(guarded: Site, path: str) -> None:
    status, headers, _ = ask(guarded, f"{path}?token={TOKEN}")
    assert status in (303, 400)
    location = headers.get("location", "/")
    assert location.startswith("/") and not location.startswith(("//", "/\\"))


def test_which_addresses_need_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LUDUS_UI_TOKEN", raising=False)
    assert token_for("127.0.0.1") is token_for("localhost") is token_for("::1") is None
    one, other = token_for("0.0.0.0"), token_for("192.168.1.5")
    assert one is not None and other is not None and one != other and len(one) >= 32
    assert token_for("::") is not None and token_for("example.org") is not None
    monkeypatch.setenv("LUDUS_UI_TOKEN", TOKEN)
    assert token_for("127.0.0.1") == token_for("0.0.0.0") == TOKEN
    monkeypatch.setenv("LUDUS_UI_TOKEN", "short")
    with pytest.raises(UserError, match="guessed"):
        token_for("0.0.0.0")
    assert not is_loopback("evil.localhost.example") and not is_loopback("")
