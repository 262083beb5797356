"""Training pictures of many pixels take bounded memory."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anyrig.errors import LimitExceededError
from anyrig.training.tasks import pictures

pytest.importorskip("resource")
MEASURE = """
import resource, sys
from pathlib import Path
from anyrig.training.tasks import pictures
import PIL.ImageOps
idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
folder = Path(sys.argv[1])
assert len(pictures.gather(folder / "in", folder, 32, 3, 1.0).names) == 4
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) * 1024 // 10**6)
"""


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def large_png(path: Path, side: int) -> None:
    """White, of four bytes a pixel."""
    head = struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff" * (4 * side)) * side, 1)
    made = chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + made)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count in other units")
def test_several_large_pictures_are_not_in_memory_at_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    large_png(tmp_path / "in" / "0.png", 3_600)
    for number in (1, 2, 3):
        shutil.copy(tmp_path / "in" / "0.png", tmp_path / "in" / f"{number}.png")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 350


def test_a_picture_whose_decoder_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    # JPEG 2000 of 9,000 x 9,000 pixels in four channels, without a pixel in it.
    size = struct.pack(">IIHBBBB", 9_000, 9_000, 4, 7, 7, 0, 0)
    inner = struct.pack(">I4s", 22, b"ihdr") + size
    inner += struct.pack(">I4sBBBI", 15, b"colr", 1, 0, 0, 16)
    header = struct.pack(">I4s", 8 + len(inner), b"jp2h") + inner
    start = b"\x00\x00\x00\x0cjP  \r\n\x87\n" + struct.pack(
        ">I4s4sI4s", 20, b"ftyp", b"jp2 ", 0, b"jp2 "
    )
    (tmp_path / "large.jp2").write_bytes(start + header)
    with pytest.raises(LimitExceededError, match="more than 800 MB to decode"):
        pictures.read(tmp_path / "large.jp2", 32, 3)


@pytest.mark.parametrize("mode", ["RGBA", "I;16", "1"])
def test_a_large_picture_looks_like_its_small_copy(tmp_path: Path, mode: str) -> None:
    small = Image.fromarray(np.arange(0, 240, 15, dtype=np.uint8).reshape(4, 4) + 15)
    whole = small.resize((2_400, 2_000), Image.Resampling.BICUBIC)
    if mode == "I;16":
        whole = Image.fromarray(np.asarray(whole, np.uint16) * 257)
    elif mode == "1":
        whole = whole.point(lambda value: 255 * (value > 120)).convert("1")
    else:
        whole = whole.convert(mode)
    whole.save(tmp_path / "large.png")
    whole.resize((1_200, 1_000)).save(tmp_path / "small.png")
    large, little = (
        pictures.read(tmp_path / f"{name}.png", 16, 1).astype(int) for name in ("large", "small")
    )
    assert np.abs(large - little).max() <= (40 if mode == "1" else 6)
