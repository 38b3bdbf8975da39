"""Models behind an OpenAI-compatible API, as opponents: retries, deadlines, a rate limit, and the cost counted.

The key comes from OPENAI_API_KEY and the address from OPENAI_BASE_URL, or from the options in the player's name
(`key_env`, `base_url`). The key is read for each request, never stored in an attribute, and removed from
every error and log message.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import queue
import random
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ludus.errors import UserError, nearest
from ludus.language.models.deadline import Deadline
from ludus.league.players import TokenUse

_log = logging.getLogger("ludus.language")
KEY = "OPENAI_API_KEY"
ADDRESS = "OPENAI_BASE_URL"
DEFAULT_ADDRESS = "https://api.openai.com/v1"
_AGAIN = {408, 409, 429, 500, 502, 503, 504}
"""HTTP status codes after which a request is retried."""
_OPTIONAL = ("temperature", "max_tokens", "max_completion_tokens")
_UNSUPPORTED = re.compile(
    "unsupported|not support|unknown|unrecogni[sz]ed|not permitted|not allowed|unexpected", re.IGNORECASE
)
_MAX_BYTES = 4 << 20
_LONGEST_WAIT = 20.0
# errors of parsing untrusted JSON, including deep nesting and very long numbers
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
    """Maximum tokens of an answer. Sent as `max_completion_tokens` if the model requires it."""
    deadline: float = 60.0
    """Time limit of a prompt in seconds, including waiting and retries."""
    retries: int = 5
    parallel: int = 8
    """Maximum number of parallel requests."""
    rpm: float = 0.0
    """Maximum number of requests per minute; 0: no limit."""
    price_in: float = 0.0
    """Price of a million prompt tokens."""
    price_out: float = 0.0
    """Price of a million tokens of answers."""
    base_url: str = ""
    """Address of this model's server; empty: that of OPENAI_BASE_URL, or OpenAI's."""
    key_env: str = ""
    """Environment variable that holds the key for `base_url`; empty: no key is sent there."""


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
    """Seconds of waiting for answers, summed over all requests."""


class _Again(Exception):
    """An error after which the request is retried, after at least `wait` seconds."""

    def __init__(self, what: str, wait: float = 0.0) -> None:
        super().__init__(what)
        self.wait = wait


class _Refused(Exception):
    """The server refuses a request, with this status."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code

    def parameter(self, body: Mapping[str, Any]) -> str | None:
        """Return the optional parameter of `body` that the server does not support, if it names one."""
        message = str(self)
        if self.code not in (400, 422) or not _UNSUPPORTED.search(message):
            return None
        named = (name for name in _OPTIONAL if name in body and re.search(rf"\b{name}\b", message))
        return next(named, None)


class OpenAIClient:
    """Client of one remote model. Raises UserError when created without an API key or a valid address."""

    def __init__(self, model: str, options: RemoteOptions | None = None) -> None:
        self.model = model
        self.options = options or RemoteOptions()
        self.spent = Spent()
        self._lock = threading.Lock()
        self._down = False
        self._taken = Spent()
        """Sum of what `take_token_use` has returned so far."""
        self._pace = _Pace(self.options.rpm)
        self._limit = "max_tokens"
        self._refused: set[str] = set()
        """Parameters that the server does not accept for this model."""
        self._set_by = "base_url" if self.options.base_url else ADDRESS
        self._key_name = self.options.key_env or ("" if self.options.base_url else KEY)
        self._address = _address(self.options.base_url, self._key())
        if self._key() is None and (self.options.key_env or self._address == DEFAULT_ADDRESS):
            name = self._key_name or KEY
            raise UserError(
                f"no API key for openai:{model}",
                where=f"environment variable {name}",
                fix=f"export {name}=…, or {ADDRESS}=http://HOST:PORT/v1 for a server of your own",
            )

    @classmethod
    def from_ref(cls, ref: str) -> OpenAIClient:
        """Create the client of a name such as `gpt-4o-mini?rpm=60`. UserError for unknown options."""
        model, _, query = ref.partition("?")
        if not model:
            raise UserError("expected the name of a model after openai:", where=f"openai:{ref}")
        kinds = {name: type(value) for name, value in asdict(RemoteOptions()).items()}
        given: dict[str, Any] = {}
        for name, text in urllib.parse.parse_qsl(query, keep_blank_values=True):
            hint = nearest(name, kinds)
            if name not in kinds:
                fix = f"did you mean '{hint}'?" if hint else f"one of {', '.join(kinds)}"
                # without its value: it might be a key
                raise UserError(f"unknown option '{name}'", where=f"openai:{model}", fix=fix)
            if kinds[name] is str:
                given[name] = text
                continue
            try:
                given[name] = kinds[name](text)
            except ValueError:
                raise UserError(f"{name} must be a number, got '{text}'", where=f"openai:{ref}") from None
            if given[name] < 0 or (name in ("parallel", "max_tokens", "deadline") and not given[name]):
                raise UserError(f"{name} cannot be {text}", where=f"openai:{ref}")
        if not re.fullmatch("([A-Za-z_][A-Za-z0-9_]*)?", given.get("key_env", "")):
            # without its value: it might be the key itself
            raise UserError("key_env is the name of an environment variable", where=f"openai:{model}")
        return cls(model, RemoteOptions(**given))

    def ask(self, prompts: Sequence[str]) -> list[str | UserError]:
        """Return an answer or an error for each prompt; several requests run in parallel."""
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
        # after a failure, one request at a time until it answers: a dead server must not delay every match
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
        """Send one request; repeat it without a parameter that the server refuses for this model."""
        until = time.monotonic() + timeout
        while True:
            body = self._body(prompt)
            try:
                return self._read(self._post(body, until - time.monotonic()))
            except _Refused as error:
                name = error.parameter(body)
                if name is None or until <= time.monotonic():
                    raise UserError(
                        f"openai:{self.model}: {error}", where=self._address, fix=self._fix(error.code)
                    ) from None
                self._leave_out(name)

    def _body(self, prompt: str) -> dict[str, Any]:
        chosen = {"temperature": self.options.temperature, self._limit: self.options.max_tokens}
        return {"model": self.model, "messages": [{"role": "user", "content": prompt}]} | {
            name: value for name, value in chosen.items() if name not in self._refused
        }

    def _leave_out(self, name: str) -> None:
        """Do not send the parameter `name` any more; the limit of tokens has a second name to try."""
        with self._lock:
            if name in self._refused:
                return  # another thread had the same answer
            self._refused.add(name)
            if name == "max_tokens":
                self._limit = "max_completion_tokens"
        instead = f"; {self._limit} is sent instead" if name == "max_tokens" else ""
        _log.warning("openai:%s refuses the parameter %s: it is not sent%s", self.model, name, instead)

    def _post(self, body: dict[str, Any], timeout: float) -> bytes:
        headers = {"Content-Type": "application/json", "User-Agent": "ludus"}
        key = self._key()
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
                    data: bytes = response.read(_MAX_BYTES)
            except urllib.error.HTTPError as error:
                message = _message(error, key)
                if error.code in _AGAIN:
                    raise _Again(message, _seconds(error.headers.get("Retry-After"))) from None
                raise _Refused(message, error.code) from None
            except (OSError, ValueError, http.client.HTTPException) as error:
                # refused, timed out, cut off, no such host, no HTTP
                reason = getattr(error, "reason", error)
                raise _Again(_redacted(f"{type(error).__name__}: {reason}"[:300], key)) from None
            if deadline.passed:
                raise _Again("the answer did not come to its end in time")
        return data

    def _key(self) -> str | None:
        # it may end with the newline of a file
        return os.environ.get(self._key_name, "").strip() or None if self._key_name else None

    def take_token_use(self) -> TokenUse:
        """Return requests, tokens and cost since the last call."""
        with self._lock:
            now, before = replace(self.spent), self._taken
            self._taken = now
        priced = self.options.price_in > 0 or self.options.price_out > 0
        return TokenUse(
            now.requests - before.requests,
            now.prompt_tokens - before.prompt_tokens,
            now.completion_tokens - before.completion_tokens,
            now.cost - before.cost if priced else None,
        )

    def _read(self, data: bytes) -> str:
        try:
            answer = json.loads(data)
            text = answer["choices"][0]["message"]["content"]
            used = answer.get("usage") or {}
            given, drawn = int(used.get("prompt_tokens") or 0), int(used.get("completion_tokens") or 0)
        except _NOT_AN_ANSWER:
            raise UserError(
                f"openai:{self.model}: the server's answer is not in the OpenAI format",
                where=self._address,
                fix=f"check {self._set_by}: the address usually ends with /v1",
            ) from None
        self._down = False
        with self._lock:
            self.spent.prompt_tokens += given
            self.spent.completion_tokens += drawn
            self.spent.cost += (given * self.options.price_in + drawn * self.options.price_out) / 1e6
        return text if isinstance(text, str) else ""

    def _fix(self, code: int) -> str:
        if code in (401, 403):
            return f"check {self._key_name}" if self._key_name else "name the variable with its key: key_env"
        if code == 404:
            return f"check the model's name and {self._set_by}: the address usually ends with /v1"
        if 300 <= code < 400:
            return f"the server has moved: set {self._set_by} to where it is now"
        return "see what the server says"

    def _lost(self, what: str) -> UserError:
        with self._lock:
            self.spent.failures += 1
        return UserError(
            f"openai:{self.model} cannot be reached: {what}",
            where=self._address,
            fix=f"check {self._set_by} and the connection, or give it more time (openai:{self.model}?deadline=120)",
        )

    def state(self) -> dict[str, float]:
        """Return the cost, for metrics."""
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
        """Wait for this request's turn; return False at once if that takes too long."""
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


def _address(given: str, key: str | None) -> str:
    """Return the address of the server: the one `given`, else that of the environment, else OpenAI's."""
    where = "the option base_url" if given else f"environment variable {ADDRESS}"
    address = (given or os.environ.get(ADDRESS) or DEFAULT_ADDRESS).rstrip("/")
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(
            "the address of the remote model is not an http or https URL",
            where=where,
            fix=f"as {DEFAULT_ADDRESS} or http://localhost:8000/v1",
        )
    if parts.username or parts.password:
        raise UserError(
            "the address of the remote model contains a user name or a password",
            where=where,
            fix=f"put the key into {KEY}, or into the variable that key_env names",
        )
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme == "http" and not local and key is not None:
        _log.warning("the key of a remote model goes to %s unencrypted", parts.hostname)
    return address


def _message(error: urllib.error.HTTPError, key: str | None) -> str:
    """Return the status and the server's message on one line."""
    text = ""
    with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
        body = error.read(_MAX_BYTES).decode("utf-8", errors="replace")
        try:
            problem = json.loads(body)["error"]
            text = problem["message"] if isinstance(problem, dict) else str(problem)
            if isinstance(problem, dict) and str(problem.get("param") or "") not in text:
                text = f"{text} (parameter {problem['param']})"
        except _NOT_AN_ANSWER:
            text = body
    # redacted before it is shortened: otherwise the beginning of a key could remain
    return _redacted(" ".join(f"HTTP {error.code} {error.reason}: {text}".split()), key)[:300].rstrip(": ")


def _redacted(text: str, key: str | None) -> str:
    if not key:
        return text
    return text.replace(key, "***").replace(repr(key)[1:-1], "***")  # as errors show an invalid header


def _seconds(header: str | None) -> float:
    """Return a Retry-After header in seconds; 0 for a date, which is ignored."""
    try:
        return max(float(header or 0.0), 0.0)
    except ValueError:
        return 0.0
