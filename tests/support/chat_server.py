"""A server on loopback that speaks the protocol of OpenAI's chat completions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]


class Server:
    """Answers as `behave(body, number of the request)` says."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, Any], dict[str, str]]] = []
        self.busy = self.most_busy = 0
        self.behave: Callable[[dict[str, Any], int], Answer] = lambda body, n: spoken("[4]")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append((body, dict(self.headers)))
                outer.busy += 1
                outer.most_busy = max(outer.busy, outer.most_busy)
                code, headers, data = outer.behave(body, len(outer.seen))
                outer.busy -= 1
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def spoken(text: str | None) -> Answer:
    answer = {
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3},
    }
    return 200, {"Content-Type": "application/json"}, json.dumps(answer).encode()


def refused(code: int, message: str = "no", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return code, named, json.dumps({"error": {"message": message}}).encode()
