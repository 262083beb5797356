"""A book from plan to file, through real workers and a real store, with the shipped tone engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from anyrig.audiobooks.make import Rests, record, sound
from anyrig.audiobooks.plan import Plan, plan_of
from anyrig.audiobooks.progress import Pace, Progress, Whole
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import InvalidInputError, StorageError, WorkError
from anyrig.placement import Placement, PlacementPlan
from anyrig.services.book import Made, Order, UnfinishedBookError, ceiling_dbtp, make
from anyrig.services.room import check_room
from anyrig.speech.engines.tone import Tone
from anyrig.speech.lexicon import Lexicon
from anyrig.speech.pauses import Pauses
from anyrig.speech.prepare import seed_of
from anyrig.speech.recite import Terms
from anyrig.speech.sound.loudness import measure
from anyrig.speech.stage import Stage
from anyrig.speech.synthesise import Studio
from anyrig.storage.cache import ResultCache
from anyrig.text.document import About, Block, Chapter, Document

DRIVE = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
TEXT = {
    "One": ("The clock struck nine in the tower.", "Nobody in the harbour moved or spoke."),
    "Two": ("The tide came in at noon that day.", "It took the rope, the bell and the boat.",
            "What was left of the house stood still."),
}  # fmt: skip


def plan(text: dict[str, tuple[str, ...]] | None = None, *, voice: str = "", **more: Any) -> Plan:
    chapters = tuple(
        Chapter(title, tuple(map(Block, blocks))) for title, blocks in (text or TEXT).items()
    )
    terms = Terms(400, True, ("en",), voice, {}, 1.0, 0, Lexicon(), Pauses(), 3)
    document = Document(About(title="The Harbour", authors=("A. Writer",)), chapters)
    return plan_of(document, terms, main="en", **more)


@contextmanager
def studio(store: ResultCache, **options: Any) -> Iterator[Studio]:
    seat = Placement(Device("cpu", "cpu", "test", "CPU"), DRIVE, workers=1)
    stage = Stage(
        engine="tone", found=Tone.find(), placed=PlacementPlan((seat,)), environment=os.environ,
        options=options, store=store,
    )  # fmt: skip
    with Studio(stage) as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "results.sqlite", limit_bytes=1 << 30) as opened:
        yield opened


def order(**more: Any) -> Order:
    return Order(source=Path("book.txt"), output=Path("book.m4b"), **more)


def made(store: ResultCache, what: Plan | None = None, **more: Any) -> Made:
    engine = more.pop("engine", {})
    with studio(store, **engine) as reader:
        return make(order(**more), what or plan(), reader, store)


def test_the_sound_is_as_long_as_its_timeline_says_and_at_its_loudness(store: ResultCache) -> None:
    book = plan()
    with studio(store) as reader:
        recorded = record(book, reader)
        parts = list(sound(book, reader, recorded))
    samples = np.concatenate(parts)
    timeline = recorded.timeline
    assert len(samples) == timeline.num_samples
    assert [mark.title for mark in timeline.marks] == ["One", "Two"]
    assert timeline.marks[0].start == 0
    assert timeline.marks[0].end == timeline.marks[1].start
    heard = measure(samples, timeline.rate)
    assert -20 < heard.integrated_lufs < -18
    assert heard.true_peak_dbtp < -3.5
    first = timeline.cues[0]
    assert first.start == round(0.5 * timeline.rate)
    assert not samples[: first.start].any()
    for cue in timeline.cues:
        assert np.abs(samples[cue.start : cue.end]).max() > 0.01, cue.text
    ends = [cue.end for cue in timeline.cues]
    assert all(cue.start >= end for cue, end in zip(timeline.cues[1:], ends, strict=False))
    last_of_one = max(c.end for c in timeline.cues if c.part == 0)
    assert timeline.marks[1].start - last_of_one == round(1.5 * timeline.rate)


def test_a_short_book_is_measured_whole() -> None:
    """One second in three tells the loudness of hours, not of two minutes."""
    from anyrig.audiobooks.make import _Levels

    rate = 24000
    at = np.arange(rate * 120) / rate
    wave = np.where(at % 3 < 1, 0.02, 0.2) * np.sin(at * 2000)
    levels = _Levels(rate)
    levels.hear("", wave.astype(np.float32))
    raised = wave * 10 ** (levels.gains_db(-19.0)[""] / 20)
    assert measure(raised.astype(np.float32), rate).integrated_lufs == pytest.approx(-19, abs=0.1)


@pytest.mark.parametrize(("bitrate", "most"), [(32_000, -5.9), (64_000, -3.9), (None, -3.9)])
def test_peaks_are_lower_where_few_bits_would_raise_them(
    store: ResultCache, bitrate: int | None, most: float
) -> None:
    """The tones are raised until they are limited."""
    book, wanted = plan(), order(bitrate=bitrate)
    with studio(store) as reader:
        recorded = record(book, reader, target_lufs=-8.0)
        parts = list(sound(book, reader, recorded, ceiling_dbtp=ceiling_dbtp(wanted)))
    peak = measure(np.concatenate(parts), recorded.timeline.rate).true_peak_dbtp
    assert most - 1.5 < peak < most


def test_the_same_book_is_made_once_and_is_the_same_bytes(store: ResultCache) -> None:
    first = made(store)
    data = Path("book.m4b").read_bytes()
    assert first.recorded.tally.num_kept == 0
    again = made(store)
    assert again.recorded.tally.num_kept == again.recorded.tally.num_segments
    assert Path("book.m4b").read_bytes() == data


def test_a_changed_paragraph_alone_is_made(store: ResultCache) -> None:
    made(store)
    text = {**TEXT, "One": (TEXT["One"][0], "Somebody in the harbour laughed.")}
    second = made(store, plan(text))
    tally = second.recorded.tally
    assert tally.num_segments - tally.num_kept == 1


def test_a_bad_sentence_is_made_again_and_stays_so(store: ResultCache) -> None:
    made(store)
    before = Path("book.m4b").read_bytes()
    second = made(store, again=((2, 3),))
    changed = Path("book.m4b").read_bytes()
    assert changed != before
    assert second.recorded.tally.num_kept == second.recorded.tally.num_segments
    made(store)
    assert Path("book.m4b").read_bytes() == changed
    made(store, again=((2, 3),))
    assert Path("book.m4b").read_bytes() not in (before, changed)


@pytest.mark.parametrize("place", [(3, 1), (1, 0), (2, 99)])
def test_a_segment_that_is_not_there_cannot_be_made_again(
    store: ResultCache, place: tuple[int, int]
) -> None:
    with pytest.raises(InvalidInputError):
        made(store, again=(place,))


def test_a_passage_that_fails_stops_nothing_and_is_named(store: ResultCache) -> None:
    """The engine is silent on one sentence, whatever it is asked with."""
    seed = seed_of(TEXT["Two"][1], 0)
    bad = {"bad": ",".join(f"{seed + n * 7919}:silence" for n in range(4))}
    with pytest.raises(UnfinishedBookError) as refused:
        made(store, engine=bad)
    assert [lack.text for lack in refused.value.lacks] == [TEXT["Two"][1]]
    assert "2:3" in refused.value.message
    assert not Path("book.m4b").exists()
    whole = made(store, engine=bad, allow_gaps=True)
    gap = next(cue for cue in whole.timeline.cues if cue.gap)
    assert gap.text == TEXT["Two"][1]
    assert gap.end > gap.start
    assert whole.recorded.tally.num_kept == whole.recorded.tally.num_segments - 1


def test_a_passage_that_fails_wherever_it_stands_is_a_gap_at_each_place(store: ResultCache) -> None:
    """Another sentence comes twice as well, and is made once and not kept from before."""
    refrain, good = TEXT["Two"][1], TEXT["One"][0]
    book = plan({"One": (good, refrain), "Two": (refrain, good)})
    seed = seed_of(refrain, 0)
    bad = {"bad": ",".join(f"{seed + n * 7919}:silence" for n in range(4))}
    with pytest.raises(UnfinishedBookError) as refused:
        made(store, book, engine=bad)
    assert [(lack.part, lack.text) for lack in refused.value.lacks] == [(0, refrain), (1, refrain)]
    whole = made(store, book, engine=bad, allow_gaps=True, fresh=True)
    assert [cue.part for cue in whole.timeline.cues if cue.gap] == [0, 1]
    assert whole.recorded.tally.num_kept == 0


def test_a_take_that_cannot_be_made_again_is_told_and_the_old_one_stays(store: ResultCache) -> None:
    seed = seed_of(TEXT["Two"][1], 0)
    other = seed + 104_729
    bad = {"bad": ",".join(f"{other + n * 7919}:silence" for n in range(4))}
    made(store, engine=bad)
    before = Path("book.m4b").read_bytes()
    with pytest.raises(WorkError, match="could not be made again"):
        made(store, engine=bad, again=((2, 3),))
    made(store, engine=bad)
    assert Path("book.m4b").read_bytes() == before


def test_captions_chapters_and_read_along_lie_beside_the_book(store: ResultCache) -> None:
    one = made(store, captions=("srt", "vtt"), readalong=True)
    assert {path.name for path in one.beside} == {
        "book.srt", "book.vtt", "book.chapters.vtt", "book.readalong.epub",
    }  # fmt: skip
    with studio(store) as reader:
        files = make(
            Order(Path("book.txt"), Path("chapters"), format="mp3", captions=("srt",)),
            plan(), reader, store,
        )  # fmt: skip
    assert [path.suffix for path in files.files] == [".mp3", ".mp3"]
    assert len(list(Path("chapters").glob("*.srt"))) == 2


def test_progress_tells_chapter_share_speed_and_devices(store: ResultCache) -> None:
    told: list[Progress] = []
    with studio(store) as reader:
        make(order(), plan(), reader, store, tell=told.append)
    making = [one for one in told if one.stage == "making"]
    assert [one.segment for one in making] == list(range(1, len(making) + 1))
    assert 0.0 < making[-1].done < 1.0  # writing is still to come
    assert making[-1].left_s is not None
    assert making[-1].left_s > 0.0
    assert making[-1].devices.keys() == {"cpu"}
    assert making[-1].speed is not None
    assert {one.title for one in making} == {"One", "Two"}
    writing = [one for one in told if one.stage == "writing"]
    assert (writing[-1].done, writing[-1].left_s) == (1.0, 0.0)
    assert [one.done for one in told] == sorted(one.done for one in told)


def told_by(*rows: Progress) -> list[Progress]:
    found: list[Progress] = []
    whole = Whole(found.append)
    for row in rows:
        whole(row)
    return found


def at(
    stage: Literal["making", "writing"], done: float, wall_s: float, left_s: float | None
) -> Progress:
    return Progress(
        stage, done, 1, 1, "One", 1, 1, done * 1000.0 if stage == "making" else 1000.0, wall_s,
        None, left_s,
    )  # fmt: skip


def test_a_stage_weighs_what_it_takes_and_the_share_never_goes_back() -> None:
    # A slow voice: 90 s of making, and 10 s of writing at 100 times real time.
    told = told_by(
        at("making", 0.1, 1.0, None), at("making", 0.5, 45.0, 45.0), at("making", 1.0, 90.0, 0.0),
        at("writing", 0.0, 90.0, None), at("writing", 0.5, 95.0, 5.0), at("writing", 1.0, 100.0, 0),
    )  # fmt: skip
    assert [one.stage for one in told] == ["making"] * 3 + ["writing"] * 3
    assert told[0].left_s is None
    assert [round(one.done, 2) for one in told[1:]] == [0.45, 0.9, 0.9, 0.95, 1.0]
    assert [one.left_s for one in told[1:]] == pytest.approx([55.0, 10.0, 10.0, 5.0, 0.0])
    # Everything was kept: writing is all there is to do.
    told = told_by(at("making", 1.0, 0.1, 0.0), at("writing", 0.01, 0.2, 99.0))
    assert [round(one.done, 2) for one in told] == [0.01, 0.02]
    assert told[-1].left_s == pytest.approx(9.9)  # not by the first block that was written
    # A guess that was too good is not taken back.
    told = told_by(at("making", 0.5, 1.0, 1.0), at("making", 0.6, 60.0, 40.0))
    assert told[1].done >= told[0].done


def test_the_time_left_comes_from_what_was_made_and_not_from_what_was_kept() -> None:
    now = [100.0]
    pace = Pace(1000, 500, clock=lambda: now[0])
    pace.add(500, 30.0, kept=True, device="")
    assert pace.left_s is None
    now[0] += 5.0  # loading
    pace.add(100, 6.0, kept=False, device="cpu")
    now[0] += 2.0
    for _ in range(4):  # before that, nothing is known of how fast it goes
        assert pace.left_s is None
        pace.add(25, 1.5, kept=False, device="gpu")
    assert pace.left_s == pytest.approx(6.0)
    assert Pace(10, 10).left_s == 0.0
    assert pace.done == pytest.approx(0.7)
    assert pace.speed == pytest.approx(12.0 / 7.0)
    assert pace.devices == {"cpu": pytest.approx(100 / 7), "gpu": pytest.approx(100 / 7)}


def test_little_of_a_long_text_tells_nothing_until_it_has_gone_on_for_a_while() -> None:
    now = [100.0]
    long = Pace(100_000, 0, clock=lambda: now[0])
    for _ in range(6):  # too little of it to tell by, until it has gone on for a while
        long.add(100, 6.0, kept=False, device="cpu")
        now[0] += 3.0
        assert long.left_s is None
    now[0] += 2.0
    assert long.left_s == pytest.approx(99_400 / (500 / 20.0))


def test_a_disk_without_room_is_told_before_the_work(tmp_path: Path) -> None:
    check_room(order(), 60.0, 60.0, rate=24000, store_folder=tmp_path)
    with pytest.raises(StorageError, match="needs"):
        check_room(order(), 1e12, 0.0, rate=24000, store_folder=tmp_path)
    with pytest.raises(StorageError):
        check_room(order(), 60.0, 1e12, rate=24000, store_folder=tmp_path / "not" / "there")


def test_rests_around_chapters_can_be_set(store: ResultCache) -> None:
    book = plan()
    with studio(store) as reader:
        usual = record(book, reader)
        none = record(book, reader, rests=Rests(0.0, 0.0))
    assert usual.timeline.num_samples - none.timeline.num_samples == 2 * 2 * 24000


def test_all_devices_of_a_machine_make_one_book(store: ResultCache) -> None:
    """Two devices of unequal speed: both work, and the book is the same bytes as from one."""
    text = {"One": tuple(f"Sentence number {n} of the tide is told." for n in range(60))}
    seats = tuple(Placement(Device(name, "cpu", "test", name), DRIVE) for name in ("one", "two"))
    told: list[Progress] = []
    stage = Stage(
        engine="tone", found=Tone.find(), placed=PlacementPlan(seats), environment=os.environ,
        options={"sleep_s": 0.002}, store=store,
    )  # fmt: skip
    with Studio(stage) as both:
        make(order(), plan(text), both, store, tell=told.append)
    assert told[-1].stage == "writing"
    making = [one for one in told if one.stage == "making"]
    assert set(making[-1].devices) == {"one", "two"}
    shared = Path("book.m4b").read_bytes()
    with ResultCache(Path("other.sqlite")) as other:
        made(other, plan(text), engine={"sleep_s": 0.002})
    assert Path("book.m4b").read_bytes() == shared


def test_one_chapter_of_a_folder_is_written_anew_under_its_own_number(store: ResultCache) -> None:
    wanted = Order(Path("book.txt"), Path("chapters"), format="flac")
    with studio(store) as reader:
        make(wanted, plan(), reader, store)
        names = sorted(path.name for path in Path("chapters").iterdir())
        playlist = Path("chapters/The Harbour.m3u8").read_text()
        second = Order(Path("book.txt"), Path("chapters"), format="flac", chapters="2")
        again = make(second, plan(chosen=[1]), reader, store)
    assert [path.name for path in again.files] == [name for name in names if name.startswith("02")]
    assert sorted(path.name for path in Path("chapters").iterdir()) == names
    assert Path("chapters/The Harbour.m3u8").read_text() == playlist
