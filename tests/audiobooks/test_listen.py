"""Finished books are read as a listener hears them, whatever they are written in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anyrig.audiobooks.listen import Reader, blocks, finished
from anyrig.errors import InvalidInputError
from anyrig.speech.audio import Samples
from anyrig.speech.sound.encode import encoder
from anyrig.speech.sound.labels import ChapterMark

RATE = 24000
SECONDS = 20


def sweep() -> Samples:
    """Never twice the same, so a shift by a few samples shows."""
    time = np.arange(SECONDS * RATE) / RATE
    return (0.4 * np.sin(2 * np.pi * (200 + 40 * time) * time)).astype(np.float32)


def write(path: Path, samples: Samples, **more: object) -> Path:
    with encoder(path, rate=RATE, **more) as out:  # type: ignore[arg-type]
        out.write(samples)
    return path


@pytest.mark.parametrize("ending", ["wav", "flac", "mp3", "opus", "m4b"])
def test_samples_come_where_they_were_put(tmp_path: Path, ending: str) -> None:
    book = finished(write(tmp_path / f"book.{ending}", sweep()))
    heard = np.concatenate([block for _, block in blocks(book)])[:, 0]
    rate = book.rate
    assert abs(len(heard) - SECONDS * rate) <= 1024, "a frame of AAC at most"
    assert book.duration_s == pytest.approx(len(heard) / rate)
    reader = Reader()
    for start_s in (3.0, 11.25, 0.0, 17.5):  # backwards as well
        part = reader.mono(book.tracks[0], start_s, start_s + 1.5)
        first = round(start_s * rate)
        assert len(part) == round(1.5 * rate)
        assert np.corrcoef(part, heard[first : first + len(part)])[0, 1] > 0.99
        if rate == RATE:
            wanted = sweep()[first : first + len(part)]
            assert np.corrcoef(part, wanted)[0, 1] > 0.95
    reader.close()


def test_blocks_are_small_and_belong_to_their_chapter(tmp_path: Path) -> None:
    third = SECONDS * RATE // 3
    marks = [ChapterMark(f"Part {n}", n * third, (n + 1) * third) for n in range(3)]
    book = finished(write(tmp_path / "book.m4b", sweep(), chapters=marks))
    assert book.marked
    assert [track.title for track in book.tracks] == ["Part 0", "Part 1", "Part 2"]
    assert [track.offset_s for track in book.tracks] == pytest.approx([0, 20 / 3, 40 / 3], abs=1e-3)
    sizes = [0, 0, 0]
    for number, block in blocks(book):
        assert len(block) < 6 * RATE
        sizes[number] += len(block)
    assert sizes == [track.end - track.start for track in book.tracks]
    assert book.tracks[0].end == book.tracks[1].start


def test_a_file_without_chapters_is_one(tmp_path: Path) -> None:
    book = finished(write(tmp_path / "07 - A tale.flac", sweep()))
    assert not book.marked
    assert [track.title for track in book.tracks] == ["A tale"]


def test_a_folder_is_a_book_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        name = f"{number} Chapter {number}.mp3"
        write(tmp_path / name, sweep()[: number * RATE], tags={"title": f"Called {number}"})
    (tmp_path / "book.m3u8").write_text("x", encoding="utf-8")
    book = finished(tmp_path)
    assert [track.title for track in book.tracks] == ["Called 1", "Called 2", "Called 10"]
    assert book.codec == "mp3"
    assert book.tracks[2].offset_s == pytest.approx(3.0, abs=0.1)
    assert {number for number, _ in blocks(book)} == {0, 1, 2}


def test_what_is_no_sound_is_told_plainly(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there is no"):
        finished(tmp_path / "none.m4b")
    with pytest.raises(InvalidInputError, match="holds no sound"):
        finished(tmp_path)
    for ending in ("m4b", "mp3", "wav", "opus"):
        broken = tmp_path / f"broken.{ending}"
        broken.write_bytes(b"this is a text" * 100)
        with pytest.raises(InvalidInputError, match=r"cannot be read|nothing in it"):
            finished(broken)
    with pytest.raises(InvalidInputError, match="several kinds"):
        finished(tmp_path)


def test_a_book_that_was_cut_is_as_long_as_what_is_left(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.mp3", sweep())
    data = whole.read_bytes()
    cut = tmp_path / "cut.mp3"
    cut.write_bytes(data[: len(data) // 2])
    assert finished(cut).duration_s == pytest.approx(SECONDS / 2, abs=0.5)
