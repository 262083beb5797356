"""Transcription from recordings to files, and how it is compared with a text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from anyrig.audio import SPEECH_RATE as RATE
from anyrig.audio.decode import open_audio
from anyrig.audio.samples import Samples
from anyrig.devices.choose import choose_device
from anyrig.devices.discovery import discover
from anyrig.errors import InvalidInputError, render
from anyrig.placement import PlacementPlan, Workload, plan_placement
from anyrig.storage.cache import ResultCache
from anyrig.text.captions import LINE, width
from anyrig.transcription.compare import count_word_errors
from anyrig.transcription.engines import TranscribedLine, TranscribedWord, Transcript
from anyrig.transcription.formats import (
    build_captions,
    describe,
    format_transcription,
    from_json,
    to_json,
)
from anyrig.transcription.models import MOONSHINE, WHISPER_BASE, find_model, find_verifier
from anyrig.transcription.transcribe import (
    Gap,
    RecordingProgress,
    Transcriber,
    Transcription,
    TranscriptionOptions,
    choose_language,
)
from tests.speech.takes import RATE as VOICE_RATE
from tests.speech.takes import said, sentences

TEXTS = sentences()[:14]


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Over a minute of speech, with a long silence in it."""
    parts: list[Samples] = []
    for number, text in enumerate(TEXTS):
        parts += [
            said(text).samples,
            np.zeros(VOICE_RATE * (6 if number == 6 else 1) // 2, np.float32),
        ]
    path = tmp_path_factory.mktemp("talk") / "talk.flac"
    soundfile.write(path, np.concatenate(parts), VOICE_RATE)
    return path


def seats(need: Workload) -> PlacementPlan:
    machine = discover({})
    return plan_placement(machine, choose_device(machine, ()), need, environment={})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "kept.sqlite") as opened_store:
        yield opened_store


def heard(path: Path, store: ResultCache | None, folder: Path, **options: object) -> Transcription:
    with (
        Transcriber(
            seats, environment=dict(os.environ), folder=str(folder), cache=store,
            options=TranscriptionOptions(**options),  # type: ignore[arg-type]
        ) as transcriber,
        open_audio(path) as sound,
    ):  # fmt: skip
        return transcriber.transcribe(sound)


def sane(found: Transcription) -> None:
    at = 0.0
    for line in found.lines:
        assert at <= line.start_s <= line.end_s <= found.duration_s + 1e-6
        at = line.start_s
    spans = sorted([*found.chunks, *((q.start / RATE, q.end / RATE) for q in found.silences)])
    reached = 0.0
    for start, end in spans:
        assert start <= reached + 1e-6, "every second is in a piece, or named quiet"
        reached = max(reached, end)
    assert reached == pytest.approx(found.duration_s, abs=1e-6)


def test_what_was_said_is_written_down_and_kept(
    talk: Path, store: ResultCache, tmp_path: Path
) -> None:
    first = heard(talk, store, tmp_path, language="en")
    assert first.duration_s > 60
    assert first.model == "whisper-base"
    assert count_word_errors(" ".join(TEXTS), first.text).rate <= 0.04
    sane(first)
    assert not first.gaps
    assert first.num_cached == 0
    # A run that was stopped: what it had heard is kept, the rest is heard now.
    size = store.stats()
    (kind,) = [kind for kind in size.kinds if kind.kind == "transcript"]
    assert kind.num_results == len(first.chunks)
    again = heard(talk, store, tmp_path, language="en")
    assert again.lines == first.lines
    assert again.num_cached == len(first.chunks)


def test_progress_comes_in_order(talk: Path, store: ResultCache, tmp_path: Path) -> None:
    told: list[RecordingProgress] = []
    half, rate = soundfile.read(talk, dtype="float32", frames=VOICE_RATE * 20)
    soundfile.write(tmp_path / "half.wav", half, rate)
    with Transcriber(
        seats,
        environment=dict(os.environ),
        folder=str(tmp_path),
        options=TranscriptionOptions(model="moonshine"),
    ) as transcriber:
        for _ in range(2):
            with open_audio(tmp_path / "half.wav") as sound:
                transcriber.transcribe(sound, told.append)
    assert len(told) == 2
    assert all(0 < now.done_s <= 20 for now in told)
    assert told[0].whole_s == pytest.approx(20, abs=0.1)


def test_silence_says_nothing_and_starts_nobody(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "silence.wav", np.zeros(40 * 16000), 16000)
    found = heard(tmp_path / "silence.wav", None, tmp_path / "never made")
    assert found.text == ""
    assert found.lines == ()
    sane(found)
    assert not (tmp_path / "never made").exists()


def test_spanish_is_found_out_and_heard(store: ResultCache, tmp_path: Path) -> None:
    from py_nanotts import NanoTTS

    text = "El tren sale de la estación a las siete de la mañana. Mi hermana vive en Madrid."
    data = NanoTTS().speak(text, voice="es-ES")
    path = tmp_path / "es.wav"
    soundfile.write(path, np.frombuffer(data, dtype="<i2"), 16000)
    found = heard(path, store, tmp_path / "models")
    assert found.language == "es"
    assert found.model == "whisper-base"
    assert "confidence" in found.language_reason
    assert count_word_errors(text, found.text, "es").rate <= 0.25
    assert all(line.confidence is not None for line in found.lines)
    sane(found)


@pytest.mark.slow
def test_whisper_gives_words_with_times(talk: Path, store: ResultCache, tmp_path: Path) -> None:
    found = heard(talk, store, tmp_path, model="whisper-base", language="en", words=True)
    assert count_word_errors(" ".join(TEXTS), found.text).rate <= 0.05
    words = [word for line in found.lines for word in line.words]
    assert len(words) > 100
    assert all(0 <= word.start_s <= word.end_s <= found.duration_s for word in words)
    assert all(word.confidence is not None for word in words)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_whisper_of_transformers_hears_through_workers(tmp_path: Path) -> None:
    from tests.transcription import tiny_whisper

    folder = tiny_whisper.make(tmp_path / "tiny")
    soundfile.write(tmp_path / "short.wav", said(TEXTS[0]).samples, VOICE_RATE)
    found = heard(tmp_path / "short.wav", None, tmp_path, model=str(folder), language="en")
    assert found.engine == "transformers"
    assert not found.gaps
    sane(found)


def test_models_are_chosen_by_language_and_name() -> None:
    assert find_model(language="en") is WHISPER_BASE
    assert find_verifier("en-GB") is MOONSHINE
    assert find_verifier("es") is WHISPER_BASE
    assert find_model(language="fr") is WHISPER_BASE
    assert find_model(language="en", translate=True) is WHISPER_BASE
    assert find_model("base") is WHISPER_BASE
    assert find_model(engine="whisper") is WHISPER_BASE
    for wrong in ("nothing-like-it", "./not/there", "a/b/c"):
        with pytest.raises(InvalidInputError, match="unknown model"):
            find_model(wrong)
    with pytest.raises(InvalidInputError, match="does not support"):
        find_model("moonshine", language="es")
    with pytest.raises(InvalidInputError, match="unknown engine"):
        find_model(engine="ear")
    with pytest.raises(InvalidInputError, match="cannot translate"):
        find_model("moonshine", translate=True)
    with pytest.raises(InvalidInputError, match="no word times") as caught:
        find_model("moonshine", words=True)
    assert "whisper-base" in render(caught.value.hint, "command")
    assert find_model(language="en", words=True) is WHISPER_BASE


def vote(*languages: tuple[str, float]) -> Transcript:
    return Transcript("", languages[0][0] if languages else "", languages=languages)


def test_the_first_chunks_vote_for_a_language() -> None:
    assert (
        choose_language([vote(("es", 0.9), ("pt", 0.1)), vote(("es", 0.8), ("gl", 0.1))])[0] == "es"
    )
    assert choose_language([vote(("pt", 0.4), ("es", 0.35)), vote(("es", 0.9))])[0] == "es"
    code, reason = choose_language([vote(("es", 0.9)), vote(("en", 0.9))])
    assert code == ""
    assert "en, es" in reason
    assert choose_language([])[0] == ""


SAID = "The ship sailed from Liverpool on the fourth of July with three hundred passengers."


def test_loops_haste_and_low_confidence_are_doubtful() -> None:
    loop = "thank you very much for watching " * 12
    assert TranscribedLine(loop, 0.0, 28.0).doubt == "the text repeats itself"
    assert TranscribedLine(SAID, 0.0, 1.0).doubt == "the text is too long for its time"
    assert TranscribedLine(SAID, 0.0, 6.0, avg_logprob=-1.4).doubt == "low confidence"
    assert TranscribedLine(SAID, 0.0, 6.0, avg_logprob=-0.2).doubt == ""
    assert TranscribedLine("No, no!", 0.0, 0.1).doubt == ""


def transcription(*lines: TranscribedLine) -> Transcription:
    return Transcription(
        "talk #1.mp3", 100.0, "en", "requested", (("en", 1.0),), "moonshine", "moonshine",
        lines, gaps=(Gap(80.0, 90.0, "no memory"),),
    )  # fmt: skip


LINES = (
    TranscribedLine(SAID, 0.5, 6.0, avg_logprob=-0.2, no_speech_prob=0.01),
    TranscribedLine("It was *cold* --> & <b>windy</b>.", 6.2, 8.0),
    TranscribedLine("A " + "very " * 60 + "long story.", 12.0, 40.0),
)


def test_captions_fit_and_never_overlap() -> None:
    shown = build_captions(LINES)
    assert all(len(one.lines) <= 2 for one in shown)
    assert all(width(line) <= LINE for one in shown for line in one.lines)
    at = 0
    for one in shown:
        assert at <= one.start_ms < one.end_ms
        at = one.end_ms
    assert max(one.end_ms - one.start_ms for one in shown) <= 8000
    text = format_transcription(transcription(*LINES), "vtt")
    assert text.startswith("WEBVTT\n")
    assert "--&gt; &amp; &lt;b&gt;" in text
    assert "\r\n00:00:00,500 --> " in format_transcription(transcription(*LINES), "srt")


def test_markdown_is_escaped() -> None:
    text = format_transcription(transcription(*LINES), "md")
    assert text.startswith("# talk \\#1.mp3\n")
    assert "**[00:12]**" in text
    assert "\\*cold\\*" in text
    assert "Not transcribed: 01:20 to 01:30" in text


def test_programs_get_what_is_known() -> None:
    found = json.loads(json.dumps(describe(transcription(*LINES))))
    first, second, third = found["segments"]
    assert first["avg_logprob"] == -0.2
    assert first["confidence"] == pytest.approx(0.8187, abs=1e-3)
    assert second["avg_logprob"] is None
    assert third["doubt"] == "the text repeats itself"
    assert found["not_heard"] == [{"start": 80.0, "end": 90.0, "reason": "no memory"}]


def test_what_is_kept_comes_back_as_it_was() -> None:
    words = (TranscribedWord("Hello", 0.0, 0.5, 0.9),)
    heard = Transcript(
        "Hello", "en", (TranscribedLine("Hello", 0.0, 0.5, words, -0.1),), (("en", 0.9),)
    )
    assert from_json(json.dumps(to_json(heard)).encode()) == heard
    assert from_json(b"{}") is None
    assert from_json(b"not json") is None


SAME = [
    ("Mr. Bennett paid $3.50.", "Mister Bennett paid three dollars and fifty cents"),
    ("On March 15, 1998, it rained.", "on March fifteenth nineteen ninety-eight it rained"),
    ("In 2008 it began.", "In twenty oh eight it began"),
    ("The train leaves at 7:45 a.m. sharp.", "The train leaves at seven forty five AM sharp"),
    ("He came at 6:00.", "He came at six o'clock."),
    ("About 75% passed.", "About seventy-five percent passed."),
    ("It cost $400 million.", "It cost four hundred million dollars."),
    ("I have 1,250 books.", "I have one thousand two hundred and fifty books"),
    ("What would you do with $1,000?", "What would you do with a thousand dollars?"),
    ("King Henry VIII had six wives.", "King Henry the eighth had 6 wives."),
    ("St. Mary's on Main St.", "Saint Mary's on Main Street"),
    ("Call 555-0199.", "Call five five five zero one nine nine."),
    ("I don't know, we'll see.", "I do not know, we will see"),
    ("It's over; they can't come.", "It is over. They cannot come."),
    ("OK, colour the harbour grey.", "Okay, color the harbor gray."),
    ("The lighthouse keeper", "the light house keeper"),
    ("“Quite,” said Emily’s aunt…", "quite said Emily's aunt"),
    ("in the 1990s", "in the nineteen nineties"),
]  # fmt: skip

OTHERS = [
    ("Hay 25 gatos.", "Hay veinticinco gatos", "es"),
    ("Il y a 3,5 litres.", "il y a trois virgule cinq litres", "fr"),
    ("Das kostet 12 Mark.", "Das kostet zwölf Mark", "de"),
]


def test_what_is_written_otherwise_is_the_same(subtests: pytest.Subtests) -> None:
    for text, heard in SAME:
        with subtests.test(text=text, heard=heard):
            assert count_word_errors(text, heard).pairs == ()
            assert count_word_errors(text, heard).errors == 0
            assert count_word_errors(heard, text).errors == 0, "either way round"


@pytest.mark.parametrize(("said", "heard", "language"), OTHERS)
def test_other_languages_count_in_their_own_words(said: str, heard: str, language: str) -> None:
    assert count_word_errors(said, heard, language).errors == 0


@pytest.mark.parametrize(
    ("said", "heard", "pairs"),
    [
        ("The cat sat down.", "The cat sat.", [("down", "")]),
        ("I can hear.", "I can't hear.", [("", "not")]),
        ("It was 1998.", "It was nineteen ninety nine.", [("eight", "nine")]),
        ("Pay $5.", "Pay five pounds.", [("dollars", "pounds")]),
        ("Mr. Lee", "Mrs. Lee", [("mister", "missus")]),
    ],
)
def test_real_errors_are_seen(said: str, heard: str, pairs: list[tuple[str, str]]) -> None:
    found = count_word_errors(said, heard)
    assert list(found.pairs) == pairs
    assert found.errors == len(pairs)


def test_the_rate_is_of_what_should_be_said() -> None:
    found = count_word_errors("one two three four", "one two five")
    assert (found.errors, found.words, found.rate) == (2, 4, 0.5)
    assert count_word_errors("one two", "").rate == 1.0
    assert count_word_errors("", "one").rate == 1.0
    assert count_word_errors("", "").rate == 0.0


def test_numbers_that_nobody_reads_do_not_break_it() -> None:
    for odd in ("1.2.3.4", "00:61", "9" * 40, "1e9", "$", "%%", "0.0.0", "1,2,3", "50%%", "²³½"):
        assert count_word_errors(odd, odd).errors == 0
