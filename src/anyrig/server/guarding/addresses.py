"""By which names the server may be called, and from which pages.

A page on the internet can have its own name lead to this machine, and so look to a browser as if it
were one with the server (DNS rebinding). It cannot choose the Host header that the browser sends:
only names known here are answered. Addresses in numbers cannot be made to lead elsewhere.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

_LOCAL = frozenset({"localhost"})
_USUAL_PORT = 80
_PASSED_ON = frozenset(
    b"forwarded via x-real-ip x-client-ip client-ip x-cluster-client-ip true-client-ip"
    b" fastly-client-ip fly-client-ip x-proxyuser-ip x-original-url x-original-host x-rewrite-url"
    b" x-scheme x-request-start cdn-loop x-amzn-trace-id x-cloud-trace-context".split()
)
_PASSED_ON_STARTS = (b"x-forwarded", b"x-envoy-", b"cf-", b"x-arr-", b"x-azure-", b"x-original-f")
"""Headers by which a proxy tells that it speaks for somebody else."""


class Addresses:
    """The names and pages of one server.

    Args:
        bound: the address it listens on.
        hosts: further names; `*` is any.
        cors: pages of others whose scripts may call.
    """

    def __init__(self, bound: str, hosts: Iterable[str] = (), cors: Iterable[str] = ()) -> None:
        self._bound = _bare(bound)
        self._names = {_bare(one) for one in hosts}
        self._cors = {one.strip().rstrip("/").lower() for one in cors}
        self._here = is_loopback(self._bound)
        if not self._here:  # whoever calls from elsewhere may know this machine by its name
            name = socket.gethostname().lower()
            self._names |= {name, f"{name}.local", self._bound}

    def known(self, host: str) -> bool:
        """Whether a Host header is one that this server answers to."""
        name = hostname(host)
        if not name:
            return False
        if is_loopback(name) or name in self._names or "*" in self._names:
            return True
        return not self._here and _is_number(name)

    def same(self, origin: str, host: str) -> bool:
        """Whether a page is the server's own, by the headers Origin and Host."""
        start, _, rest = origin.lower().partition("://")
        if start not in ("http", "https") or not rest:
            return False
        return _without_port(rest) == _without_port(host.lower())

    def allowed(self, origin: str) -> bool:
        """Whether a page of others was named in the settings."""
        return origin.strip().lower() in self._cors


def hostname(host: str) -> str:
    """The name in a Host header, without its port; empty where it is none."""
    if not host or any(one in host for one in "/@?#\\ ,"):
        return ""
    try:
        found = urlsplit(f"//{host}")
        _ = found.port  # refused where it is no number
        return (found.hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_own(host: str, port: int) -> bool:
    """Whether a Host header is what a client on this machine sends: its own name, and our port.

    Args:
        host: the header.
        port: that the server listens on; 0 where nobody knows.
    """
    if not is_loopback(hostname(host)):
        return False
    return not port or (urlsplit(f"//{host}").port or _USUAL_PORT) == port


def passes_on(headers: Iterable[bytes]) -> bool:
    """Whether a request has a header that only proxies add."""
    return any(name in _PASSED_ON or name.startswith(_PASSED_ON_STARTS) for name in headers)


def is_loopback(name: str) -> bool:
    """Whether a name means this machine."""
    if name in _LOCAL:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def words(text: str) -> list[str]:
    """A list of a setting, with commas."""
    return [one.strip() for one in text.split(",") if one.strip()]


def _bare(host: str) -> str:
    return host.strip().strip("[]").rstrip(".").lower()


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    """An address without a port that goes without saying."""
    for usual in (":80", ":443"):
        if host.endswith(usual) and not host.endswith(":" + usual):
            return host.removesuffix(usual)
    return host
