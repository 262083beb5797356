"""Frames: what is sent comes back, and nothing else is taken for one."""

from __future__ import annotations

import ast
import io
import struct
import sys
from pathlib import Path

import pytest

from anyrig.speech.hosting import host
from anyrig.speech.hosting.host import BadFrame, read_frame, write_frame


def _sent(header: dict[str, object], payload: bytes = b"") -> bytes:
    pipe = io.BytesIO()
    write_frame(pipe, header, payload)
    return pipe.getvalue()


def test_frames_come_back_as_they_were_sent() -> None:
    data = _sent({"type": "speak", "text": "¿Qué?\n"}) + _sent({"type": "audio"}, bytes(range(256)))
    pipe = io.BytesIO(data)
    assert read_frame(pipe).header["text"] == "¿Qué?\n"
    assert read_frame(pipe).payload == bytes(range(256))
    with pytest.raises(EOFError):
        read_frame(pipe)


def test_a_frame_cut_anywhere_is_told_from_an_end() -> None:
    whole = _sent({"type": "audio", "id": 3}, b"12345678")
    for length in range(1, len(whole)):
        with pytest.raises(BadFrame, match="middle"):
            read_frame(io.BytesIO(whole[:length]))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Downloading: 100%|####|", "no frame begins"),
        (struct.pack(">3sBII", b"ARH", 2, 2, 0) + b"{}", "version 2"),
        (struct.pack(">3sBII", b"ARH", 1, 2, 1 << 31) + b"{}", "too large"),
        (struct.pack(">3sBII", b"ARH", 1, 1 << 30, 0), "too large"),
        (struct.pack(">3sBII", b"ARH", 1, 3, 0) + b"{x}", "no JSON"),
        (struct.pack(">3sBII", b"ARH", 1, 2, 0) + b"{}", "no type"),
        (struct.pack(">3sBII", b"ARH", 1, 2, 0) + b"[]", "no type"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(BadFrame, match=said):
        read_frame(io.BytesIO(data))


def test_a_frame_too_large_is_not_sent() -> None:
    pipe = io.BytesIO()
    with pytest.raises(BadFrame):
        write_frame(pipe, {"type": "speak", "text": "a" * host.MAX_HEADER})
    assert pipe.getvalue() == b""


def test_the_host_stands_alone() -> None:
    """Nothing but the standard library on top, in the language of Python 3.9."""
    tree = ast.parse(Path(host.__file__).read_text(encoding="utf-8"), feature_version=(3, 9))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else
                     [alias.name for alias in node.names])
    }  # fmt: skip
    assert names - set(sys.stdlib_module_names) == set()


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("short", 20, ["short"]),
        ("one two three four", 9, ["one two", "three", "four"]),
        ("well, that is so", 12, ["well,", "that is so"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
    ],
)
def test_long_texts_are_cut_below_a_limit(text: str, limit: int, pieces: list[str]) -> None:
    assert list(host.cut(text, limit)) == pieces
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
