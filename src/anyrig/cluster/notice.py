"""What the coordinator tells everybody in the broker: who it is, and where its box stands.

It ends by itself when the coordinator does. The key of the box lies beside its address: whoever can
read the broker can read every answer that lies in it, and the box holds nothing else.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from anyrig.cluster.link import Link

NOTICE_S = 15
"""A coordinator that gave no sign for so long is taken to be gone."""
RENEW_S = 5.0
_LONGEST = 16_000


@dataclass(frozen=True)
class Notice:
    """A coordinator, as it tells of itself."""

    version: str = ""
    """Of anyrig."""
    protocol: int = 0
    box: str = ""
    """The address of its box; empty where there is none."""
    box_key: str = ""
    host: str = ""
    pid: int = 0
    flower: str = ""
    """The address of Flower, where it was started."""

    def public(self) -> dict[str, Any]:
        """For programs and screens: without the key."""
        return {name: value for name, value in asdict(self).items() if name != "box_key"}


def write(link: Link, notice: Notice) -> None:
    """Tell it, for a while."""
    link.redis.set(link.name("cluster"), json.dumps(asdict(notice)), ex=NOTICE_S)


def withdraw(link: Link) -> None:
    """Tell it no more."""
    link.redis.delete(link.name("cluster"))


def read(link: Link) -> Notice | None:
    """What a coordinator tells; None where there is none."""
    found = cast("bytes | None", link.redis.get(link.name("cluster")))
    return of(found)


def of(text: bytes | str | None) -> Notice | None:
    """What a coordinator wrote; None for what is none of ours."""
    if text is None or len(text) > _LONGEST:
        return None
    try:
        said = json.loads(text)
        given = {
            one.name: said[one.name] for one in fields(Notice)
            if type(said.get(one.name)) is type(one.default)
        }  # fmt: skip
    except (ValueError, AttributeError):
        return None
    return Notice(**given)
