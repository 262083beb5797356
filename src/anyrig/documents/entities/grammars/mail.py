"""E-mail addresses: the part of the standard that people use, without what stands around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.reading import Reading

_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 253
_LOCAL = re.compile(r"[\w!#$%&'*+/=?^`{|}~.-]+")  # looked for backwards
_DOMAIN = re.compile(
    r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,10}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,59})(?![\w@]|-\w)"
)
_EDGE = "'`.*/=?^{|}~!#$%&+-"


def find(reading: Reading) -> Iterator[Entity]:
    """Every address, from one @ to the next: the work is bounded around each."""
    plain = reading.plain
    at = plain.find("@")
    while at >= 0:
        span = _around(plain, at)
        if span is not None:
            local, _, domain = reading.text[span[0] : span[1]].partition("@")
            yield reading.entity("email", span, f"{local}@{domain.lower()}", score=0.99)
        at = plain.find("@", at + 1)


def _around(plain: str, at: int) -> tuple[int, int] | None:
    domain = _DOMAIN.match(plain, at + 1, at + 2 + _LONGEST_DOMAIN)
    if domain is None or at == 0:
        return None
    first = max(0, at - _LONGEST_LOCAL - 1)
    run = _LOCAL.match(plain[first:at][::-1])
    if run is None:
        return None
    start = at - run.end()
    while start < at and plain[start] in _EDGE:
        start += 1
    local = plain[start:at]
    if not local or len(local) > _LONGEST_LOCAL or local.endswith(".") or ".." in local:
        return None
    return None if _is_link(plain, start, domain.end()) else (start, domain.end())


def _is_link(plain: str, start: int, end: int) -> bool:
    """Whether it is a piece of something else: https://user:word@host, git@host:path, a@b@c."""
    before = plain[max(0, start - 80) : start]
    token = re.split(r"[\s<>(\"]", before)[-1]
    if "://" in token or before.endswith("@"):
        return True
    return re.match(r":[\w.~-]+/\S", plain[end : end + 80]) is not None
