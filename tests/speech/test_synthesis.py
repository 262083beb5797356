"""Segments to takes to chunks, through real worker processes, with the shipped tone engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.audio.samples import Samples
from anyrig.errors import WorkError
from anyrig.placement import Placement
from anyrig.speech.chunks import AudioChunk
from anyrig.speech.engine import Utterance
from anyrig.speech.engines import engine_class
from anyrig.speech.quality import CheckedEngine
from anyrig.speech.segment import Script, Segment
from anyrig.speech.synthesis import Synthesizer, vary
from anyrig.storage.cache import ResultCache
from tests.speech.conftest import open_tone, place_on_cpu

WORDS = ["The first sentence.", "A second one, somewhat longer.", "Third.", "And the last of them."]


def script(*texts: str, pause_s: float = 0.25, **line: Any) -> Script:
    source = " ".join(texts)
    segments, position = [], 0
    for text in texts:
        span = (position, min(len(source), position + len(text) + 1))
        segments.append(
            Segment(Utterance(text, **line), (span,), source[slice(*span)], pause_after_s=pause_s)
        )
        position = span[1]
    segments[-1] = replace(segments[-1], pause_after_s=0.0)
    return Script(source, tuple(segments))


def speak(synthesizer: Synthesizer, wanted: Script, **options: Any) -> list[AudioChunk]:
    return list(synthesizer.read(wanted.segments, **options).chunks())


def test_chunks_follow_on_each_other_exactly_with_the_text_behind_each() -> None:
    wanted = script(*WORDS)
    with open_tone(workers=2) as made:
        chunks = speak(made, wanted)
    assert [chunk.segment for chunk in chunks] == [0, 1, 2, 3]
    assert "".join(chunk.text for chunk in chunks) == wanted.source
    position = 0
    for chunk in chunks:
        assert chunk.start == position
        assert wanted.source[slice(*chunk.span)] == chunk.text
        position += len(chunk.samples)
    pause = chunks[0].samples[-int(0.25 * 24000) :]
    assert not pause.any()
    assert chunks[-1].samples[-2000:].any(), "no pause after the end"


def test_word_times_count_from_the_beginning_of_the_whole() -> None:
    with open_tone() as made:
        chunks = speak(made, script(*WORDS))
    words = [word for chunk in chunks for word in chunk.words]
    assert [word.text for word in words][:3] == ["The", "first", "sentence"]
    assert all(a.start_s <= b.start_s for a, b in zip(words, words[1:], strict=False))
    for chunk in chunks:
        for word in chunk.words:
            assert chunk.start_s <= word.start_s < word.end_s <= chunk.start_s + chunk.duration_s


def test_a_change_makes_again_only_what_it_touches(cache: ResultCache) -> None:
    with open_tone(cache) as made:
        list(made.read(script(*WORDS).segments))
        changed = script(WORDS[0], "A second one, changed.", *WORDS[2:])
        assert [take.cached for take in made.read(changed.segments)] == [True, False, True, True]
    with open_tone(cache, sleep_s=0.0001) as made:  # another option is another sound
        assert not any(take.cached for take in made.read(script(*WORDS).segments))


def test_a_line_that_stands_there_twice_is_made_once() -> None:
    with open_tone() as made:
        takes = list(made.read(script("Yes.", "No.", "Yes.", "Yes.").segments))
        assert made.live.report.num_items == 2
    assert takes[0].take is not None
    assert takes[3].take is not None
    assert np.array_equal(takes[0].take.samples, takes[3].take.samples)


def test_a_bad_take_is_made_again_with_another_seed() -> None:
    with open_tone(bad="5:silence", bad_word="second") as made:
        reading = made.read(script(*WORDS, seed=5).segments)
        takes = list(reading)
    assert [take.tries for take in takes] == [1, 2, 1, 1]
    assert not any(take.problems for take in takes)
    assert reading.stats.num_retried == 1
    assert reading.stats.devices == {"cpu": 4}


def test_a_take_that_stays_bad_is_kept_at_its_best_and_told() -> None:
    always = ",".join(f"{seed}:silence" for seed in (0, 7919, 2 * 7919, 3 * 7919))
    with open_tone(bad=always, bad_word="second") as made:
        reading = made.read(script(*WORDS).segments)
        takes = list(reading)
    assert takes[1].tries == 4
    assert takes[1].problems
    assert takes[1].take is not None
    assert [doubt.index for doubt in reading.stats.doubtful] == [1]


def test_running_out_of_memory_loses_no_text() -> None:
    texts = [f"Sentence number {number} of many." for number in range(40)]
    with open_tone(memory_items=2, sleep_s=0.0001) as made:
        takes = list(made.read(script(*texts).segments))
    assert [take.index for take in takes] == list(range(40))
    assert all(take.take is not None for take in takes)


def test_a_segment_that_cannot_be_spoken_is_told_after_the_rest_was_kept(
    cache: ResultCache,
) -> None:
    texts = [WORDS[0], "Deutsch.", WORDS[2]]
    wanted = script(*texts)
    bad = Segment(Utterance("Deutsch.", language="xx"), wanted.segments[1].spans, "Deutsch.")
    wanted = Script(wanted.source, (wanted.segments[0], bad, bad, wanted.segments[2]))
    with open_tone(cache) as made:
        with pytest.raises(WorkError, match="2 segments could not be spoken"):
            speak(made, wanted)
        assert [t.cached for t in made.read(script(WORDS[0], WORDS[2]).segments)] == [True, True]


def test_the_order_batch_and_number_of_workers_change_nothing() -> None:
    texts = [f"Sentence {number}, {'long ' * (number % 7)}enough." for number in range(24)]
    with open_tone(workers=1) as one:
        first = {t.segment.text.strip(): t.take for t in one.read(script(*texts).segments)}
    with open_tone(workers=2) as two:
        for spoken in two.read(script(*reversed(texts)).segments):
            take, other = spoken.take, first[spoken.segment.text.strip()]
            assert take is not None
            assert other is not None
            assert np.array_equal(take.samples, other.samples)


def test_the_first_segment_is_made_alone_for_a_listener() -> None:
    texts = [f"Sentence number {number} of many." for number in range(40)]
    with open_tone(sleep_s=0.0001) as made:
        list(made.read(script(*texts).segments))  # batches have grown
        before = made.live.report.num_items
        wanted = script(*(f"Now {text}" for text in texts))
        reading = made.read(wanted.segments, lane="live")
        reading.next().result(timeout=60)
        assert made.live.report.num_items == before + 1
        assert made.live.waiting("live") == 0
        assert len(list(reading)) == 39


def test_what_vanishes_from_the_store_in_mid_run_is_made_again(cache: ResultCache) -> None:
    texts = [f"Sentence number {number} of many." for number in range(30)]
    with open_tone(cache) as made:
        list(made.read(script(*texts).segments))
        reading, indices = made.read(script(*texts).segments), []
        for spoken in reading:
            indices.append(spoken.index)
            assert spoken.take is not None
            if spoken.index == 4:
                cache.prune(to_bytes=0)
    assert indices == list(range(30))
    assert reading.stats.num_cached == 5


def test_damaged_takes_are_made_again(cache: ResultCache) -> None:
    with open_tone(cache) as made:
        keys = [made.takes.make_key(segment.utterance) for segment in script(*WORDS).segments]
        for key in keys[:3]:
            cache.put(key, b"no take at all", kind="speech")
        takes = list(made.read(script(*WORDS).segments))
        # The last may be kept by the time that the damage of the others is seen.
        assert [take.cached for take in takes][:3] == [False] * 3
        assert all(take.cached for take in made.read(script(*WORDS).segments))


def test_a_store_smaller_than_the_text_loses_nothing(tmp_path: Path) -> None:
    texts = [f"Sentence number {number} of many more." for number in range(60)]
    with (
        ResultCache(tmp_path / "small.sqlite", limit_bytes=1 << 20) as small,
        open_tone(small) as made,
    ):
        for _ in range(2):
            takes = list(made.read(script(*texts).segments))
            assert [take.index for take in takes] == list(range(60))


def test_a_take_in_which_nothing_is_heard_is_not_kept(cache: ResultCache) -> None:
    always = ",".join(f"{seed}:nan" for seed in (0, 7919, 2 * 7919, 3 * 7919))
    with open_tone(cache, bad=always, bad_word="second") as made:
        list(made.read(script(*WORDS).segments))
        assert [t.cached for t in made.read(script(*WORDS).segments)] == [True, False, True, True]


def test_another_recording_under_the_same_name_is_another_voice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = set()
    with open_tone() as made:
        for number in range(2):
            folder = tmp_path / f"{number}"
            folder.mkdir()
            (folder / "me.wav").write_bytes(bytes([number]) * 100)
            monkeypatch.chdir(folder)
            keys.add(made.takes.make_key(Utterance("Hello.", voice="me.wav")))
    assert len(keys) == 2


TEXTS = [
    f"Number {number}, and then {'many more ' * (number % 5)}words, said Zbigniew Brzezinski."
    for number in range(12)
]


def test_lines_said_by_several_threads_are_those_of_one(on_cpu: Placement) -> None:
    lines = [Utterance(text, seed=number) for number, text in enumerate(TEXTS)]
    alone = CheckedEngine(on_cpu, engine="hibari")
    together = CheckedEngine(replace(on_cpu, threads=4), engine="hibari")
    expected = [alone.run([line])[0].data for line in lines]
    for _ in range(2):
        assert [recording.data for recording in together.run(lines)] == expected


def test_a_take_made_again_differs_and_takes_the_place_of_the_first(cache: ResultCache) -> None:
    wanted = script(WORDS[1])
    with open_tone(cache) as made:
        (first,) = made.read(wanted.segments)
        (other,) = made.retake(wanted.segments)
        (third,) = made.retake(wanted.segments)
        (found,) = made.read(wanted.segments)
    assert found.cached
    takes = [one.take.samples for one in (first, other, third, found) if one.take is not None]
    assert not np.array_equal(takes[0], takes[1])
    assert not np.array_equal(takes[1], takes[2])
    assert np.array_equal(takes[2], takes[3])


def test_takes_of_the_default_voice_differ_in_pace_as_they_do_not_with_the_seed() -> None:
    engine = engine_class("hibari")
    assert not engine.info.varies_with_seed
    loaded = engine(place_on_cpu(), folder=engine.find_weights().folder)
    for text in ("Oh no!", "The old clock stood still."):
        first = Utterance(text)
        takes = loaded.run([vary(first, number, engine.info) for number in range(5)])
        again = loaded.run([replace(first, seed=9)])[0]
        assert _correlate(takes[0].samples, again.samples) > 0.98, "another seed is the same take"
        for number, take in enumerate(takes):
            for other in takes[number + 1 :]:
                assert _correlate(take.samples, other.samples) < 0.5


def _correlate(one: Samples, other: Samples) -> float:
    length = max(len(one), len(other))
    one, other = (np.pad(each, (0, length - len(each))) for each in (one, other))
    return float(np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))


def test_a_file_with_the_name_of_a_voice_is_not_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_tone() as made:
        before = made.takes.make_key(Utterance("Hello.", voice="tone"))
        (tmp_path / "tone").write_bytes(b"no voice")
        monkeypatch.chdir(tmp_path)
        assert made.takes.make_key(Utterance("Hello.", voice="tone")) == before
