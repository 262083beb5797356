"""Where a coordinator listens, and what other machines call it."""

from __future__ import annotations

import ipaddress
import socket
import sys
from typing import NamedTuple

from anyrig.errors import InvalidInputError

LOCAL = "127.0.0.1"
_ALL = ("0.0.0.0", "::")


class Where(NamedTuple):
    """Addresses of a coordinator."""

    hosts: tuple[str, ...]
    """Where it listens."""
    name: str
    """What others call it."""
    near: str
    """What this machine itself calls it."""
    warnings: tuple[str, ...] = ()


def where(host: str | None, name: str | None) -> Where:
    """Where to listen.

    Args:
        host: what was asked for. Without, the machine's address where that is one of a private
            network, else this machine alone: nobody opens a door to the whole world unasked.
        name: what others shall call it.
    """
    own = own_address()
    if host is None:
        if _is_private(own):
            return Where((own, LOCAL), name or own, LOCAL)
        said = f"its address {own} can be reached by everybody" if own else "it has no network"
        warning = f"only this machine can join, as {said}; --host opens it to others"
        return Where((LOCAL,), name or LOCAL, LOCAL, (warning,))
    plain = resolved(host.strip("[]"))
    if plain in _ALL:
        near = LOCAL if plain == "0.0.0.0" else "::1"
        return Where((plain,), name or own or socket.gethostname(), near)
    if ipaddress.ip_address(plain).is_loopback:
        warning = "only this machine can join; --host opens it to others"
        return Where((plain,), name or plain, plain, (warning,))
    return Where((plain, LOCAL), name or host.strip("[]"), LOCAL)


def own_address() -> str:
    """This machine's address in the network that it is in; empty without one. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        try:
            door.connect(("192.0.2.1", 9))  # an address of nobody, RFC 5737
            found = str(door.getsockname()[0])
        except OSError:
            return ""
    return "" if ipaddress.ip_address(found).is_loopback else found


def resolved(host: str) -> str:
    """A host as a number."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(
            f"--host {host} is no address of this machine: {error}",
            hint="127.0.0.1 is this machine alone, 0.0.0.0 every network that it is in.",
        ) from None
    best = sorted(found, key=lambda one: one[0] != socket.AF_INET)[0]
    return str(best[4][0])


def port_of(asked: int | None, last: int, usual: int) -> int:
    """The port asked for, that of last time, or the usual one; 0 is a free one, which stays."""
    if asked is None:
        return last or usual
    return asked or last or free_port()


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as door:
        door.bind((LOCAL, 0))
        return int(door.getsockname()[1])


def bound(host: str, port: int, flag: str) -> socket.socket:
    """A socket there, or an error that names the flag."""
    door = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":  # there it would let two servers have one port
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((host, port))
    except OSError as error:
        door.close()
        raise InvalidInputError(
            f"cannot listen on {host} port {port}: {error.strerror}",
            hint=f"Something else may be there: {flag} takes another port.",
        ) from None
    return door


def bracketed(host: str) -> str:
    """As it stands in an address."""
    return f"[{host}]" if ":" in host else host


def _is_private(address: str) -> bool:
    return bool(address) and ipaddress.ip_address(address).is_private
