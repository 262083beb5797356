"""How much was asked for, free and there, read out of an error's text."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

# GB is meant as GiB by those who print it: XLA's "17.79G (19104890880 bytes)" says so itself.
_POWERS = {"b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_NUMBER = (
    r"(?P<number>\d[\d,]{0,30}(?:\.\d{0,12})?)\s?"
    r"(?P<unit>[Bb]ytes?|[KMGTPE]i?B|[KMGTPE]\b|B\b)"
)
_COUNT = r"(?P<number>\d{1,40})"
# Some say it twice, roughly and then to the byte.
_EXACT = re.compile(r"\s?\(([\d,]{1,40}) ?(?:B|[Bb]ytes)\)")


class Amounts(NamedTuple):
    """Bytes, each None where the text does not tell."""

    asked: int | None = None
    free: int | None = None
    total: int | None = None


# In order: the first that fits counts. {n} is a number with its unit, {c} a plain count of bytes.
_ASKED = (
    r"(?:[Tt]ried|attempted) to allocate (?:more than )?{n}",
    r"[Tt]rying to allocate {n}",
    r"requested buffer of size {c}",
    r"requested bytes of {c}",
    r"Requested[ ]*: {n}",
    r"[Rr]equested amount of (?:GPU )?memory \({n}\)",
    r"Requested size was {n}",
    r"[Rr]equested {n}",
    r"[Rr]equired {n}",
    r"allocate buffer: {c}",
    r"MTLBuffer for size {c}",
    r"Allocation failed for size::{c}",
    r"alloc memory of {c}",
    r"allocate tensor with {n}",
    r"Buffer size \({c}\)",
    r"Invalid buffer size: {n}",
    r"[Aa]llocation (?:request )?(?:for|of) (?:size )?{n}",
    r"request for {n}",
    r"[Aa]llocation error \d+: {n}",
    r"pinned (?:host )?memory of size: {c}",
    r"[Bb]uffer of size {c}",
    r"{n} asked for",  # our own
    r"(?:alloc|allocate|allocating|cudaMalloc|mmap) {n}",
    r"(?:allocation|malloc|space \w+ stream \S+) (?:of )?size {c}",
)
_FREE = (
    r"of which {n} is free",
    r"Free \(according to CUDA\)[ ]*: {n}",
    r"[Aa]vailable memory is only {n}",
    r"Available memory of {c}",
    r"There are {n} free",
    r"[Ff]ree memory: {n}",
    r"; {n} free\b",
    r"Driver report {n} free",
)
_TOTAL = (
    r"total capac(?:i?ty) of {n}",
    r"{n} total capacity",
    r"Device limit[ ]*: {n}",
    r"max allowed: {n}",
    r"free and {n} total",
)


def amounts_in(text: str) -> Amounts:
    """What a text tells in bytes."""
    return Amounts(_first(_ASKED, text), _first(_FREE, text), _first(_TOTAL, text))


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    for pattern in patterns:
        found = _compiled(pattern).search(text)
        if found:
            exact = _EXACT.match(text, found.end())
            if exact:
                return _bytes(exact[1], "B")
            return _bytes(found["number"], found.groupdict().get("unit") or "B")
    return None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("{n}", _NUMBER).replace("{c}", _COUNT))


def _bytes(number: str, unit: str) -> int:
    plain = number.replace(",", "")
    factor: int = 1024 ** _POWERS[unit[0].lower()]
    return int(plain) * factor if plain.isdigit() else round(float(plain) * factor)
