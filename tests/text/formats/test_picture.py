"""Pictures are pages without text: upright, in grey, never larger than they may be."""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path

import pytest
from PIL import Image

from anyrig.errors import InvalidInputError, LimitExceededError, MissingPackageError
from anyrig.text.files import detect_format, read
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.picture import count_pages, detect_picture_format, render_pages
from tests.text.picture_making import bomb_png, sheet, squares, tiff


def _drawn(path: Path, number: int = 1, limits: Limits = Limits()) -> bytes:  # noqa: B008
    return next(render_pages(path, [number], 300, limits))


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.png", "png"), ("a.jpg", "jpg"), ("a.tif", "tiff"), ("a.webp", "webp"),
        ("a.gif", "gif"), ("a.bmp", "bmp"), ("a.jp2", "jp2"),
    ],
)  # fmt: skip
def test_every_kind_is_known_and_drawn_and_no_book(tmp_path: Path, name: str, form: str) -> None:
    path = tmp_path / name
    sheet(3, mode="RGB").save(path)
    assert detect_format(path) == form
    assert squares(_drawn(path)) == 3
    lying = path.rename(tmp_path / "b.epub")
    assert detect_format(lying) == form
    with pytest.raises(InvalidInputError, match="is an image, not text") as caught:
        read(lying)
    assert "OCR" in caught.value.hint


@pytest.mark.parametrize("mode", ["1", "P", "RGBA", "CMYK", "I;16", "F"])
def test_every_mode_becomes_grey_on_white(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.tif"
    if mode == "I;16":
        made = sheet(4).convert("I").point(lambda value: value * 200).convert(mode)
    else:
        made = sheet(4).convert(mode)
    if mode == "RGBA":
        made.putalpha(sheet(4).point(lambda value: 255 - value))  # paper is clear, black is not
    made.save(path)
    assert squares(_drawn(path)) == 4
    assert Image.open(io.BytesIO(_drawn(path))).mode == "L"


@pytest.mark.parametrize(
    ("turn", "undo"), [(3, Image.Transpose.ROTATE_180), (6, Image.Transpose.ROTATE_90)]
)
def test_a_camera_s_turn_is_undone(tmp_path: Path, turn: int, undo: Image.Transpose) -> None:
    exif = Image.Exif()
    exif[274] = turn
    sheet(2).transpose(undo).save(tmp_path / "a.jpg", exif=exif.tobytes())
    assert squares(_drawn(tmp_path / "a.jpg")) == 2
    assert Image.open(io.BytesIO(_drawn(tmp_path / "a.jpg"))).size == (300, 400)


def test_a_tiff_has_pages_and_an_animation_one(tmp_path: Path) -> None:
    path = tiff(tmp_path / "a.tif", [1, 2, 3])
    assert count_pages(path, "tiff", Limits()) == 3
    assert [squares(data) for data in render_pages(path, [3, 1, 2], 300, Limits())] == [3, 1, 2]
    with pytest.raises(InvalidInputError, match="no page 4"):
        list(render_pages(path, [4], 300, Limits()))
    with pytest.raises(LimitExceededError, match="more than 2 pages") as caught:
        count_pages(path, "tiff", Limits(pages=2))
    assert caught.value.limit == "pages"
    gif = tmp_path / "a.gif"
    sheet(1).save(gif, save_all=True, append_images=[sheet(2), sheet(3)])
    assert count_pages(gif, "gif", Limits()) == 1


def test_bombs_are_refused_by_their_size_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(bomb_png(50_000, 50_000))
    with pytest.raises(LimitExceededError, match="50,000 x 50,000 pixels") as caught:
        _drawn(path)
    assert caught.value.limit == "pixels"


def test_a_large_picture_is_made_smaller(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(bomb_png(10_000, 8_000))
    width, height = Image.open(io.BytesIO(_drawn(path))).size
    assert 30_000_000 < width * height <= 40_000_000
    assert abs(width / height - 10 / 8) < 0.01


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.webp", "a.gif", "a.bmp", "a.jp2"])
@pytest.mark.parametrize("share", [0.01, 0.9])
def test_cut_short_is_one_error_or_a_picture(tmp_path: Path, name: str, share: float) -> None:
    path = tmp_path / name
    Image.frombytes("L", (200, 200), random.randbytes(40_000)).save(path)
    path.write_bytes(path.read_bytes()[: max(12, int(share * path.stat().st_size))])
    try:
        assert _drawn(path)
    except InvalidInputError as error:
        assert "\n" not in error.message  # noqa: PT017 - decoders differ in what they forgive
        assert error.hint  # noqa: PT017


def test_a_chain_of_pages_that_turns_back_ends(tmp_path: Path) -> None:
    path = tiff(tmp_path / "a.tif", [1, 2])
    data = bytearray(path.read_bytes())
    first = int.from_bytes(data[4:8], "little")
    count = int.from_bytes(data[first : first + 2], "little")
    data[first + 2 + 12 * count : first + 6 + 12 * count] = first.to_bytes(4, "little")
    path.write_bytes(data)
    assert count_pages(path, "tiff", Limits(pages=50)) <= 50


@pytest.mark.parametrize(
    "head", [b"BM is how it begins", b"II. The second", b"RIFF raff", b"GIF of mine", b"MM", b""]
)
def test_words_are_no_pictures(head: bytes) -> None:
    assert detect_picture_format(head) == ""


def test_called_a_picture_and_none(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("just words")
    with pytest.raises(InvalidInputError, match=r"not a valid \.png file"):
        detect_format(tmp_path / "a.png")


@pytest.mark.parametrize(
    "head",
    [b"\xff\xd8\xff\xe0", b"GIF89a", b"II*\x00", b"\x00\x00\x00\x1cftypavif"],
)
def test_a_head_and_nothing_behind_it_is_a_damaged_picture(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "scan"
    path.write_bytes(head + bytes(100))
    with pytest.raises(InvalidInputError, match="scan") as caught:
        count_pages(path, detect_picture_format(head + bytes(100)), Limits())
    assert "MPO" not in caught.value.message


def test_a_camera_s_picture_of_several_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    one = sheet(3, mode="RGB")
    one.save(path, "MPO", save_all=True, append_images=[one])
    assert squares(_drawn(path)) == 3


HEIC = Path(__file__).parent / "files" / "invoice.heic"


def test_pictures_of_phones_are_drawn() -> None:
    pytest.importorskip("pi_heif")
    assert detect_format(HEIC) == "heic"
    with Image.open(io.BytesIO(_drawn(HEIC))) as image:
        assert (image.size, image.mode) == ((640, 120), "L")
        assert min(image.tobytes()) < 60


def test_without_their_library_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Image.init()
    monkeypatch.delitem(Image.OPEN, "HEIF", raising=False)
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with pytest.raises(MissingPackageError, match="HEIC picture") as caught:
        _drawn(HEIC)
    assert "anyrig[ocr]" in caught.value.hint
