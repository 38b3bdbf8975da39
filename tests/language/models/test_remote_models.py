"""A remote model is asked patiently, but not for ever, and its key appears nowhere. Against a server on loopback."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from chat_server import Answer, Server, refused, spoken

from ludus.errors import UserError
from ludus.language.models import remote
from ludus.language.models.remote import ADDRESS, KEY, OpenAIClient, RemoteOptions, _Pace
from ludus.league.players import TokenUse

SECRET = "sk-very-secret-123"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()
    monkeypatch.setenv(ADDRESS, found.address)
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setattr(remote.random, "random", lambda: -0.48)  # waits a fiftieth as long
    yield found
    found.close()


def test_every_prompt_gets_its_answer_and_the_cost_is_counted(server: Server) -> None:
    server.behave = lambda body, n: spoken("re: " + body["messages"][0]["content"])
    client = OpenAIClient.from_ref("small-model?price_in=2&price_out=10&max_tokens=7&temperature=0.5")
    assert client.ask(["a", "b", "c"]) == ["re: a", "re: b", "re: c"]
    spent = client.state()
    assert (spent["requests"], spent["retries"], spent["failures"]) == (3, 0, 0)
    assert (spent["prompt_tokens"], spent["completion_tokens"]) == (30, 9)
    assert spent["cost"] == pytest.approx((30 * 2 + 9 * 10) / 1e6)
    body, headers = server.seen[0]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("small-model", 7, 0.5)
    assert headers["Authorization"] == f"Bearer {SECRET}"


REFUSALS = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0.5 with this model.",
}


def test_a_parameter_that_a_model_refuses_is_left_out_from_then_on(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def behave(body: dict[str, Any], n: int) -> Answer:
        named = next((name for name in REFUSALS if name in body), None)
        return spoken("[1]") if named is None else refused(400, REFUSALS[named])

    server.behave = behave
    client = OpenAIClient.from_ref("thinker?temperature=0.5&max_tokens=900")
    assert client.ask(["a"]) == ["[1]"] and len(server.seen) == 3
    assert client.ask(["b", "c"]) == ["[1]", "[1]"] and len(server.seen) == 5
    body = server.seen[-1][0]
    assert body["max_completion_tokens"] == 900 and not REFUSALS.keys() & body.keys()
    assert sum("refuses the parameter" in text for text in caplog.messages) == 2


@pytest.mark.parametrize("said", ["max_tokens is too large: this model supports at most 100", "bad request"])
def test_a_value_that_is_refused_is_an_error(said: str, server: Server) -> None:
    server.behave = lambda body, n: refused(400, said)
    (error,) = OpenAIClient("m").ask(["a"])
    assert isinstance(error, UserError) and said in error.what and len(server.seen) == 1


def test_each_remote_has_an_address_and_a_key_of_its_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Server()
    try:
        monkeypatch.setenv("OTHER_API_KEY", "sk-of-the-other")
        first = OpenAIClient.from_ref("m")
        second = OpenAIClient.from_ref(f"m?base_url={other.address}&key_env=OTHER_API_KEY")
        third = OpenAIClient.from_ref(f"m?base_url={other.address}")
        assert [client.ask(["a"]) for client in (first, second, third)] == [["[4]"]] * 3
        assert server.seen[0][1]["Authorization"] == f"Bearer {SECRET}" and len(server.seen) == 1
        assert other.seen[0][1]["Authorization"] == "Bearer sk-of-the-other"
        assert "Authorization" not in other.seen[1][1]  # the usual key is for the usual server
        other.behave = lambda body, n: refused(401, "wrong key: sk-of-the-other")
        (error,) = second.ask(["a"])
        assert "sk-of-the-other" not in str(error) and "OTHER_API_KEY" in str(error)
    finally:
        other.close()


def test_tokens_are_taken_once(server: Server) -> None:
    client = OpenAIClient.from_ref("m?price_in=2&price_out=10")
    client.ask(["a", "b"])
    assert client.take_token_use() == TokenUse(2, 20, 6, pytest.approx((20 * 2 + 6 * 10) / 1e6))
    client.ask(["c"])
    use = client.take_token_use()
    assert (use.requests, use.prompt_tokens, use.completion_tokens) == (1, 10, 3)
    unpriced = OpenAIClient("m")
    assert unpriced.take_token_use() == TokenUse(0, 0, 0, None)


def test_an_answer_without_text_is_an_empty_one(server: Server) -> None:
    server.behave = lambda body, n: spoken(None)
    assert OpenAIClient("m").ask(["a"]) == [""]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_what_may_pass_is_tried_again(server: Server, code: int) -> None:
    server.behave = lambda body, n: refused(code) if n < 3 else spoken("[1]")
    client = OpenAIClient("m")
    assert client.ask(["a"]) == ["[1]"]
    assert client.spent.retries == 2 and client.spent.failures == 0


def test_a_server_that_says_when_is_not_asked_before(server: Server) -> None:
    times: list[float] = []

    def behave(body: dict[str, Any], n: int) -> Answer:
        times.append(time.monotonic())
        return refused(429, Retry_After="0.3") if n == 1 else spoken("[1]")

    server.behave = behave
    assert OpenAIClient("m").ask(["a"]) == ["[1]"]
    assert times[1] - times[0] >= 0.3


@pytest.mark.parametrize(
    ("code", "fix"), [(401, KEY), (404, "model's name"), (400, "server says"), (302, "has moved")]
)
def test_what_will_not_pass_is_not_tried_again(server: Server, code: int, fix: str) -> None:
    server.behave = lambda body, n: refused(code, "because", Location="http://elsewhere.invalid/")
    client = OpenAIClient("m")
    (error,) = client.ask(["a"])
    assert isinstance(error, UserError) and f"HTTP {code}" in error.what and fix in error.fix
    assert len(server.seen) == 1 and client.spent.failures == 1


def test_one_failure_does_not_cost_the_others_their_answers(server: Server) -> None:
    server.behave = lambda body, n: refused(400) if body["messages"][0]["content"] == "bad" else spoken("[2]")
    answers = OpenAIClient("m").ask(["x", "bad", "y"])
    assert answers[0] == answers[2] == "[2]" and isinstance(answers[1], UserError)


def test_a_prompt_is_given_up_at_its_deadline(server: Server) -> None:
    hold = threading.Event()

    def behave(body: dict[str, Any], n: int) -> Answer:
        hold.wait(5)
        return spoken("late")

    server.behave = behave
    (error,) = OpenAIClient.from_ref("m?deadline=0.3").ask(["a"])
    hold.set()
    assert isinstance(error, UserError) and "cannot be reached" in error.what


def test_retries_end(server: Server) -> None:
    server.behave = lambda body, n: refused(500)
    client = OpenAIClient("m", RemoteOptions(retries=2))
    (error,) = client.ask(["a"])
    assert isinstance(error, UserError) and "HTTP 500" in error.what and len(server.seen) == 3


def test_a_server_that_was_given_up_is_asked_once_until_it_answers(server: Server) -> None:
    server.behave = lambda body, n: refused(500) if n <= 5 else spoken("[1]")
    client = OpenAIClient("m", RemoteOptions(retries=2))
    assert isinstance(client.ask(["a"])[0], UserError) and len(server.seen) == 3
    assert isinstance(client.ask(["a"])[0], UserError) and len(server.seen) == 4
    assert isinstance(client.ask(["a"])[0], UserError) and len(server.seen) == 5
    assert client.ask(["a"]) == ["[1]"]
    server.behave = lambda body, n: refused(500) if n <= 8 else spoken("[2]")
    assert client.ask(["a"]) == ["[2]"]


def test_unreachable_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "http://127.0.0.1:9/v1")
    monkeypatch.setenv(KEY, SECRET)
    (error,) = OpenAIClient("m", RemoteOptions(retries=0, deadline=5)).ask(["a"])
    assert isinstance(error, UserError) and ADDRESS in error.fix


def test_garbage_is_named_as_such(server: Server) -> None:
    for garbage in (b"<html>", b"[]", b'{"choices": []}', b'{"choices": [{"message": null}]}'):
        server.behave = lambda body, n, garbage=garbage: (200, {}, garbage)  # type: ignore[misc]
        (error,) = OpenAIClient("m").ask(["a"])
        assert isinstance(error, UserError) and "OpenAI format" in error.what


def test_no_more_requests_are_under_way_than_allowed(server: Server) -> None:
    def behave(body: dict[str, Any], n: int) -> Answer:
        time.sleep(0.02)
        return spoken("[1]")

    server.behave = behave
    OpenAIClient.from_ref("m?parallel=2").ask(["a"] * 8)
    assert server.most_busy == 2


def test_a_pace_is_kept() -> None:
    waits: list[float] = []
    pace = _Pace(60.0, _sleep=waits.append)
    assert all(pace.wait(100.0) for _ in range(3))
    assert (
        waits[0] == 0.0
        and waits[1] == pytest.approx(1.0, abs=0.1)
        and waits[2] == pytest.approx(2.0, abs=0.1)
    )
    assert not pace.wait(2.0)


def test_the_key_appears_nowhere(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.behave = lambda body, n: refused(401, f"Incorrect API key provided: {SECRET}")
    client = OpenAIClient("m")
    with caplog.at_level(logging.DEBUG):
        (error,) = client.ask(["a"])
    assert isinstance(error, UserError) and "***" in error.what
    for text in (str(error), repr(error), repr(client), repr(vars(client)), caplog.text, str(client.state())):
        assert SECRET not in text
    assert error.__cause__ is None


@pytest.mark.parametrize("key", [f"{SECRET}\r", f"{SECRET}\n", "sk-of\ntwo-lines"])
def test_a_key_that_is_no_header_appears_nowhere(
    key: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, key)
    (answer,) = OpenAIClient("m", RemoteOptions(retries=0)).ask(["hi"])
    if key.strip() == SECRET:
        assert answer == "[4]"
    assert "two-lines" not in str(answer) and SECRET not in str(answer)


def test_no_part_of_a_key_is_left_where_a_text_is_cut(server: Server) -> None:
    server.behave = lambda body, n: refused(400, "x" * 270 + SECRET)
    (answer,) = OpenAIClient("m").ask(["hi"])
    assert SECRET[:6] not in str(answer)


def test_a_key_among_the_options_is_not_repeated(server: Server) -> None:
    with pytest.raises(UserError) as caught:
        OpenAIClient.from_ref(f"m?api_key={SECRET}")
    assert SECRET not in str(caught.value)


def test_without_a_key_the_user_reads_what_to_type(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.delenv(KEY)
    assert OpenAIClient("m").ask(["a"]) == ["[4]"]  # a server of one's own may ask for none
    assert "Authorization" not in server.seen[0][1]
    monkeypatch.delenv(ADDRESS)
    with pytest.raises(UserError, match="no API key") as caught:
        OpenAIClient("m")
    assert KEY in caught.value.where and f"export {KEY}" in caught.value.fix


@pytest.mark.parametrize("address", ["ftp://x/v1", "nonsense", "http://user:pass@host/v1"])
def test_invalid_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, address)
    with pytest.raises(UserError, match="address") as caught:
        OpenAIClient("m")
    assert "pass" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("m?rmp=3", "unknown option 'rmp'"),
        ("m?rpm=fast", "a number"),
        ("m?parallel=0", "cannot be 0"),
        ("m?key_env=sk-a-key", "name of an environment variable"),
        ("m?key_env=NOT_SET_ANYWHERE", "no API key"),
        ("m?base_url=ftp://x", "address"),
        ("", "name"),
    ],
)
def test_options_that_cannot_be_are_refused(ref: str, said: str, server: Server) -> None:
    with pytest.raises(UserError, match=said):
        OpenAIClient.from_ref(ref)
