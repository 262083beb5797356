"""An m4b as players find it: chapters on the very sample, whole or not there at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile

from anyrig.audio.samples import Samples
from anyrig.audiobooks.metadata import BookTags, number_all_tracks
from anyrig.audiobooks.options import CHAPTER_FORMATS
from anyrig.audiobooks.record import ChapterSpan, Timeline
from anyrig.audiobooks.write import build_chapter_paths, write_book, write_chapters
from anyrig.errors import InvalidInputError, WorkError
from anyrig.storage.atomic_file import clear_leftovers, part_folder
from tests.audiobooks import clicks

TAGS = BookTags(title="Der Weg", author="A. Autor", narrator="Hibari", language="de")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "out"
    made.mkdir()
    return made


def odd_places(count: int, rate: int, seed: int = 3) -> list[int]:
    """Starts that fall on no whole millisecond or frame; the first is the beginning."""
    chance = np.random.default_rng(seed)
    steps = chance.integers(rate // 4, rate, size=count - 1)
    return [0, *(int(place) for place in np.cumsum(steps))]


@pytest.mark.parametrize("rate", [24000, 22050, 23456])
def test_marks_lie_where_chapters_are_heard(folder: Path, rate: int) -> None:
    starts = odd_places(12, rate)
    book = clicks.timeline(starts, starts[-1] + rate, rate)
    path = folder / "book.m4b"
    write_book(path, clicks.parts(book), book, TAGS)
    found = clicks.chapters(path)
    assert [title for title, _, _ in found] == [mark.title for mark in book.chapters]
    for (_, start, end), mark in zip(found, book.chapters, strict=True):
        assert abs(start - Fraction(mark.start, rate)) * 1000 < 0.1
        assert abs(end - Fraction(mark.end, rate)) * 1000 < 0.1
    away = clicks.heard(path, [start for _, start, _ in found])
    assert max(map(abs, away)) < 0.2, away


def test_five_hundred_chapters_all_stay(folder: Path) -> None:
    rate = 8000
    starts = [place * 1601 for place in range(500)]
    book = clicks.timeline(starts, 500 * 1601, rate, [f"{n}: ü 🎉 <&>" for n in range(500)])
    path = folder / "book.m4b"
    write_book(path, clicks.parts(book), book, TAGS)
    found = clicks.chapters(path)
    assert [title for title, _, _ in found] == [mark.title for mark in book.chapters]
    assert max(map(abs, clicks.heard(path, [start for _, start, _ in found]))) < 0.3


@pytest.mark.slow
def test_marks_hold_after_ten_hours(folder: Path) -> None:
    rate = 8000
    starts = [round(place * rate * 1234.56789) for place in range(30)]
    book = clicks.timeline(starts, starts[-1] + rate, rate)
    assert book.duration_s > 9.9 * 3600
    path = folder / "book.m4b"
    write_book(path, clicks.parts(book, 1_000_003), book, TAGS)
    found = clicks.chapters(path)
    assert found[-1][1] == Fraction(starts[-1], rate)
    assert max(map(abs, clicks.heard(path, [start for _, start, _ in found]))) < 0.3


def test_a_first_chapter_may_begin_late_and_one_may_be_empty(folder: Path) -> None:
    marks = (
        ChapterSpan("One", 4800, 24000),
        ChapterSpan("None", 24000, 24000),
        ChapterSpan("Two", 24000, 48000),
    )
    book = Timeline(24000, marks, ())
    path = folder / "book.m4b"
    write_book(path, clicks.parts(book), book, TAGS)
    found = [(title, float(start), float(end)) for title, start, end in clicks.chapters(path)]
    assert found == [("One", 0.0, 1.0), ("Two", 1.0, 2.0)]


def test_the_book_says_what_it_is(folder: Path) -> None:
    book = clicks.timeline([0], 24000, 24000)
    tags = BookTags(
        title="Das Ende", author="Zoë Ü", narrator="Hibari", series="Reise", series_index="2",
        year="1923", language="de-AT", description="Lang.\n\n" + "Wort " * 100, publisher="Haus",
    )  # fmt: skip
    path = folder / "book.m4b"
    write_book(path, clicks.parts(book), book, tags)
    with av.open(str(path)) as file:
        found = dict(file.metadata)
        assert file.streams.audio[0].metadata["language"] == "deu"
    assert found["major_brand"] == "M4B "
    assert (found["title"], found["album"], found["artist"]) == ("Das Ende", "Das Ende", "Zoë Ü")
    assert (found["composer"], found["date"], found["genre"]) == ("Hibari", "1923", "Audiobook")
    assert (found["media_type"], found["grouping"], found["show"]) == ("2", "Reise #2", "Reise")
    assert len(found["description"]) <= 255
    assert found["synopsis"].startswith("Lang.\n\nWort")
    assert found["album_artist"] == "Zoë Ü"
    assert found["episode_id"] == "2"


def test_samples_and_timeline_must_agree(folder: Path) -> None:
    book = clicks.timeline([0], 50000, 24000)
    path = folder / "b.m4b"
    path.write_bytes(b"before")
    short = list(clicks.parts(book))[:-1]
    long = [*clicks.parts(book), np.zeros(5, dtype=np.float32)]
    for wrong in (short, long):
        with pytest.raises(WorkError, match="timeline has 50,000"):
            write_book(path, wrong, book, TAGS)
    assert path.read_bytes() == b"before"
    assert os.listdir(folder) == ["b.m4b"]


def test_a_book_that_stops_leaves_the_old_one(folder: Path) -> None:
    book = clicks.timeline([0], 500_000, 24000)

    def stopped() -> Iterator[Samples]:
        for number, part in enumerate(clicks.parts(book)):
            if number == 20:
                raise KeyboardInterrupt
            yield part

    path = folder / "b.m4b"
    path.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt):
        write_book(path, stopped(), book, TAGS)
    assert path.read_bytes() == b"before"
    assert os.listdir(folder) == ["b.m4b"]


FULL = """
import resource, sys
from pathlib import Path
import numpy as np
from anyrig.audiobooks.metadata import BookTags
from anyrig.audiobooks.record import ChapterSpan, Timeline
from anyrig.audiobooks.write import write_book
from anyrig.errors import StorageError
path, share, length = Path(sys.argv[1]), float(sys.argv[2]), 24000 * 20
noise = np.random.default_rng(1).normal(0, 0.1, length).astype(np.float32)
book = Timeline(24000, (ChapterSpan("x", 0, length),), ())
write_book(path, [noise], book, BookTags(title="t"))
room = min(int(path.stat().st_size * share), path.stat().st_size - 1)
path.write_bytes(b"before")
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
try:
    write_book(path, [noise], book, BookTags(title="t"))
except StorageError as error:
    print("told:", error.message)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_disk_without_room_is_told(folder: Path, share: float) -> None:
    """Found wherever it happens: at the front, in the sound, in the index at the end."""
    path = folder / "b.m4b"
    run = [sys.executable, "-c", FULL, str(path), str(share)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("told:"), (done.stdout, done.stderr)
    assert path.read_bytes() == b"before"
    assert os.listdir(folder) == ["b.m4b"]


KILLED = """
import sys, time
import numpy as np
from anyrig.audiobooks.metadata import BookTags
from anyrig.audiobooks.record import ChapterSpan, Timeline
from anyrig.audiobooks.write import write_book
def parts():
    for number in range(10 ** 6):
        yield np.zeros(24000, dtype=np.float32)
        print(number, flush=True)
        time.sleep(0.02)
chapters = (ChapterSpan("x", 0, 24000 * 10 ** 6),)
write_book(sys.argv[1], parts(), Timeline(24000, chapters, ()), BookTags())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_what_a_killed_run_left_is_cleared(folder: Path) -> None:
    path = folder / "Bücher [1] und " / "b*.m4b"
    path.parent.mkdir()
    path.write_bytes(b"before")
    (path.parent / ".b2.m4b.01234567.part").write_bytes(b"another's")
    run = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
    assert run.stdout is not None
    assert run.stdout.readline() == b"0\n"
    assert clear_leftovers(path) == 0, "it is still being written"
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    assert len(os.listdir(path.parent)) == 3
    assert clear_leftovers(path) == 1
    assert sorted(os.listdir(path.parent)) == [".b2.m4b.01234567.part", "b*.m4b"]
    assert path.read_bytes() == b"before"
    assert clear_leftovers(folder / "nowhere" / "x.m4b") == 0


FOLDER = """
import sys, time
from pathlib import Path
from anyrig.storage.atomic_file import part_folder
from anyrig.storage.files import open_atomic
with part_folder(Path(sys.argv[1])) as folder, open_atomic(Path(sys.argv[1])) as file:
    (folder / "1.m4a").write_bytes(b"sound")
    print("there", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_folder_of_a_killed_run_is_cleared_and_that_of_a_living_one_is_not(
    folder: Path,
) -> None:
    path = folder / "b.readalong.epub"
    run = subprocess.Popen([sys.executable, "-c", FOLDER, str(path)], stdout=subprocess.PIPE)
    assert run.stdout is not None
    assert run.stdout.readline() == b"there\n"
    assert clear_leftovers(folder / "other.epub", path) == 0, "it is still being written"
    assert len(os.listdir(folder)) == 2
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    assert clear_leftovers(folder / "other.epub", path) == 2
    assert os.listdir(folder) == []
    with part_folder(path) as own:
        (own / "1.m4a").write_bytes(b"sound")
    assert os.listdir(folder) == []


def test_long_names_can_be_written(folder: Path) -> None:
    book = clicks.timeline([0], 2400, 24000)
    name = "書" * 80 + ".m4b"
    write_book(folder / name, clicks.parts(book), book, TAGS)
    assert os.listdir(folder) == [name]


def test_memory_does_not_grow_with_the_book(folder: Path) -> None:
    import psutil

    def silent(seconds: int) -> Iterator[Samples]:
        for _ in range(seconds):
            yield np.zeros(8000, dtype=np.float32)

    used = []
    for hours in (0.1, 2.0):
        seconds = int(hours * 3600)
        book = clicks.timeline([0], seconds * 8000, 8000)
        write_book(folder / "b.m4b", silent(seconds), book, TAGS)
        used.append(psutil.Process().memory_info().rss)
    assert used[1] - used[0] < 40e6


def test_the_same_sound_gives_the_same_bytes_however_it_is_cut(folder: Path) -> None:
    book = clicks.timeline([0, 30_000], 150_000, 24000)
    made = []
    for size in (777, 24_000, 150_000):
        path = folder / f"{size}.m4b"
        write_book(path, clicks.parts(book, size), book, TAGS)
        made.append(path.read_bytes())
    assert made[0] == made[1] == made[2]


RATE = 24000
CHAPTER_TAGS = BookTags(
    title="Der Weg: 1/2", author="A. B.", narrator="Hibari", language="de", series="R"
)
BOOK = Timeline(
    RATE,
    (
        ChapterSpan("Vorwort", 0, 30_001),
        ChapterSpan("Teil „1“", 30_001, 30_001),
        ChapterSpan("", 30_001, 77_777),
        ChapterSpan("../Ende?", 77_777, 100_000),
    ),
    (),
)


@pytest.fixture
def sound() -> Samples:
    return (np.random.default_rng(5).normal(0, 0.1, BOOK.num_samples)).astype(np.float32)


def cut(sound: Samples) -> Iterator[Samples]:
    for start in range(0, len(sound), 7001):
        yield sound[start : start + 7001]


@pytest.mark.parametrize("name", ["wav", "flac"])
def test_the_files_together_are_the_book(tmp_path: Path, sound: Samples, name: str) -> None:
    made = write_chapters(tmp_path / "a" / "b", cut(sound), BOOK, CHAPTER_TAGS, format=name)
    back = [soundfile.read(path, dtype="float32")[0] for path in made.files]
    assert len(back.pop(1)) == RATE // 10, "a chapter of nothing is a moment of silence"
    assert [len(part) for part in back] == [30_001, 47_776, 22_223]
    assert float(np.abs(np.concatenate(back) - sound.clip(-1, 1)).max()) < 1 / 32000


@pytest.mark.parametrize("name", CHAPTER_FORMATS)
def test_files_playlist_and_tags(tmp_path: Path, sound: Samples, name: str) -> None:
    book = Timeline(RATE, (*BOOK.chapters[:1], *BOOK.chapters[2:]), ())
    told: list[float] = []
    folder = tmp_path / "out"
    made = write_chapters(
        folder, cut(sound), book, CHAPTER_TAGS, format=name, on_written=told.append
    )
    names = [f"01 Vorwort.{name}", f"02 Chapter 2.{name}", f"03 Ende.{name}"]
    assert [path.name for path in made.files] == names
    assert sorted(os.listdir(folder)) == sorted([*names, "Der Weg 1 2.m3u8"])
    (playlist,) = made.extra_files
    assert playlist.read_text(encoding="utf-8").splitlines() == [
        "#EXTM3U",
        "#EXTINF:1,Vorwort", names[0],
        "#EXTINF:2,Chapter 2", names[1],
        "#EXTINF:1,../Ende?", names[2],
    ]  # fmt: skip
    assert told[-1] == 1.0
    assert all(path.stat().st_size for path in made.files)
    for number, path in enumerate(made.files, 1):
        with av.open(str(path)) as file:
            tags = {key.lower(): text for key, text in file.metadata.items()}
            tags |= {key.lower(): text for key, text in file.streams.audio[0].metadata.items()}
        assert tags["album"] == CHAPTER_TAGS.title
        assert tags["title"] == ("Vorwort", "Chapter 2", "../Ende?")[number - 1]
        assert tags["track"] in (f"{number}/3", str(number))


def test_a_chapter_without_sound_can_be_played(tmp_path: Path, sound: Samples) -> None:
    for name in CHAPTER_FORMATS:
        made = write_chapters(tmp_path / name, cut(sound), BOOK, CHAPTER_TAGS, format=name)
        assert len(made.files) == 4
        with av.open(str(made.files[1])) as file:
            assert sum(frame.samples for frame in file.decode(audio=0)) > RATE // 20


def test_names_stay_and_files_are_written_anew(tmp_path: Path, sound: Samples) -> None:
    planned = build_chapter_paths(tmp_path, number_all_tracks(BOOK.chapters), "flac")
    first = write_chapters(tmp_path, cut(sound), BOOK, CHAPTER_TAGS, format="flac")
    (tmp_path / "mine.txt").write_text("kept")
    first.files[1].write_bytes(b"broken")
    again = write_chapters(tmp_path, cut(sound), BOOK, CHAPTER_TAGS, format="flac")
    assert list(again.files) == list(first.files) == planned
    assert again.files[1].read_bytes() != b"broken"
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_sound_that_ends_early_is_an_error(tmp_path: Path, sound: Samples) -> None:
    with pytest.raises(WorkError, match="timeline has 100,000"):
        write_chapters(tmp_path, cut(sound[:80_000]), BOOK, CHAPTER_TAGS, format="wav")
    with pytest.raises(WorkError):
        write_chapters(tmp_path, cut(np.append(sound, sound)), BOOK, CHAPTER_TAGS, format="wav")
    assert not [name for name in os.listdir(tmp_path) if name.endswith((".part", ".m3u8"))]


def test_wrong_wishes_are_told(tmp_path: Path, sound: Samples) -> None:
    with pytest.raises(InvalidInputError, match="chapters cannot be written as 'm4b'"):
        write_chapters(tmp_path / "x", cut(sound), BOOK, CHAPTER_TAGS, format="m4b")
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot create"):
        write_chapters(tmp_path / "file" / "x", cut(sound), BOOK, CHAPTER_TAGS)
