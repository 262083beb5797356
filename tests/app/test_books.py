"""Books: the Python call, and a plan to its files, with the shipped tone engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from anyrig.app.books import BookRequest, resolve_target
from anyrig.app.rig import Rig
from anyrig.audiobooks.make import BookResult
from anyrig.audiobooks.make import make as make_book
from anyrig.audiobooks.metadata import number_tracks
from anyrig.audiobooks.plan import NarrationPlan, build_plan
from anyrig.audiobooks.progress import BookProgress, BookProgressEvent, OverallProgress, Pace
from anyrig.audiobooks.record import ChapterPauses, UnfinishedBookError, record, stream_audio
from anyrig.audiobooks.write import BookTarget, check_disk_space
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import InvalidInputError, InvalidOptionError, StorageError, WorkError
from anyrig.estimates import TimeLeft
from anyrig.events import BookUnfinishedEvent, Event, ProgressEvent
from anyrig.options import request_from_json, request_to_json
from anyrig.placement import Placement, PlacementPlan
from anyrig.speech.choose import EngineChoice, EngineReason
from anyrig.speech.engines.tone import Tone
from anyrig.speech.prepare import SpeechOptions, compute_seed
from anyrig.speech.synthesis import Synthesizer
from anyrig.storage.cache import ResultCache
from anyrig.text.document import Block, Chapter, Document, Metadata
from tests.audio.measuring import measure

DRIVE = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
TEXT = {
    "One": ("The clock struck nine in the tower.", "Nobody in the harbour moved or spoke."),
    "Two": ("The tide came in at noon that day.", "It took the rope, the bell and the boat.",
            "What was left of the house stood still."),
}  # fmt: skip


def plan(
    text: dict[str, tuple[str, ...]] | None = None, *, voice: str = "", **more: Any
) -> NarrationPlan:
    chapters = tuple(
        Chapter(title, tuple(map(Block, blocks))) for title, blocks in (text or TEXT).items()
    )
    terms = SpeechOptions(reads=("ipa",), languages=("en",), voice=voice)
    document = Document(Metadata(title="The Harbour", authors=("A. Writer",)), chapters)
    return build_plan(document, terms, language="en", **more)


def synthesizer(store: ResultCache, **options: Any) -> Synthesizer:
    placement = Placement(Device("cpu", "cpu", "test", "CPU"), DRIVE, workers=1)
    return Synthesizer(
        engine="tone", weights=Tone.find_weights(), plan=PlacementPlan((placement,)),
        environment=os.environ, options=options, cache=store,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "results.sqlite", limit_bytes=1 << 30) as opened:
        yield opened


def make(
    reader: Synthesizer,
    store: ResultCache,
    what: NarrationPlan | None = None,
    *,
    output: str = "book.m4b",
    format: str = "m4b",
    events: list[Event] | None = None,
    **options: Any,
) -> BookResult:
    request = BookRequest(file=Path("book.txt"), **options)
    engine = EngineChoice("tone", Tone, Tone.find_weights(), {}, EngineReason.REQUESTED)
    on_event = (events if events is not None else []).append
    target = BookTarget(
        Path(output), format, captions=request.captions, read_along=request.read_along
    )
    what = what or plan()
    return make_book(
        what, reader, target, store, engine=engine, pauses=request.chapter_pauses,
        again=request.again, fresh=request.fresh, allow_gaps=request.allow_gaps,
        tracks=number_tracks(what, request.content, selected=bool(request.chapters)),
        on_event=on_event,
    )  # fmt: skip


def made(store: ResultCache, what: NarrationPlan | None = None, **more: Any) -> BookResult:
    engine = more.pop("engine", {})
    with synthesizer(store, **engine) as reader:
        return make(reader, store, what, **more)


def _known_s(pace: Pace) -> float | None:
    return pace.left.known_s if pace.left else None


def test_the_sound_is_as_long_as_its_timeline_says_and_at_its_loudness(store: ResultCache) -> None:
    book = plan()
    with synthesizer(store) as reader:
        recorded = record(book, reader)
        parts = list(stream_audio(book, reader, recorded))
    samples = np.concatenate(parts)
    timeline = recorded.timeline
    assert len(samples) == timeline.num_samples
    assert [mark.title for mark in timeline.chapters] == ["One", "Two"]
    assert timeline.chapters[0].start == 0
    assert timeline.chapters[0].end == timeline.chapters[1].start
    heard = measure(samples, timeline.rate)
    assert -20 < heard.lufs < -18
    assert heard.true_peak_db < -3.5
    first = timeline.cues[0]
    assert first.start == round(0.5 * timeline.rate)
    assert not samples[: first.start].any()
    for cue in timeline.cues:
        assert np.abs(samples[cue.start : cue.end]).max() > 0.01, cue.text
    ends = [cue.end for cue in timeline.cues]
    assert all(cue.start >= end for cue, end in zip(timeline.cues[1:], ends, strict=False))
    last_of_one = max(c.end for c in timeline.cues if c.part == 0)
    assert timeline.chapters[1].start - last_of_one == round(1.5 * timeline.rate)


def test_a_short_book_is_measured_whole() -> None:
    """One second in three tells the loudness of hours, not of two minutes."""
    from anyrig.audiobooks.record import _VoiceLevels

    rate = 24000
    at = np.arange(rate * 120) / rate
    wave = np.where(at % 3 < 1, 0.02, 0.2) * np.sin(at * 2000)
    levels = _VoiceLevels(rate)
    levels.add("", wave.astype(np.float32))
    raised = wave * 10 ** (levels.compute_gains(-19.0)[""] / 20)
    assert measure(raised.astype(np.float32), rate).lufs == pytest.approx(-19, abs=0.1)


@pytest.mark.parametrize(("bitrate", "most"), [(32_000, -5.9), (64_000, -3.9), (None, -3.9)])
def test_peaks_are_lower_where_few_bits_would_raise_them(
    store: ResultCache, bitrate: int | None, most: float
) -> None:
    """The tones are raised until they are limited."""
    book, target = plan(), BookTarget(Path("book.m4b"), bitrate=bitrate)
    with synthesizer(store) as reader:
        recorded = record(book, reader, loudness_lufs=-8.0)
        parts = list(stream_audio(book, reader, recorded, ceiling_dbtp=target.ceiling_dbtp))
    peak = measure(np.concatenate(parts), recorded.timeline.rate).true_peak_db
    assert most - 1.5 < peak < most


def test_the_same_book_is_made_once_and_is_the_same_bytes(store: ResultCache) -> None:
    first = made(store)
    data = Path("book.m4b").read_bytes()
    assert first.stats.num_cached == 0
    again = made(store)
    assert again.stats.num_cached == again.stats.num_segments
    assert Path("book.m4b").read_bytes() == data


def test_a_changed_paragraph_alone_is_made(store: ResultCache) -> None:
    made(store)
    text = {**TEXT, "One": (TEXT["One"][0], "Somebody in the harbour laughed.")}
    second = made(store, plan(text))
    stats = second.stats
    assert stats.num_segments - stats.num_cached == 1


def test_a_bad_sentence_is_made_again_and_stays_so(store: ResultCache) -> None:
    made(store)
    before = Path("book.m4b").read_bytes()
    second = made(store, again=("2:3",))
    changed = Path("book.m4b").read_bytes()
    assert changed != before
    assert second.stats.num_cached == second.stats.num_segments
    made(store)
    assert Path("book.m4b").read_bytes() == changed
    made(store, again=("2:3",))
    assert Path("book.m4b").read_bytes() not in (before, changed)


@pytest.mark.parametrize("place", ["3:1", "1:0", "2:99", "two", "2"])
def test_a_segment_that_is_not_there_cannot_be_made_again(store: ResultCache, place: str) -> None:
    with pytest.raises(InvalidInputError):
        made(store, again=(place,))


def test_a_passage_that_fails_stops_nothing_and_is_named(store: ResultCache) -> None:
    """The engine is silent on one sentence, whatever it is asked with."""
    seed = compute_seed(TEXT["Two"][1], 0)
    bad = {"bad": ",".join(f"{seed + n * 7919}:silence" for n in range(4))}
    events: list[Event] = []
    with pytest.raises(UnfinishedBookError) as refused:
        made(store, engine=bad, events=events)
    unfinished = events[-1]
    assert isinstance(unfinished, BookUnfinishedEvent)
    assert [one["text"] for one in unfinished.passages] == [TEXT["Two"][1]]
    assert "2:3" in refused.value.message
    assert not Path("book.m4b").exists()
    whole = made(store, engine=bad, allow_gaps=True)
    gap = next(cue for cue in whole.timeline.cues if cue.is_gap)
    assert gap.text == TEXT["Two"][1]
    assert gap.end > gap.start
    assert whole.stats.num_cached == whole.stats.num_segments - 1


def test_a_passage_that_fails_wherever_it_stands_is_a_gap_at_each_place(store: ResultCache) -> None:
    """Another sentence comes twice as well, and is made once and not kept from before."""
    refrain, good = TEXT["Two"][1], TEXT["One"][0]
    book = plan({"One": (good, refrain), "Two": (refrain, good)})
    seed = compute_seed(refrain, 0)
    bad = {"bad": ",".join(f"{seed + n * 7919}:silence" for n in range(4))}
    events: list[Event] = []
    with pytest.raises(UnfinishedBookError):
        made(store, book, engine=bad, events=events)
    unfinished = events[-1]
    assert isinstance(unfinished, BookUnfinishedEvent)
    assert [(one["chapter"], one["text"]) for one in unfinished.passages] == [
        (1, refrain), (2, refrain),
    ]  # fmt: skip
    whole = made(store, book, engine=bad, allow_gaps=True, fresh=True)
    assert [cue.part for cue in whole.timeline.cues if cue.is_gap] == [0, 1]
    assert whole.stats.num_cached == 0


def test_a_take_that_cannot_be_made_again_is_told_and_the_old_one_stays(store: ResultCache) -> None:
    seed = compute_seed(TEXT["Two"][1], 0)
    other = seed + 104_729
    bad = {"bad": ",".join(f"{other + n * 7919}:silence" for n in range(4))}
    made(store, engine=bad)
    before = Path("book.m4b").read_bytes()
    with pytest.raises(WorkError, match="could not be made again"):
        made(store, engine=bad, again=("2:3",))
    made(store, engine=bad)
    assert Path("book.m4b").read_bytes() == before


def test_captions_chapters_and_read_along_lie_beside_the_book(store: ResultCache) -> None:
    one = made(store, captions=("srt", "vtt"), read_along=True)
    assert {path.name for path in one.extra_files} == {
        "book.srt", "book.vtt", "book.chapters.vtt", "book.readalong.epub",
    }  # fmt: skip
    with synthesizer(store) as reader:
        files = make(reader, store, output="chapters", format="mp3", captions=("srt",))
    assert [path.suffix for path in files.files] == [".mp3", ".mp3"]
    assert len(list(Path("chapters").glob("*.srt"))) == 2


def test_progress_tells_chapter_share_speed_and_devices(store: ResultCache) -> None:
    events: list[Event] = []
    made(store, events=events)
    told = [one for one in events if isinstance(one, BookProgressEvent)]
    making = [one for one in told if one.stage == "making"]
    assert [one.progress.segment for one in making] == list(range(1, len(making) + 1))
    assert 0 < making[-1].done < making[-1].total  # writing is still to come
    assert making[-1].progress.left_s is not None
    assert making[-1].progress.left_s > 0.0
    assert making[-1].progress.devices.keys() == {"cpu"}
    assert making[-1].progress.speed is not None
    assert {one.detail for one in making} == {"One", "Two"}
    writing = [one for one in told if one.stage == "writing"]
    assert (writing[-1].done, writing[-1].progress.left_s) == (writing[-1].total, 0.0)
    assert [one.done for one in told] == sorted(one.done for one in told)


def test_the_read_along_file_is_a_step_of_its_own(store: ResultCache) -> None:
    for name, beside in (("book.m4b", True), ("chapters", False)):
        events: list[Event] = []
        with synthesizer(store) as reader:
            format = "m4b" if beside else "mp3"
            make(reader, store, output=name, format=format, events=events, read_along=True)
        told = [one for one in events if isinstance(one, BookProgressEvent)]
        stages = list(dict.fromkeys(one.stage for one in told))
        assert stages == ["making", "writing", "read-along"]
        written = next(one for one in reversed(told) if one.stage == "writing")
        assert written.done < written.total
        assert (told[-1].done, told[-1].progress.left_s) == (told[-1].total, 0.0)
        assert [one.done for one in told] == sorted(one.done for one in told)
    plain: list[Event] = []
    made(store, events=plain)
    assert {one.stage for one in plain if isinstance(one, BookProgressEvent)} == {
        "making", "writing",
    }  # fmt: skip


def told_by(*rows: BookProgress) -> list[BookProgress]:
    found: list[BookProgress] = []
    whole = OverallProgress(found.append)
    for row in rows:
        whole(row)
    return found


def at(
    stage: Literal["making", "writing"], done: float, wall_s: float, left_s: float | None
) -> BookProgress:
    return BookProgress(
        stage, done, 1, 1, "One", 1, 1, done * 1000.0 if stage == "making" else 1000.0, wall_s,
        None, left=None if left_s is None else TimeLeft.exactly(left_s),
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
    pace.add(500, 30.0, cached=True, device="")
    assert _known_s(pace) is None
    now[0] += 5.0  # loading
    pace.add(100, 6.0, cached=False, device="cpu")
    now[0] += 2.0
    for _ in range(4):  # before that, nothing is known of how fast it goes
        assert _known_s(pace) is None
        pace.add(25, 1.5, cached=False, device="gpu")
    assert _known_s(pace) == pytest.approx(6.0)
    assert _known_s(Pace(10, 10)) == 0.0
    assert pace.done == pytest.approx(0.7)
    assert pace.speed == pytest.approx(6.0 / 2.0)  # without loading
    assert pace.loading_s == 5.0
    assert pace.devices == {"cpu": pytest.approx(100 / 7), "gpu": pytest.approx(100 / 7)}


def test_little_of_a_long_text_tells_nothing_until_it_has_gone_on_for_a_while() -> None:
    now = [100.0]
    long = Pace(100_000, 0, clock=lambda: now[0])
    for _ in range(6):  # too little of it to tell by, until it has gone on for a while
        long.add(100, 6.0, cached=False, device="cpu")
        now[0] += 3.0
        assert _known_s(long) is None
    now[0] += 2.0
    assert _known_s(long) == pytest.approx(99_400 / (500 / 20.0))


def test_a_disk_without_space_is_an_error_before_the_work(tmp_path: Path) -> None:
    def check(audio_s: float, to_make_s: float, folder: Path) -> None:
        check_disk_space(
            BookTarget(Path("book.m4b")), audio_s=audio_s, to_make_s=to_make_s,
            sample_rate=24000, cache_folder=folder,
        )  # fmt: skip

    check(60.0, 60.0, tmp_path)
    with pytest.raises(StorageError, match="needs"):
        check(1e12, 0.0, tmp_path)
    with pytest.raises(StorageError):
        check(60.0, 1e12, tmp_path / "not" / "there")


def test_rests_around_chapters_can_be_set(store: ResultCache) -> None:
    book = plan()
    with synthesizer(store) as reader:
        usual = record(book, reader)
        none = record(book, reader, pauses=ChapterPauses(0.0, 0.0))
    assert usual.timeline.num_samples - none.timeline.num_samples == 2 * 2 * 24000


def test_all_devices_of_a_machine_make_one_book(store: ResultCache) -> None:
    """Two devices of unequal speed: both work, and the book is the same bytes as from one."""
    text = {"One": tuple(f"Sentence number {n} of the tide is told." for n in range(60))}
    seats = tuple(Placement(Device(name, "cpu", "test", name), DRIVE) for name in ("one", "two"))
    events: list[Event] = []
    with Synthesizer(
        engine="tone", weights=Tone.find_weights(), plan=PlacementPlan(seats),
        environment=os.environ, options={"sleep_s": 0.002}, cache=store,
    ) as both:  # fmt: skip
        make(both, store, plan(text), events=events)
    told = [one for one in events if isinstance(one, BookProgressEvent)]
    assert told[-1].stage == "writing"
    making = [one for one in told if one.stage == "making"]
    assert set(making[-1].progress.devices) == {"one", "two"}
    shared = Path("book.m4b").read_bytes()
    with ResultCache(Path("other.sqlite")) as other:
        made(other, plan(text), engine={"sleep_s": 0.002})
    assert Path("book.m4b").read_bytes() == shared


def test_one_chapter_of_a_folder_is_written_anew_under_its_own_number(store: ResultCache) -> None:
    folder: dict[str, Any] = {"output": "chapters", "format": "flac"}
    with synthesizer(store) as reader:
        make(reader, store, **folder)
        names = sorted(path.name for path in Path("chapters").iterdir())
        playlist = Path("chapters/The Harbour.m3u8").read_text()
        again = make(reader, store, plan(chapters=[1]), chapters=("2",), **folder)
    assert [path.name for path in again.files] == [name for name in names if name.startswith("02")]
    assert sorted(path.name for path in Path("chapters").iterdir()) == names
    assert Path("chapters/The Harbour.m3u8").read_text() == playlist


# -- the Python call and its request ---------------------------------------------------------------


STORY = """CHAPTER I

The Clock

It was ten past nine when Mr. Hale opened the shop.

CHAPTER II

The Tide

The tide came in at noon.
"""


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(environment={**os.environ, "HOME": str(tmp_path), "ANYRIG_BENCH": "no"})


def test_make_book_reports_progress_and_is_continued_by_the_same_call(rig: Rig) -> None:
    Path("story.txt").write_text(STORY, encoding="utf-8")
    progress: list[ProgressEvent] = []
    result = rig.make_book("story.txt", "out/", engine="tone", on_progress=progress.append)
    assert result.files == (Path("out/story.m4b"),)
    assert result.num_cached == 0
    assert progress[-1].done == progress[-1].total
    assert {one.stage for one in progress} >= {"reading", "making", "writing"}
    data = result.files[0].read_bytes()
    again = rig.make_book("story.txt", Path("out/story.m4b"), engine="tone")
    assert again.num_cached == again.stats.num_segments
    assert again.files[0].read_bytes() == data
    assert again.to_json()["cached"] == again.stats.num_segments


def test_list_chapters(rig: Rig) -> None:
    Path("story.txt").write_text(STORY, encoding="utf-8")
    found = rig.list_chapters("story.txt", engine="tone", chapters=[2])
    assert [(one.number, one.is_spoken) for one in found.chapters] == [(1, False), (2, True)]
    assert found.estimated_s == found.chapters[1].estimated_s > 2.0
    assert found.book.language == "en"


def test_a_request_of_a_stored_job() -> None:
    stored = {
        "file": "a.epub", "output": "/x/a.m4b", "captions": "srt,VTT", "chapters": "3-7,9",
        "bitrate": "96k", "format": "", "rate": 1, "set": {"noise": 0.5}, "again": ["1:2", "2:1"],
    }  # fmt: skip
    request = request_from_json(BookRequest, stored)
    assert request.captions == ("srt", "vtt")
    assert request.chapters == ("3-7,9",)
    assert (request.bitrate, request.format) == (96000, None)
    assert BookRequest(file=Path("a.epub"), chapters=[3, 4]).chapters == ("3", "4")  # type: ignore[arg-type]
    assert request_from_json(BookRequest, request_to_json(request)) == request


@pytest.mark.parametrize(
    "wrong", [{"format": "ogg"}, {"captions": ["ass"]}, {"bitrate": "much"}, {"notes": "sing"},
              {"chapters": [True]}, {"rest_before": 100}]
)  # fmt: skip
def test_a_wrong_option_is_named(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidOptionError) as refused:
        request_from_json(BookRequest, {"file": "a.epub", **wrong})
    assert refused.value.option == name


def test_loudness_is_that_of_the_request_of_acx_or_of_the_settings(rig: Rig) -> None:
    rig.environment["ANYRIG_SPEECH_LOUDNESS"] = "-16"
    rig.__dict__.pop("loaded_settings", None)

    def loudness(**options: Any) -> float:
        return resolve_target(rig, rig.request(BookRequest, file="a.epub", **options)).loudness

    assert loudness() == -16
    assert loudness(levels="acx") == -20.5
    assert loudness(levels="acx", loudness=-19) == -19
