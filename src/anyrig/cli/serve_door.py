"""Where the server listens: the address is taken, and told as it can be opened."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import sys
from collections.abc import Iterator

from anyrig.errors import InvalidInputError

_HOSTS = "127.0.0.1 is this machine alone, 0.0.0.0 everybody who can reach it."
_EVERY = ("0.0.0.0", "::", "")


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@contextlib.contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket at the address, taken before anything is loaded: a mistake is told at once."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM,
                                   flags=socket.AI_PASSIVE)  # fmt: skip
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(
            f"--host {host} is no address of this machine: {error}", hint=_HOSTS
        ) from None
    family, kind, protocol, _, address = sorted(found, key=lambda one: one[0] != socket.AF_INET)[0]
    with socket.socket(family, kind, protocol) as door:
        if sys.platform != "win32":  # there it would let two servers have one port
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(address)
        except OSError as error:
            raise InvalidInputError(
                f"cannot listen on {host} port {port}: {error.strerror}", hint=_way_out(error, port)
            ) from None
        yield door


def _way_out(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"It is no address of this machine. {_HOSTS}"
    if error.errno == errno.EACCES and port < 1024:
        return "Ports below 1024 are the system's: --port takes another, 3000 when not given."
    return "Another server may be there: --port takes another, --port 0 any free one."


def urls(host: str, port: int) -> list[str]:
    """How it can be opened, from this machine first; of every address, all that this machine has.

    A machine without a network has but the first.
    """
    plain = host.strip("[]")
    if plain not in _EVERY:
        return [_url(plain, port)]
    return [_url(one, port) for one in ("127.0.0.1", *_others(ipv6=plain == "::"))]


def _url(address: str, port: int) -> str:
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _others(*, ipv6: bool) -> list[str]:
    """Addresses of this machine that other machines can use."""
    import psutil

    kinds = (socket.AF_INET, socket.AF_INET6) if ipv6 else (socket.AF_INET,)
    try:
        found = [one.address for rows in psutil.net_if_addrs().values() for one in rows
                 if one.family in kinds]  # fmt: skip
    except OSError:
        return []
    return [one for one in dict.fromkeys(found) if not _only_here(one)]


def _only_here(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:  # fe80::1%eth0
        return True
    return found.is_loopback or found.is_link_local


def said(host: str, port: int) -> str:
    """That it listens, for people."""
    first, *others = urls(host, port)
    if host.strip("[]") not in _EVERY:
        return f"Listening on {first}  (Ctrl+C ends it)"
    lines = [f"Listening on every address of this machine, port {port}  (Ctrl+C ends it)"]
    lines += [f"  {first}  on this machine", *(f"  {one}  from others" for one in others)]
    return "\n".join(lines)
