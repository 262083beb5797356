"""A file for each chapter: all of the sound, in order, with tags, and a playlist."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile

from anyrig.audiobooks.names import all_tracks
from anyrig.audiobooks.tags import Tags
from anyrig.audiobooks.timeline import Mark, Timeline
from anyrig.audiobooks.write import CHAPTER_FORMATS, chapter_paths, write_chapters
from anyrig.errors import InvalidInputError, WorkError
from anyrig.speech.audio import Samples

RATE = 24000
TAGS = Tags(title="Der Weg: 1/2", author="A. B.", narrator="Hibari", language="de", series="R")
BOOK = Timeline(
    RATE,
    (
        Mark("Vorwort", 0, 30_001),
        Mark("Teil „1“", 30_001, 30_001),
        Mark("", 30_001, 77_777),
        Mark("../Ende?", 77_777, 100_000),
    ),
    (),
)


@pytest.fixture
def sound() -> Samples:
    return (np.random.default_rng(5).normal(0, 0.1, BOOK.num_samples)).astype(np.float32)


def cut(sound: Samples, size: int = 7001) -> Iterator[Samples]:
    for start in range(0, len(sound), size):
        yield sound[start : start + size]


@pytest.mark.parametrize("name", ["wav", "flac"])
@pytest.mark.parametrize("size", [1000, 7001, 100_000])
def test_the_files_together_are_the_book(
    tmp_path: Path, sound: Samples, name: str, size: int
) -> None:  # noqa: E501
    made = write_chapters(tmp_path / "a" / "b", cut(sound, size), BOOK, TAGS, format=name)
    back = [soundfile.read(path, dtype="float32")[0] for path in made.files]
    assert len(back.pop(1)) == RATE // 10, "a chapter of nothing is a moment of silence"
    assert [len(part) for part in back] == [30_001, 47_776, 22_223]
    assert float(np.abs(np.concatenate(back) - sound.clip(-1, 1)).max()) < 1 / 32000


@pytest.mark.parametrize("name", CHAPTER_FORMATS)
def test_files_playlist_and_tags(tmp_path: Path, sound: Samples, name: str) -> None:
    book = Timeline(RATE, (*BOOK.marks[:1], *BOOK.marks[2:]), ())
    told: list[float] = []
    folder = tmp_path / "out"
    made = write_chapters(folder, cut(sound), book, TAGS, format=name, tell=told.append)
    names = [f"01 Vorwort.{name}", f"02 Chapter 2.{name}", f"03 Ende.{name}"]
    assert [path.name for path in made.files] == names
    assert sorted(os.listdir(folder)) == sorted([*names, "Der Weg 1 2.m3u8"])
    assert made.playlist is not None
    assert made.playlist.read_text(encoding="utf-8").splitlines() == [
        "#EXTM3U",
        "#EXTINF:1,Vorwort", names[0],
        "#EXTINF:2,Chapter 2", names[1],
        "#EXTINF:1,../Ende?", names[2],
    ]  # fmt: skip
    assert told[-1] == 1.0
    assert made.num_bytes > 0
    for number, path in enumerate(made.files, 1):
        with av.open(str(path)) as file:
            tags = {key.lower(): text for key, text in file.metadata.items()}
            tags |= {key.lower(): text for key, text in file.streams.audio[0].metadata.items()}
        assert tags["album"] == TAGS.title
        assert tags["title"] == ("Vorwort", "Chapter 2", "../Ende?")[number - 1]
        assert tags["track"] in (f"{number}/3", str(number))


def test_a_chapter_without_sound_can_be_played(tmp_path: Path, sound: Samples) -> None:
    for name in CHAPTER_FORMATS:
        made = write_chapters(tmp_path / name, cut(sound), BOOK, TAGS, format=name)
        assert len(made.files) == 4
        with av.open(str(made.files[1])) as file:
            assert sum(frame.samples for frame in file.decode(audio=0)) > RATE // 20


def test_names_stay_and_files_are_written_anew(tmp_path: Path, sound: Samples) -> None:
    planned = chapter_paths(tmp_path, all_tracks(BOOK.marks), TAGS, format="flac")
    first = write_chapters(tmp_path, cut(sound), BOOK, TAGS, format="flac")
    (tmp_path / "mine.txt").write_text("kept")
    first.files[1].write_bytes(b"broken")
    again = write_chapters(tmp_path, cut(sound), BOOK, TAGS, format="flac")
    assert list(again.files) == list(first.files) == planned
    assert again.files[1].read_bytes() != b"broken"
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_sound_that_ends_early_is_an_error(tmp_path: Path, sound: Samples) -> None:
    with pytest.raises(WorkError, match="timeline has 100,000"):
        write_chapters(tmp_path, cut(sound[:80_000]), BOOK, TAGS, format="wav")
    with pytest.raises(WorkError):
        write_chapters(tmp_path, cut(np.append(sound, sound)), BOOK, TAGS, format="wav")
    assert not [name for name in os.listdir(tmp_path) if name.endswith((".part", ".m3u8"))]


def test_wrong_wishes_are_told(tmp_path: Path, sound: Samples) -> None:
    with pytest.raises(InvalidInputError, match="no chapters as 'm4b'"):
        write_chapters(tmp_path / "x", cut(sound), BOOK, TAGS, format="m4b")
    with pytest.raises(InvalidInputError):
        write_chapters(tmp_path / "x", cut(sound), BOOK, TAGS, pattern="../{title}")
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot be made"):
        write_chapters(tmp_path / "file" / "x", cut(sound), BOOK, TAGS)


def test_a_bitrate_is_for_those_that_have_one(tmp_path: Path, sound: Samples) -> None:
    for name in ("flac", "opus"):
        write_chapters(tmp_path, cut(sound), BOOK, TAGS, format=name, bitrate=24_000)
    low = sum(path.stat().st_size for path in tmp_path.glob("*.opus"))
    assert low * 8 / BOOK.duration_s < 60_000
