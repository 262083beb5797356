"""TOML of strangers: read with bounds that the standard reader lacks."""

from __future__ import annotations

import tomllib
from typing import Any

_MOST_DOTS = 200


def read(text: str) -> dict[str, Any]:
    """What a text says; `TOMLDecodeError` also where reading it would take no end.

    A key of many parts costs time and memory by the square of their number, gigabytes for a few
    kilobytes of text; brackets without end break the reader off.
    """
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise tomllib.TOMLDecodeError(f"a line has over {_MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None
