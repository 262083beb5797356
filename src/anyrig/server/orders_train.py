"""A training run that came from outside: its file is read, and every path in it must be allowed.

`upload:ID` stands for a file that was sent. Nothing else in the file may look like a path, unless
it lies in a folder of the allow-list: a run must not read what its sender could not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from anyrig.errors import BadInput
from anyrig.text import toml

_MOST_BYTES = 1 << 20
_UPLOAD = re.compile(r"""(["'])upload:([0-9a-f]+)\1""")
_DRIVE = re.compile(r"[A-Za-z]:")


def copied(
    source: Path,
    target: Path,
    given: Callable[[str], Path],
    allowed: Callable[[str], str],
    more: Any = None,
) -> None:
    """Write the file anew, its uploads as paths; `BadInput` where it names others.

    Args:
        source: as it was sent.
        target: where it goes.
        given: the path of `upload:ID`.
        allowed: raises for a path that is not.
        more: values that come over the file's, by `[table.]name`.
    """
    data = source.read_bytes()
    if len(data) > _MOST_BYTES:
        raise BadInput("the file is too long for settings", hint="Send a TOML file.")
    paths: set[str] = set()

    def put(match: re.Match[str]) -> str:
        path = str(given(f"upload:{match[2]}"))
        paths.add(path)
        return json.dumps(path)

    try:
        text = _UPLOAD.sub(put, data.decode("utf-8-sig"))
        found = toml.read(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            "the file is no TOML of a training run", hint="docs/training.md shows the layout."
        ) from error
    values = list(_texts(found)) + list(_texts(more if isinstance(more, Mapping) else {}))
    for value in values:
        if value not in paths and _path_like(value):
            allowed(value)
    target.write_text(text, encoding="utf-8")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _path_like(text: str) -> bool:
    return (
        "/" in text or "\\" in text or ".." in text or text.startswith("~")
        or text.startswith("upload:") or _DRIVE.match(text) is not None
    )  # fmt: skip
