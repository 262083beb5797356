"""No small file takes a process of ours more than 1 GB above its size when idle."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

pytest.importorskip("resource")
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
sys.stdout.write(done.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 // 10**6)
"""
MOST_MB = 1_000
OCR_IDLE_MB = 250
"""Of a worker with its networks loaded."""


def run(*words: str) -> tuple[str, int]:
    """What a command says on the error stream, and megabytes of its largest process."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, sys.executable, "-m", "anyrig", *words],
        capture_output=True, text=True, timeout=120, check=True, env=dict(os.environ),
    )  # fmt: skip
    *said, peak = done.stdout.splitlines()
    return "\n".join(said), int(peak) // (1 if sys.platform == "linux" else 1024)


# -- pictures -------------------------------------------------------------------------------------


def picture(path: Path, width: int, height: int) -> Path:
    """A blank PNG of one bit a pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff" * ((width + 7) // 8)) * height, 9)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )
    return path


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("width", "height"),
    [(1_000_000, 8), pytest.param(440, 50_000, marks=SLOW)],
)
def test_strips_are_read_within_the_limit(tmp_path: Path, width: int, height: int) -> None:
    pytest.importorskip("rapidocr")
    file = picture(tmp_path / "strip.png", width, height)
    assert file.stat().st_size < 10_000
    said, peak_mb = run("ocr", str(file), "--engine", "rapidocr", "-o", str(tmp_path / "strip.txt"))
    assert "error" not in said
    assert peak_mb < OCR_IDLE_MB + MOST_MB, said


@pytest.mark.slow
def test_a_picture_of_too_many_pixels_is_refused(tmp_path: Path) -> None:
    said, peak_mb = run("ocr", str(picture(tmp_path / "square.png", 20_000, 20_000)))
    assert "20,000 x 20,000 pixels" in said
    assert peak_mb < 300


# -- PDF ------------------------------------------------------------------------------------------


def bomb(size: int) -> bytes:
    """So many spaces, deflated: one block over and over."""
    block = b" " * (1 << 20)
    packer = zlib.compressobj(9)
    first = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    count = size >> 20
    check = 1
    for _ in range(count):
        check = zlib.adler32(block, check)
    end = zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    return first + again * (count - 1) + end + struct.pack(">I", check)


def pdf(path: Path, contents: bytes, *, filters: str, box: str = "0 0 612 792") -> Path:
    head = f"<</Length {len(contents)}/Filter{filters}>>stream\n" if filters else "<<>>stream\n"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[{box}]/Contents 4 0 R>>".encode(),
        head.encode() + contents + b"\nendstream",
    ]
    made, places = b"%PDF-1.7\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"xref\n0 5\n0000000000 65535 f \n" + table
    end = b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % made.index(b"xref\n")
    path.write_bytes(made + end)
    return path


@pytest.fixture(scope="module")
def packed() -> bytes:
    return bomb(1_500 << 20)


@pytest.mark.parametrize(
    ("nested", "command"),
    [(False, "book --list"), pytest.param(True, "analyse --no-vectors", marks=SLOW)],
)
def test_a_packed_stream_that_fills_a_memory_is_refused(
    tmp_path: Path, packed: bytes, nested: bool, command: str
) -> None:
    data = zlib.compress(packed, 9) if nested else packed
    filters = "[/FlateDecode/FlateDecode]" if nested else "/FlateDecode"
    file = pdf(tmp_path / "bomb.pdf", data, filters=filters)
    assert file.stat().st_size < 2_000_000
    name, *more = command.split()
    said, peak_mb = run(name, str(file), *more)
    assert "bomb.pdf" in said
    assert "memory" in said or "takes too long" in said  # on a machine with much else to do
    assert peak_mb < MOST_MB


# -- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "letter"),
    [("hashing", "a"), pytest.param("minilm", "\U0001f642", marks=SLOW)],
)
def test_one_long_word_is_embedded_within_the_limit(
    tmp_path: Path, model: str, letter: str
) -> None:
    (tmp_path / "word.txt").write_text(letter * 3_000_000, encoding="utf-8")
    output = tmp_path / "vectors.npy"
    said, peak_mb = run("embed", str(tmp_path / "word.txt"), "--model", model, "-o", str(output))
    assert output.is_file(), said
    assert peak_mb < 500, said
