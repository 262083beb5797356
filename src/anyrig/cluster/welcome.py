"""Who may join a cluster: one of its version, under a name that nobody else has."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from anyrig.cluster import notice
from anyrig.cluster.card import PROTOCOL, Card, Roll, start_of_system
from anyrig.cluster.link import BEAT_S
from anyrig.errors import InvalidInputError
from anyrig.version import __version__

if TYPE_CHECKING:
    from anyrig.cluster.link import Link

_WATCHED_S = 2.5 * BEAT_S


def check_version(link: Link) -> None:
    """`InvalidInputError` where a coordinator of another version leads the cluster."""
    found = notice.read(link)
    if found is None or (found.version == __version__ and found.protocol in (0, PROTOCOL)):
        return
    raise InvalidInputError(
        f"this worker runs anyrig {__version__}, and the cluster's coordinator "
        f"anyrig {found.version}" + (
            f" (protocols {PROTOCOL} and {found.protocol})"
            if found.version == __version__
            else ""
        ),
        hint="Install the same version on all machines.",
    )  # fmt: skip


def is_alive(link: Link, card: Card, *, shared_pids: bool = True) -> bool:
    """Whether the worker that a card describes still works.

    A card stays for a while after a worker was killed; one that lives counts its beats.

    Args:
        link: to the broker.
        card: as it is there.
        shared_pids: whether processes of this host have the numbers that this process knows; not
            in a container.
    """
    from psutil import pid_exists

    here = (card.host, card.start) == (socket.gethostname(), start_of_system())
    if shared_pids and here and card.pid and not pid_exists(card.pid):
        return False
    roll, end = Roll(link), time.monotonic() + _WATCHED_S
    while time.monotonic() < end:
        time.sleep(0.2)
        now = link.patiently(roll.living).get(card.name)
        if now is None:
            return False
        if (now.run, now.beat) != (card.run, card.beat):
            return True
    return False


def taken(card: Card) -> InvalidInputError:
    """The error for a name that somebody has."""
    return InvalidInputError(
        f"a worker called {card.name} is there already (process {card.pid} on {card.host})",
        hint="Name this one with --name; without it, it finds a free name by itself.",
    )
