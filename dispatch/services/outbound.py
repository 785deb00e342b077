"""One POST to an address that somebody typed in: the only way out of the product, and a guarded one.

Never into the own network: every address that the name stands for must be public, unless EVENFLOW_WEBHOOK_PRIVATE=1
permits loopback, private and link-local ones, and http beside https. The name is resolved once and the connection
goes to that very address. Redirects are not followed, no proxy is asked, the whole try has a time, and only the
beginning of the answer is read.
"""

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

TIMEOUT_S = 10.0
CONNECT_S = 5.0
EXCERPT_BYTES = 1024  # of an answer
MAX_URL = 2000
MAX_RETRY_AFTER_S = 4 * 3600.0
PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")  # `is_global` also holds for site-local and IPv4-compatible addresses
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class _Refused(Exception):
    """The guard does not let this one through."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one try. `status` None: no answer; `error` is empty after a 2xx."""

    status: int | None
    latency_ms: int
    excerpt: str
    error: str
    retry_after_s: float | None = None

    @property
    def arrived(self) -> bool:
        """Whether the receiver said that it has it."""
        return not self.error


def problem(url: str) -> str | None:
    """The sentence for an address that cannot be used, or None. Names are looked up only when something is sent."""
    if not 1 <= len(url) <= MAX_URL or not url.isascii() or any(char <= " " or char == "\x7f" for char in url):
        return f"must be an address of at most {MAX_URL} plain characters"
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # an impossible port raises here
    except ValueError:
        return "must be an address such as https://example.com/hook"
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        return "must be an address such as https://example.com/hook"
    if parts.username is not None or parts.password is not None or parts.fragment:
        return "must have no user, password or fragment"
    if parts.scheme == "http" and not settings.EVENFLOW_WEBHOOK_PRIVATE:
        return "must begin with https:// (http needs EVENFLOW_WEBHOOK_PRIVATE=1)"
    with contextlib.suppress(ValueError):
        if not permitted(ipaddress.ip_address(parts.hostname)):
            return "must not lead into a private network (EVENFLOW_WEBHOOK_PRIVATE=1 permits it)"
    return None


def permitted(address: Address) -> bool:
    """Whether something may be sent to this address."""
    if settings.EVENFLOW_WEBHOOK_PRIVATE:
        return not (address.is_multicast or address.is_unspecified)
    if isinstance(address, ipaddress.IPv6Address):
        if inner := _inside(address):
            return permitted(inner)
        if address not in PUBLIC_V6:
            return False
    return address.is_global and not address.is_multicast


def _inside(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to, if it does (mapped, 6to4, NAT64)."""
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _resolve(host: str, port: int) -> str:
    """The one address that is used; all addresses of the name must be permitted."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses or not all(permitted(ipaddress.ip_address(address.split("%")[0])) for address in addresses):
        raise _Refused("The name leads into a private network.")
    return addresses[0]


class _Pinned(http.client.HTTPConnection):
    """A connection to an address that was checked; the name is only shown and verified."""

    def __init__(self, parts: SplitResult, address: str) -> None:
        secure = parts.scheme == "https"
        super().__init__(parts.hostname or "", parts.port or (443 if secure else 80), timeout=CONNECT_S)
        self.default_port = 443 if secure else 80
        self._tls = ssl.create_default_context() if secure else None
        self._address = address

    def connect(self) -> None:
        """To the checked address."""
        self.sock = socket.create_connection((self._address, self.port), CONNECT_S)
        self.sock.settimeout(TIMEOUT_S)

    def secure(self) -> None:
        """Speak TLS for the name, where the address asks for it; apart, because the other side may drip here too."""
        if self._tls:
            shaking = self._tls.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock = shaking  # before the handshake: it is what can be cut
            shaking.do_handshake()


def post(url: str, body: bytes, headers: Mapping[str, str]) -> Sent:
    """Send `body`; raises nothing. 2xx is success, everything else a failure that says why."""
    started = time.monotonic()

    def failed(why: str) -> Sent:
        return Sent(None, _since(started), "", why)

    if why := problem(url):
        return failed(f"The address {why}.")
    parts = urlsplit(url)
    try:
        address = _resolve(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        with contextlib.closing(_Pinned(parts, address)) as connection:
            connection.connect()
            with _hung_up(connection, TIMEOUT_S - (time.monotonic() - started)):
                connection.secure()
                target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request("POST", target, body, dict(headers))
                answer = connection.getresponse()
                excerpt = answer.read(EXCERPT_BYTES).decode("utf-8", "replace").replace("\0", "\ufffd")
    except _Refused as refusal:
        return failed(str(refusal))
    except TimeoutError:
        return failed("No answer in time.")
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        late = time.monotonic() - started >= TIMEOUT_S
        return failed("No answer in time." if late else f"No answer: {_plain(error)}.")
    why = "" if 200 <= answer.status < 300 else f"The answer was {answer.status}."
    if 300 <= answer.status < 400:
        why = f"The answer was {answer.status}; redirects are not followed."
    return Sent(answer.status, _since(started), excerpt, why, _wait(answer.headers.get("Retry-After")))


@contextlib.contextmanager
def _hung_up(connection: _Pinned, after_s: float) -> Iterator[None]:
    """Cut the connection when its time is over, also while the other side drips byte after byte."""

    def cut() -> None:
        with contextlib.suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(0.1, after_s), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def _plain(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.replace("\0", "\ufffd")[:200].rstrip(".")


def _wait(text: str | None) -> float | None:
    """A Retry-After in seconds; dates are not understood."""
    return min(float(text), MAX_RETRY_AFTER_S) if text and text.isdecimal() and len(text) < 10 else None
