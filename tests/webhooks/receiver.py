"""A receiver of webhooks on loopback: it keeps what it gets, answers as told, and checks signatures by the standard."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Got:
    """One request."""

    def __init__(self, path: str, headers: Any, body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def id(self) -> str:
        return str(self.headers["webhook-id"])

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    def verified(self, secret: str) -> bool:
        """What a receiver does with the secret, written from the standard and not with the sender's code."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return f"v1,{wanted}" in self.headers["webhook-signature"].split()


class Receiver:
    """Its `url`, what it `got`, and `answer`: a status, or a function that writes to the handler itself."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answer: int | Callable[[BaseHTTPRequestHandler], None] = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(Got(self.path, self.headers, body))
                if not isinstance(receiver.answer, int):
                    receiver.answer(self)
                    return
                self.send_response(receiver.answer)
                self.end_headers()
                if receiver.answer != 204:
                    self.wfile.write(b"the receiver says <b>so</b>\x00")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?from=evenflow"


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver while the block runs."""
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()
