"""A small OpenID Connect provider on loopback: says whatever its `claims` are to whoever brings the code."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt

CLIENT = {"id": "evenflow", "secret": "a secret of thirty-two characters"}
CODE = "the-code"


class Issuer(ThreadingHTTPServer):
    """The server; `claims` are those of the next person."""

    claims: dict[str, Any] = {}
    audience = CLIENT["id"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        url = self.server.url
        if self.path == "/.well-known/openid-configuration":
            self._tell(
                {
                    "issuer": url,
                    "authorization_endpoint": f"{url}/authorize",
                    "token_endpoint": f"{url}/token",
                    "userinfo_endpoint": f"{url}/userinfo",
                    "jwks_uri": f"{url}/keys",
                    "token_endpoint_auth_methods_supported": ["client_secret_post"],
                }
            )
        else:
            self._tell(self.server.claims)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if f"code={CODE}" not in body:
            self._tell({"error": "invalid_grant"}, 400)
            return
        claims = self.server.claims | {"iss": self.server.url, "aud": self.server.audience, "iat": 1, "exp": 2**33}
        token = jwt.encode(claims, CLIENT["secret"], "HS256")
        self._tell({"access_token": "x", "token_type": "Bearer", "id_token": token})

    def _tell(self, answer: dict[str, Any], status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        """Silence."""


@contextmanager
def running() -> Iterator[Issuer]:
    """A provider as long as the block runs."""
    server = Issuer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
