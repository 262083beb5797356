"""Put first on PYTHONPATH: every attempt of a Python process to leave this machine is written down.

The path of the list is in CUT_OFF_LIST. Attempts are refused as well, for machines on which the
network cannot be taken away from a process.
"""

from __future__ import annotations

import ipaddress
import os
import sys
import traceback
from typing import Any

_NAMES = ("localhost", "", None, "localhost.localdomain")


def _outside(address: Any) -> bool:
    if not isinstance(address, tuple):
        return False  # a socket of the file system
    host = address[0].decode() if isinstance(address[0], bytes) else address[0]
    if host in _NAMES:
        return False
    try:
        number = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return True
    return not (number.is_loopback or number.is_unspecified)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        address = (arguments[0],)
    else:
        return
    if not _outside(address):
        return
    said = "".join(traceback.format_stack(limit=12))
    with open(os.environ["CUT_OFF_LIST"], "a", encoding="utf-8") as file:
        file.write(f"{event} {address} {sys.argv}\n{said}\n")
    raise OSError(101, "the network is cut off")


if "CUT_OFF_LIST" in os.environ:
    sys.addaudithook(_watch)
