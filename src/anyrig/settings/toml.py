"""TOML from any source: parsed with limits that the standard parser lacks."""

from __future__ import annotations

import tomllib
from typing import Any

_MOST_DOTS = 200


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a text; `TOMLDecodeError` also where it would take too much time or memory.

    A key of many parts costs time and memory by the square of their number, gigabytes for a few
    kilobytes of text; deeply nested brackets exceed the recursion limit.
    """
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise tomllib.TOMLDecodeError(f"a line has over {_MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None
