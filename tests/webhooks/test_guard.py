"""The only way out is guarded: no private network, no redirect, no endless answer."""

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from dispatch.services import outbound
from tests.webhooks.receiver import Receiver

BAD = [
    "",
    "example.com/hook",
    "ftp://example.com/",
    "file:///etc/passwd",
    "https://",
    "https://user:secret@example.com/",
    "https://example.com/#part",
    "https://example.com:99999/",
    "https://example.com/a b",
    "https://example.com/\r\nHost: other",
    "https://bücher.example/",
    "https://" + "x" * 2000,
    "http://example.com/",
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://10.0.0.1/",
    "https://192.168.1.1:8443/",
    "https://169.254.169.254/latest/meta-data",
    "https://100.64.0.1/",
    "https://0.0.0.0/",
    "https://224.0.0.1/",
    "https://[fe80::1]/",
    "https://[fd00::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[64:ff9b:1::7f00:1]/",
    "https://[::127.0.0.1]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[fec0::1]/",
]


@pytest.mark.parametrize("url", BAD)
def test_addresses_that_are_refused(url: str) -> None:
    assert outbound.problem(url) is not None


@pytest.mark.parametrize(
    "url",
    ["https://example.com", "https://example.com:8443/a/b?c=d&e=%20", "https://8.8.8.8/", "https://[2606:4700::1]/"],
)
def test_addresses_that_are_taken(url: str) -> None:
    assert outbound.problem(url) is None


def test_private_ones_need_the_setting(settings: Any) -> None:
    settings.EVENFLOW_WEBHOOK_PRIVATE = True
    assert outbound.problem("http://127.0.0.1:8080/") is None
    assert outbound.problem("http://224.0.0.1/") is not None


def test_a_name_that_leads_inside_is_refused_when_it_is_used(
    monkeypatch: Any, receiver: Receiver, settings: Any
) -> None:
    settings.EVENFLOW_WEBHOOK_PRIVATE = False
    asked = []

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        found = ["8.8.8.8", "127.0.0.1"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    sent = outbound.post("https://rebind.example/", b"{}", {})
    assert (sent.status, sent.error, asked) == (None, "The name leads into a private network.", ["rebind.example"])
    assert receiver.got == []


def test_the_checked_address_is_the_one_that_is_used(monkeypatch: Any, receiver: Receiver) -> None:
    real, asked = socket.getaddrinfo, []

    def resolve(host: str, port: int, *args: Any, **options: Any) -> list[Any]:
        if host != "hook.example":
            return real(host, port, *args, **options)
        asked.append(host)
        return real("127.0.0.1", port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    sent = outbound.post(receiver.url.replace("127.0.0.1", "hook.example"), b"{}", {"x-a": "b"})
    assert sent.arrived and asked == ["hook.example"], "the name is asked for once"
    assert receiver.got[0].headers["Host"].startswith("hook.example:")
    assert receiver.got[0].headers["x-a"] == "b"


def test_redirects_are_not_followed(receiver: Receiver) -> None:
    def redirect(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(307)
        handler.send_header("Location", receiver.url)
        handler.end_headers()

    receiver.answer = redirect
    sent = outbound.post(receiver.url, b"{}", {})
    assert (sent.status, sent.arrived, len(receiver.got)) == (307, False, 1)
    assert "redirects are not followed" in sent.error


def test_only_the_beginning_of_an_answer_is_read(receiver: Receiver) -> None:
    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"x" * 1_000_000)

    receiver.answer = flood
    assert len(outbound.post(receiver.url, b"{}", {}).excerpt) == outbound.EXCERPT_BYTES


def test_a_receiver_that_drips_is_cut_off(receiver: Receiver, monkeypatch: Any) -> None:
    monkeypatch.setattr(outbound, "TIMEOUT_S", 0.5)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        try:
            for _ in range(100):
                handler.wfile.write(b"HTTP/1.1 200 OK\r\n"[:1])
                time.sleep(0.05)
        except OSError:
            pass

    receiver.answer = drip
    sent = outbound.post(receiver.url, b"{}", {})
    assert (sent.status, sent.error) == (None, "No answer in time.") and sent.latency_ms < 3000


def test_a_receiver_that_drips_its_handshake_is_cut_off(monkeypatch: Any, settings: Any) -> None:
    settings.EVENFLOW_WEBHOOK_PRIVATE = True
    monkeypatch.setattr(outbound, "TIMEOUT_S", 0.5)

    def drip(server: socket.socket) -> None:
        with contextlib.suppress(OSError), server.accept()[0] as connection:
            for byte in b"\x16\x03\x03\x40\x00" + bytes(40):  # the beginning of a long TLS record
                connection.sendall(bytes([byte]))
                time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip, args=(server,), daemon=True)
        dripping.start()
        sent = outbound.post(f"https://127.0.0.1:{server.getsockname()[1]}/", b"{}", {})
        dripping.join(5)
    assert (sent.status, sent.error) == (None, "No answer in time.") and sent.latency_ms < 3000


def test_nobody_there_and_a_broken_answer_are_failures_with_a_reason(receiver: Receiver) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sent = outbound.post(f"http://127.0.0.1:{port}/", b"{}", {})
    assert (sent.status, sent.error) == (None, "No answer: Connection refused.")
    receiver.answer = lambda handler: handler.wfile.write(b"nonsense\r\n\r\n") and None
    assert outbound.post(receiver.url, b"{}", {}).status is None
    sent = outbound.post(receiver.url.replace("http:", "https:"), b"{}", {})
    assert sent.status is None and sent.error.startswith("No answer")
