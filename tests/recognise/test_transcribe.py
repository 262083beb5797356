"""What a voice says is written down again: long recordings, through workers, kept in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from anyrig.devices.choose import choose_device
from anyrig.devices.discover import discover
from anyrig.errors import InvalidInputError
from anyrig.placement import PlacementPlan, Workload, plan_placement
from anyrig.recognise.compare import word_errors
from anyrig.recognise.gather import Progress, Transcription
from anyrig.recognise.model import MOONSHINE, WHISPER_BASE, find
from anyrig.recognise.protocol import RATE, Transcript
from anyrig.recognise.resample import Samples
from anyrig.recognise.sound import opened
from anyrig.recognise.tongue import elected
from anyrig.recognise.transcribe import Transcriber, Wishes
from anyrig.storage.cache import ResultCache
from tests.speech.sound.takes import RATE as VOICE_RATE
from tests.speech.sound.takes import said, sentences

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


def heard(path: Path, store: ResultCache | None, folder: Path, **wishes: object) -> Transcription:
    with (
        Transcriber(
            seats, environment=dict(os.environ), folder=str(folder), store=store,
            wishes=Wishes(**wishes),  # type: ignore[arg-type]
        ) as transcriber,
        opened(path) as sound,
    ):  # fmt: skip
        return transcriber.transcribe(sound)


def sane(found: Transcription) -> None:
    at = 0.0
    for line in found.lines:
        assert at <= line.start_s <= line.end_s <= found.duration_s + 1e-6
        at = line.start_s
    spans = sorted([*found.pieces, *((q.start / RATE, q.end / RATE) for q in found.quiet)])
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
    assert first.model == "moonshine"
    assert word_errors(" ".join(TEXTS), first.text).rate <= 0.04
    sane(first)
    assert not first.gaps
    assert first.num_kept == 0
    # A run that was stopped: what it had heard is kept, the rest is heard now.
    size = store.stats()
    (kind,) = [kind for kind in size.kinds if kind.kind == "transcript"]
    assert kind.num_results == len(first.pieces)
    again = heard(talk, store, tmp_path, language="en")
    assert again.lines == first.lines
    assert again.num_kept == len(first.pieces)


def test_progress_comes_in_order(talk: Path, store: ResultCache, tmp_path: Path) -> None:
    told: list[Progress] = []
    half, rate = soundfile.read(talk, dtype="float32", frames=VOICE_RATE * 20)
    soundfile.write(tmp_path / "half.wav", half, rate)
    with Transcriber(
        seats, environment=dict(os.environ), folder=str(tmp_path), wishes=Wishes(model="moonshine")
    ) as transcriber:
        for _ in range(2):
            with opened(tmp_path / "half.wav") as sound:
                transcriber.transcribe(sound, told.append)
    assert len(told) == 2
    assert all(0 < now.heard_s <= 20 for now in told)
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
    assert "sure" in found.language_reason
    assert word_errors(text, found.text, "es").rate <= 0.25
    assert all(line.confidence is not None for line in found.lines)
    sane(found)


@pytest.mark.slow
def test_whisper_gives_words_with_times(talk: Path, store: ResultCache, tmp_path: Path) -> None:
    found = heard(talk, store, tmp_path, model="whisper-base", language="en", words=True)
    assert word_errors(" ".join(TEXTS), found.text).rate <= 0.05
    words = [word for line in found.lines for word in line.words]
    assert len(words) > 100
    assert all(0 <= word.start_s <= word.end_s <= found.duration_s for word in words)
    assert all(word.confidence is not None for word in words)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_whisper_of_transformers_hears_through_workers(tmp_path: Path) -> None:
    from tests.recognise import tiny_whisper

    folder = tiny_whisper.make(tmp_path / "tiny")
    soundfile.write(tmp_path / "short.wav", said(TEXTS[0]).samples, VOICE_RATE)
    found = heard(tmp_path / "short.wav", None, tmp_path, model=str(folder), language="en")
    assert found.engine == "transformers"
    assert not found.gaps
    sane(found)


def test_models_are_chosen_by_language_and_name() -> None:
    assert find(language="en") is MOONSHINE
    assert find(language="fr") is WHISPER_BASE
    assert find(language="en", translate=True) is WHISPER_BASE
    assert find("base") is WHISPER_BASE
    assert find(engine="whisper") is WHISPER_BASE
    for wrong in ("nothing-like-it", "./not/there", "a/b/c"):
        with pytest.raises(InvalidInputError, match="unknown model"):
            find(wrong)
    with pytest.raises(InvalidInputError, match="does not support"):
        find("moonshine", language="es")
    with pytest.raises(InvalidInputError, match="unknown engine"):
        find(engine="ear")
    with pytest.raises(InvalidInputError, match="cannot translate"):
        find("moonshine", translate=True)


def vote(*languages: tuple[str, float]) -> Transcript:
    return Transcript("", languages[0][0] if languages else "", languages=languages)


def test_the_first_pieces_elect_a_language() -> None:
    assert elected([vote(("es", 0.9), ("pt", 0.1)), vote(("es", 0.8), ("gl", 0.1))])[0] == "es"
    assert elected([vote(("pt", 0.4), ("es", 0.35)), vote(("es", 0.9))])[0] == "es"
    code, reason = elected([vote(("es", 0.9)), vote(("en", 0.9))])
    assert code == ""
    assert "en, es" in reason
    assert elected([])[0] == ""
