"""Models behind an OpenAI-compatible API, as opponents: retries, deadlines, a rate limit, and the cost counted.

The key comes from OPENAI_API_KEY and the address from OPENAI_BASE_URL. The key is read for each request, kept in no
attribute, and cut out of every text that an error or a log could carry.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import queue
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ludus.errors import UserError, nearest
from ludus.language.models.deadline import Deadline

_log = logging.getLogger("ludus.language")
KEY = "OPENAI_API_KEY"
ADDRESS = "OPENAI_BASE_URL"
DEFAULT_ADDRESS = "https://api.openai.com/v1"
_AGAIN = {408, 409, 429, 500, 502, 503, 504}
"""Answers of a server that may be different a moment later."""
_MOST_BYTES = 4 << 20
_LONGEST_WAIT = 20.0
# errors of parsing untrusted JSON, also where it is nested too deep or has numbers that no integer holds
_NOT_AN_ANSWER = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
)


@dataclass(frozen=True)
class RemoteOptions:
    """Options of a remote model: `openai:MODEL?rpm=60&price_in=0.15`."""

    temperature: float = 1.0
    max_tokens: int = 256
    deadline: float = 60.0
    """Seconds until a prompt is given up, waiting and retries included."""
    retries: int = 5
    parallel: int = 8
    """Requests under way at once."""
    rpm: float = 0.0
    """Most requests in a minute; 0: as many as the server takes."""
    price_in: float = 0.0
    """Of a million prompt tokens."""
    price_out: float = 0.0
    """Of a million tokens of answers."""


@dataclass
class Spent:
    """Cost of the requests so far."""

    requests: int = 0
    retries: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """In the currency of the prices given; 0 without any."""
    seconds: float = 0.0
    """Waited for answers, all requests together."""


class _Again(Exception):
    """Worth another try, perhaps not before `wait` seconds."""

    def __init__(self, what: str, wait: float = 0.0) -> None:
        super().__init__(what)
        self.wait = wait


class OpenAIClient:
    """Asks one model. Made in vain (no key, no usable address) it raises UserError at once."""

    def __init__(self, model: str, options: RemoteOptions | None = None) -> None:
        self.model = model
        self.options = options or RemoteOptions()
        self.spent = Spent()
        self._lock = threading.Lock()
        self._down = False
        self._pace = _Pace(self.options.rpm)
        self._address = _address()
        if _key() is None and self._address == DEFAULT_ADDRESS:
            raise UserError(
                f"there is no key for openai:{model}",
                where=f"environment variable {KEY}",
                fix=f"export {KEY}=…, or {ADDRESS}=http://HOST:PORT/v1 for a server of your own",
            )

    @classmethod
    def from_ref(cls, ref: str) -> OpenAIClient:
        """From what stands behind `openai:`, as gpt-4o-mini?rpm=60. Raises UserError for unknown options."""
        model, _, query = ref.partition("?")
        if not model:
            raise UserError("openai: stands before the name of a model", where=f"openai:{ref}")
        kinds = {name: type(value) for name, value in asdict(RemoteOptions()).items()}
        given: dict[str, Any] = {}
        for name, text in urllib.parse.parse_qsl(query, keep_blank_values=True):
            hint = nearest(name, kinds)
            if name not in kinds:
                fix = f"did you mean '{hint}'?" if hint else f"one of {', '.join(kinds)}"
                # without its value: it might be a key
                raise UserError(f"unknown option '{name}'", where=f"openai:{model}", fix=fix)
            try:
                given[name] = kinds[name](text)
            except ValueError:
                raise UserError(f"{name} is a number, not '{text}'", where=f"openai:{ref}") from None
            if given[name] < 0 or (name in ("parallel", "max_tokens", "deadline") and not given[name]):
                raise UserError(f"{name} cannot be {text}", where=f"openai:{ref}")
        return cls(model, RemoteOptions(**given))

    def ask(self, prompts: Sequence[str]) -> list[str | UserError]:
        """One answer to each prompt, or the error that came instead; several are under way at once."""
        found: list[str | UserError | None] = [None] * len(prompts)
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for i in range(len(prompts)):
            waiting.put(i)

        def work() -> None:
            with contextlib.suppress(queue.Empty):
                while True:
                    i = waiting.get_nowait()
                    found[i] = self._answer(prompts[i])

        # daemons, so that Ctrl-C does not wait for a server
        count = min(self.options.parallel, len(prompts))
        threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [self._lost("no answer") if answer is None else answer for answer in found]

    def _answer(self, prompt: str) -> str | UserError:
        began, options = time.monotonic(), self.options
        last = "it did not answer"
        # one that was given up is asked once, until it answers: a dead server shall not hold up every match
        tries = 1 if self._down else options.retries + 1
        try:
            for attempt in range(tries):
                left = began + options.deadline - time.monotonic()
                if not self._pace.wait(left):
                    break
                left = began + options.deadline - time.monotonic()
                if left <= 0:
                    break
                try:
                    return self._request(prompt, left)
                except _Again as error:
                    last = str(error)
                    pause = max(error.wait, min(0.5 * 2.0**attempt, _LONGEST_WAIT) * (0.5 + random.random()))
                left = began + options.deadline - time.monotonic()
                if attempt + 1 == tries or pause >= left:
                    break
                with self._lock:
                    self.spent.retries += 1
                time.sleep(pause)
            self._down = True
            return self._lost(f"{last} (given up after {time.monotonic() - began:.0f} s)")
        except UserError as error:
            with self._lock:
                self.spent.failures += 1
            return error
        finally:
            with self._lock:
                self.spent.seconds += time.monotonic() - began

    def _request(self, prompt: str, timeout: float) -> str:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self.options.temperature,
            "max_tokens": self.options.max_tokens,
        }
        headers = {"Content-Type": "application/json", "User-Agent": "ludus"}
        key = _key()
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(
            f"{self._address}/chat/completions", json.dumps(body).encode(), headers, method="POST"
        )
        with self._lock:
            self.spent.requests += 1
        with Deadline(timeout) as deadline:
            try:
                with deadline.open(request) as response:
                    data = response.read(_MOST_BYTES)
            except urllib.error.HTTPError as error:
                said = _said(error)
                if error.code in _AGAIN:
                    raise _Again(said, _seconds(error.headers.get("Retry-After"))) from None
                raise UserError(
                    f"openai:{self.model}: {said}", where=self._address, fix=_fix(error.code)
                ) from None
            except (OSError, ValueError, http.client.HTTPException) as error:
                # refused, timed out, cut off, no such host, no HTTP
                reason = getattr(error, "reason", error)
                raise _Again(_redacted(f"{type(error).__name__}: {reason}"[:300])) from None
            if deadline.passed:
                raise _Again("the answer did not come to its end in time")
        return self._read(data)

    def _read(self, data: bytes) -> str:
        try:
            answer = json.loads(data)
            text = answer["choices"][0]["message"]["content"]
            used = answer.get("usage") or {}
            given, drawn = int(used.get("prompt_tokens") or 0), int(used.get("completion_tokens") or 0)
        except _NOT_AN_ANSWER:
            raise UserError(
                f"openai:{self.model}: the answer is not that of an OpenAI-compatible server",
                where=self._address,
                fix=f"{ADDRESS} ends with /v1 as a rule",
            ) from None
        self._down = False
        with self._lock:
            self.spent.prompt_tokens += given
            self.spent.completion_tokens += drawn
            self.spent.cost += (given * self.options.price_in + drawn * self.options.price_out) / 1e6
        return text if isinstance(text, str) else ""

    def _lost(self, what: str) -> UserError:
        with self._lock:
            self.spent.failures += 1
        return UserError(
            f"openai:{self.model} cannot be reached: {what}",
            where=self._address,
            fix=f"check {ADDRESS} and the connection, or give it more time (openai:{self.model}?deadline=120)",
        )

    def state(self) -> dict[str, float]:
        """Return its cost, for metrics."""
        with self._lock:
            return asdict(self.spent)


@dataclass
class _Pace:
    """Lets requests pass at an even pace, `rpm` in a minute."""

    rpm: float
    _next: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sleep: Callable[[float], None] = time.sleep

    def wait(self, longest: float) -> bool:
        """Return when it is this request's turn; False, at once, if that is too long."""
        if self.rpm <= 0:
            return longest > 0
        with self._lock:
            now = time.monotonic()
            turn = max(self._next, now)
            if turn - now >= longest:
                return False
            self._next = turn + 60.0 / self.rpm
        self._sleep(turn - now)
        return True


def _key() -> str | None:
    return os.environ.get(KEY, "").strip() or None  # a file it was read from may have ended its line


def _address() -> str:
    address = (os.environ.get(ADDRESS) or DEFAULT_ADDRESS).rstrip("/")
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(
            "the address of the remote model is not an http or https URL",
            where=f"environment variable {ADDRESS}",
            fix=f"as {DEFAULT_ADDRESS} or http://localhost:8000/v1",
        )
    if parts.username or parts.password:
        raise UserError(
            "the address of the remote model holds a name or a password",
            where=f"environment variable {ADDRESS}",
            fix=f"put the key into {KEY}",
        )
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme == "http" and not local and _key() is not None:
        _log.warning("the key in %s goes to %s unencrypted", KEY, parts.hostname)
    return address


def _said(error: urllib.error.HTTPError) -> str:
    """The status, and what the server says about it, on one line."""
    text = ""
    with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
        body = error.read(_MOST_BYTES).decode("utf-8", errors="replace")
        try:
            answer = json.loads(body)
            text = answer["error"]["message"] if isinstance(answer["error"], dict) else str(answer["error"])
        except _NOT_AN_ANSWER:
            text = body
    # redacted before it is cut, or the beginning of a key could stay
    return _redacted(" ".join(f"HTTP {error.code} {error.reason}: {text}".split()))[:300].rstrip(": ")


def _redacted(text: str) -> str:
    key = _key()
    if not key:
        return text
    return text.replace(key, "***").replace(repr(key)[1:-1], "***")  # as errors write what is no header


def _seconds(header: str | None) -> float:
    """A Retry-After in seconds; its other form, a date, is left to our own waiting."""
    try:
        return max(float(header or 0.0), 0.0)
    except ValueError:
        return 0.0


def _fix(code: int) -> str:
    if code in (401, 403):
        return f"check {KEY}"
    if code == 404:
        return f"check the model's name, and {ADDRESS}, which ends with /v1 as a rule"
    if 300 <= code < 400:
        return f"the server has moved: set {ADDRESS} to where it is now"
    return "see what the server says"
