"""Covers: kept as they are where players show them, made so where they do not, or left out."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from PIL import Image

from anyrig.audiobooks.metadata import MAX_COVER_PIXELS, BookTags, prepare_cover
from anyrig.audiobooks.write import write_book, write_chapters
from anyrig.text.document import Picture
from tests.audiobooks import clicks
from tests.text.picture_making import bomb_png


def picture(
    kind: str, size: tuple[int, int] = (300, 400), mode: str = "RGB", **save: object
) -> Picture:
    out = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert(mode).save(out, kind, **save)
    return Picture(out.getvalue(), f"image/{kind.lower()}")


@pytest.mark.parametrize(("kind", "mode"), [("JPEG", "L"), ("PNG", "RGBA")])
def test_what_players_show_is_kept_as_it_is(kind: str, mode: str) -> None:
    given = picture(kind, mode=mode)
    wrongly = Picture(given.data, "application/octet-stream")
    for made in (prepare_cover(given), prepare_cover(wrongly)):
        assert made.picture == given
        assert not made.warning


@pytest.mark.parametrize(("kind", "mode"), [("GIF", "P"), ("WEBP", "RGB"), ("JPEG", "CMYK")])
def test_others_become_jpeg(kind: str, mode: str) -> None:
    made = prepare_cover(picture(kind, mode=mode)).picture
    assert made is not None
    assert made.media_type == "image/jpeg"
    with Image.open(io.BytesIO(made.data)) as image:
        assert (image.format, image.size, image.mode) == ("JPEG", (300, 400), "RGB")


def test_what_is_seen_through_becomes_white() -> None:
    out = io.BytesIO()
    Image.new("RGBA", (40, 60), (255, 0, 0, 0)).save(out, "WEBP", lossless=True)
    made = prepare_cover(Picture(out.getvalue(), "image/webp")).picture
    assert made is not None
    with Image.open(io.BytesIO(made.data)) as image:
        assert min(image.tobytes()) > 250


def test_large_ones_are_scaled() -> None:
    made = prepare_cover(picture("PNG", (3000, 4500))).picture
    assert made is not None
    with Image.open(io.BytesIO(made.data)) as image:
        assert max(image.size) <= MAX_COVER_PIXELS
        assert abs(image.size[0] / image.size[1] - 2 / 3) < 0.01
        assert image.size[1] > MAX_COVER_PIXELS // 2


def test_turned_ones_stand_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    made = prepare_cover(picture("JPEG", (300, 200), exif=exif)).picture
    assert made is not None
    with Image.open(io.BytesIO(made.data)) as image:
        assert image.size == (200, 300)


WHOLE = picture("JPEG").data
BROKEN = {
    "empty": b"",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><rect width='9' height='9'/></svg>",
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "cut jpeg": WHOLE[: len(WHOLE) // 2],
    "noise in png": picture("PNG").data[:60] + bytes(range(256)) * 3,
    "bomb": bomb_png(1_000, 1_000_000),
    "long bomb": bomb_png(10_000_000, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_ones_are_left_out_with_a_word(name: str, tmp_path: Path) -> None:
    given = Picture(BROKEN[name], "image/jpeg")
    made = prepare_cover(given)
    assert made.picture is None
    assert made.warning.startswith("the cover is left out: ")
    assert len(made.warning) < 160
    book = clicks.timeline([0], 2400, 24000)
    written = write_book(tmp_path / "b.m4b", clicks.parts(book), book, BookTags(title="t"), given)
    assert written.warnings == (made.warning,)
    assert written.files[0].exists()


@pytest.mark.parametrize("name", ["empty", "svg", "postscript"])
def test_what_is_no_picture_is_called_that(name: str) -> None:
    warning = prepare_cover(Picture(BROKEN[name], "image/jpeg")).warning
    assert warning == "the cover is left out: it cannot be read (no picture)"


@pytest.mark.parametrize(("kind", "more"), [("MPO", True), ("JPEG2000", False), ("AVIF", False)])
def test_every_kind_of_picture_that_is_read_elsewhere_is_a_cover(kind: str, more: bool) -> None:
    Image.init()
    if kind not in Image.SAVE:
        pytest.skip(f"this Pillow does not write {kind}")
    out = io.BytesIO()
    image = Image.linear_gradient("L").resize((300, 400)).convert("RGB")
    image.save(out, kind, **({"save_all": True, "append_images": [image]} if more else {}))
    made = prepare_cover(Picture(out.getvalue(), "image/jpeg")).picture
    assert made is not None
    with Image.open(io.BytesIO(made.data)) as cover:
        assert (cover.format, cover.size) == ("JPEG", (300, 400))


def test_a_book_shows_its_cover(tmp_path: Path) -> None:
    import av

    given = picture("GIF")
    book = clicks.timeline([0, 9000], 24000, 24000)
    path = tmp_path / "b.m4b"
    write_book(path, clicks.parts(book), book, BookTags(title="t"), given)
    expected = prepare_cover(given).picture
    assert expected is not None
    with av.open(str(path)) as file:
        assert len(file.chapters()) == 2
        shown = file.streams.video[0]
        assert (shown.width, shown.height) == (300, 400)
        assert next(bytes(packet) for packet in file.demux(shown)) == expected.data


@pytest.mark.parametrize("name", ["opus", "flac", "wav", "mp3"])
def test_a_cover_lies_beside_chapters_that_cannot_hold_it(tmp_path: Path, name: str) -> None:
    book = clicks.timeline([0, 9000], 24000, 24000)
    given = picture("JPEG")
    write_chapters(tmp_path, clicks.parts(book), book, BookTags(title="t"), given, format=name)
    found = list(tmp_path.glob("cover.*"))
    assert [path.name for path in found] == ([] if name == "mp3" else ["cover.jpg"])
    assert all(path.read_bytes() == given.data for path in found)


def test_a_cover_whose_decoder_takes_too_much_memory_is_left_out() -> None:
    # JPEG 2000 of 6,300 x 6,300 pixels in four channels, without a pixel in it.
    inner = struct.pack(">I4sIIHBBBB", 22, b"ihdr", 6_300, 6_300, 4, 7, 7, 0, 0)
    inner += struct.pack(">I4sBBBI", 15, b"colr", 1, 0, 0, 16)
    start = b"\x00\x00\x00\x0cjP  \r\n\x87\n"
    start += struct.pack(">I4s4sI4s", 20, b"ftyp", b"jp2 ", 0, b"jp2 ")
    data = start + struct.pack(">I4s", 8 + len(inner), b"jp2h") + inner
    made = prepare_cover(Picture(data, "image/jp2"))
    assert made.picture is None
    assert "takes too much memory" in made.warning
