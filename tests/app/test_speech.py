"""Speech from Python: live synthesis, voices, transcription."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from anyrig import Rig
from anyrig.app import engines
from anyrig.app.batch import BatchRequest, plan_batch
from anyrig.app.cluster import ClusterOptions, check_no_recordings
from anyrig.app.engines import choose_engine
from anyrig.app.live_embedding import LiveEmbedding
from anyrig.app.live_speech import LiveSpeech, open_live_speech
from anyrig.app.models import ModelCache
from anyrig.app.speech import SpeechRequest, open_synthesizer, prepare_script, stream
from anyrig.app.transcription import (
    TranscriptionProgress,
    TranscriptionRequest,
    find_recordings,
    to_verbose_json,
)
from anyrig.errors import (
    InvalidInputError,
    InvalidOptionError,
    LimitExceededError,
    ModelNotFoundError,
    WorkError,
)
from anyrig.events import Event, WarningEvent
from anyrig.options import request_from_json, request_to_json
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.speech.synthesis import Synthesizer
from anyrig.storage.cache import ResultCache
from anyrig.storage.keys import JsonValue
from tests.server.conftest import environment_of
from tests.speech.takes import RATE, said, sentences
from tests.speech.test_takes import CRAFTED


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    environment = environment_of(tmp_path, {"ANYRIG_SERVER_TEXT_CHARACTERS": "100"})
    with ModelCache() as models:
        yield Rig(environment=environment, models=models)


@pytest.fixture
def speech(rig: Rig) -> Iterator[LiveSpeech]:
    with open_live_speech(rig, {"device": "cpu", "no_bench": True, "insecure": True}) as opened:
        yield opened


def names(rig: Rig) -> list[tuple[str, int]]:
    return [(one.name, one.num_borrowers) for one in rig.models.loaded_models()]


@pytest.mark.parametrize("crafted", ["nested words", "exponent", "a word of one part", "problems"])
def test_a_crafted_take_in_the_cache_is_made_again(
    rig: Rig, crafted: str, caplog: pytest.LogCaptureFixture
) -> None:
    def speak() -> tuple[int, float]:
        with rig.speak("The kettle is on.", engine="tone") as made:
            return made.stats.num_cached, made.audio_s

    _, audio_s = speak()
    with ResultCache(rig.folders.result_cache) as cache:
        (found,) = cache.iter_results()
        problems: dict[str, JsonValue] = {"problems": 7}
        data, metadata = CRAFTED.get(crafted, found.data), {} if crafted in CRAFTED else problems
        cache.replace(found.key, data, kind="speech", metadata=metadata)
    assert speak() == (0, audio_s)
    assert "making a cached take again" in caplog.text
    assert speak() == (1, audio_s)


def test_two_clients_share_one_synthesizer(rig: Rig, speech: LiveSpeech) -> None:
    with ExitStack() as stack:
        texts = ("The kettle is on.", "The sea is calm.")
        requests = [speech.request(text=text, engine="tone", voice="alloy") for text in texts]
        first, second = [stack.enter_context(speech.start(request)) for request in requests]
        assert names(rig) == [("speech tone", 2)]
        audio = [one.finish(one.next_part().result()) for one in (first, second)]
        assert (first.engine, first.voice, first.done) == ("tone", "tone", True)
        assert all(len(samples) == one.num_samples > 10_000
                   for samples, one in zip(audio, (first, second), strict=True))  # fmt: skip
    assert names(rig) == [("speech tone", 0)]


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[LiveSpeech]:
    """Speech of texts of any length, not cached."""
    with ModelCache() as models:
        rig = Rig(environment=environment_of(tmp_path), models=models)
        with open_live_speech(rig, {"no_bench": True}, use_cache=False) as opened:
            yield opened


@pytest.mark.parametrize("client", ["ann", "bob"])
def test_long_texts_do_not_delay_a_sentence(patient: LiveSpeech, client: str) -> None:
    """They take turns at each sentence, those of one client and those of several."""
    long = "The kettle is on, and the sea is calm on 3 May. " * 600
    steps, begun = count(1), threading.Event()
    order: list[str] = []

    def step() -> None:
        if next(steps) == 10:
            begun.set()

    def read(text: str, client: str, name: str) -> None:
        with patient.start(patient.request(text=text, engine="tone"), client=client, check=step):
            order.append(name)

    read("Hello.", "ann", "first")  # loads the engine
    with ThreadPoolExecutor(6) as threads:
        done = [threads.submit(read, long, "ann", "long") for _ in range(6)]
        assert begun.wait(60)
        read("Good morning.", client, "sentence")
        for one in done:
            one.result(timeout=60)
    assert order == ["first", "sentence", *["long"] * 6]
    assert next(steps) > 3600


def test_a_text_is_not_prepared_for_a_client_that_left(patient: LiveSpeech) -> None:
    steps = count(1)

    def leave() -> None:
        if next(steps) == 5:
            raise WorkError("the client disconnected", hint="Send the request again.")

    request = patient.request(text="The kettle is on. " * 1000, engine="tone")
    with pytest.raises(WorkError, match="disconnected"):
        patient.start(request, check=leave)
    assert next(steps) == 6
    with patient.start(patient.request(text="Hello.", engine="tone")) as session:
        assert not session.done


def test_errors_name_the_option_that_is_wrong(rig: Rig, speech: LiveSpeech) -> None:
    with pytest.raises(ModelNotFoundError, match="tome") as unknown:
        speech.request(text="Hi.", engine="tome")
    assert unknown.value.option == "engine"
    with pytest.raises(InvalidInputError, match="passwd") as voice:
        speech.start(speech.request(text="Hi.", engine="tone", voice="/etc/passwd"))
    assert voice.value.option == "voice"
    with pytest.raises(LimitExceededError) as text:
        speech.start(speech.request(text="many words " * 20, engine="tone"))
    assert text.value.option == "text"
    assert names(rig) == []


def test_openai_s_models_are_the_default_for_speech_and_unknown_to_jobs(speech: LiveSpeech) -> None:
    assert speech.request(text="Hi.", engine="tts-1").engine == ""
    with pytest.raises(ModelNotFoundError):
        speech.check(engine="tts-1")
    speech.check(engine="tone", voices=["tone"])


def test_vectors_of_the_default_model(rig: Rig) -> None:
    embedding = LiveEmbedding(rig, {"device": "cpu", "no_bench": True, "no_cache": True})
    assert embedding.find_model("text-embedding-3-small") is embedding.find_model()
    futures = embedding.submit(["the sea", "the cat"], model="hashing")
    vectors = np.concatenate([future.result() for future in futures])
    assert vectors.dtype == np.float32
    assert len(vectors) == 2
    assert names(rig) == [("embeddings hashing", 0)]
    never: Any = None  # it is loaded
    with rig.models.borrow("embeddings hashing", never) as embedder:
        assert embedder.is_open
    rig.models.unload("embeddings hashing")
    assert not embedder.is_open
    with pytest.raises(ModelNotFoundError) as unknown:
        embedding.find_model("/etc")
    assert unknown.value.option == "model"


def test_voices_are_selected_by_engine_language_and_name() -> None:
    rig = Rig()
    assert {voice.engine for voice in rig.voices(engine="tone")} == {"tone"}
    assert {voice.language for voice in rig.voices(language="en")} <= {"en", "en-us", "en-gb"}
    assert "tone" not in {voice.engine for voice in rig.voices()}
    with pytest.raises(InvalidInputError, match="no installed voice matches"):
        rig.voices(match="nobody")


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = tmp_path / "talk.flac"
    soundfile.write(path, said(sentences()[0]).samples, RATE)
    return path


def test_a_recording_becomes_text_and_files(talk: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    result = Rig().transcribe(
        talk, language="en", device="cpu", word_times=True, on_event=events.append
    )
    assert "lighthouse" in result.text
    result.save(tmp_path / "talk.vtt")
    assert (tmp_path / "talk.vtt").read_text(encoding="utf-8").startswith("WEBVTT")
    progress = [event for event in events if isinstance(event, TranscriptionProgress)]
    assert progress[-1].file == "talk.flac"
    assert progress[-1].heard_s > 0
    answer = to_verbose_json(result.transcripts[0], words=True)
    assert answer["task"] == "transcribe"
    assert answer["language"] == "en"
    assert answer["duration"] == pytest.approx(len(said(sentences()[0]).samples) / RATE, abs=0.01)
    segments, words = answer["segments"], answer["words"]
    assert isinstance(segments, list)
    wanted = {"id", "start", "end", "text", "avg_logprob", "no_speech_prob", "compression_ratio"}
    assert wanted <= set(segments[0])
    assert isinstance(words, list)
    assert words[0]["word"] == "The"
    assert np.isfinite([word["start"] for word in words]).all()
    again = Rig().transcribe(
        talk, language="en", device="cpu", word_times=True, output=tmp_path / "again.srt"
    )
    assert again.transcripts[0].num_cached == 1
    assert again.files[0].outputs == (tmp_path / "again.srt",)


def test_one_bad_recording_of_two_is_reported_and_one_of_one_is_raised(
    talk: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.mp3"
    bad.write_bytes(b"no audio" * 99)
    with pytest.raises(InvalidInputError, match="bad.mp3 is not a readable"):
        Rig().transcribe(bad)
    result = Rig().transcribe(bad, talk, language="en", device="cpu")
    assert [one.file for one in result.failed] == [str(bad)]
    assert len(result.transcripts) == 1


def test_transcripts_of_the_same_name_get_different_ones(tmp_path: Path) -> None:
    for name in ("x/talk.mp3", "x/talk.wav", "y/one.wav", "z/one.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = find_recordings([tmp_path / "x", tmp_path / "y", tmp_path / "z"], lambda _: None)
    assert len({one.name for one in found}) == 4


def test_a_request_is_checked_and_survives_json() -> None:
    request = TranscriptionRequest(files=("a.mp3",), format=("SRT", ".txt"), word_times=True)  # type: ignore[arg-type]
    assert request.format == ("srt", "txt")
    assert request_from_json(TranscriptionRequest, request_to_json(request)) == request
    with pytest.raises(InvalidOptionError, match="`engine` must be one of moonshine"):
        TranscriptionRequest(files=(Path("a.mp3"),), engine="piper")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds_per_character", "first"),
    [(0.0, "The old house stood empty all winter, and the garden had grown wild."),
     (0.05, "The old house stood empty all winter,")],
)  # fmt: skip
def test_a_long_first_sentence_is_cut_for_an_engine_that_was_measured_to_be_slow(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, seconds_per_character: float, first: str
) -> None:
    speed = property(lambda synthesizer: seconds_per_character)
    monkeypatch.setattr(Synthesizer, "seconds_per_character", speed)
    text = (
        "The old house stood empty all winter, and the garden had grown wild. "
        "Nobody came to see it."
    )
    request = rig.request(SpeechRequest, text=text, engine="tone")
    with stream(rig, request, lambda event: None, listening=True) as (_, chunks):
        assert next(iter(chunks)).text == first


def test_a_synthesizer_measures_its_engine(rig: Rig) -> None:
    request = rig.request(SpeechRequest, text="The kettle is on.", engine="tone", fresh=True)
    choice = choose_engine(rig, request)
    with open_synthesizer(rig, request, choice, 10, None) as synthesizer:
        assert synthesizer.seconds_per_character == 0.0
        list(synthesizer.read(prepare_script(rig, request, choice).segments))
        assert 0.0 < synthesizer.seconds_per_character < 1.0


def test_another_take_of_the_default_voice_has_another_pace(rig: Rig, tmp_path: Path) -> None:
    """Its takes of two seeds are the same, so that a new seed would change nothing."""
    file = tmp_path / "lines.txt"
    file.write_text("The kettle is on.\n")
    events: list[Event] = []

    def plan_rate(**more: Any) -> float:
        given = {"file": file, "output": tmp_path / "out", "engine": "hibari", **more}
        result = plan_batch(rig, rig.request(BatchRequest, **given), events.append)
        return result.items[0].script.segments[0].utterance.rate

    assert plan_rate() == 1.0
    assert plan_rate(only="1") != 1.0
    assert not [one for one in events if isinstance(one, WarningEvent)]
    assert plan_rate(seed=2) == 1.0
    (warning,) = [one for one in events if isinstance(one, WarningEvent)]
    assert "hibari gives the same take for every seed" in warning.message


def test_a_request_with_a_voice_looks_up_weights_once(
    rig: Rig, speech: LiveSpeech, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    find = engines.find_weights

    def count(rig: Rig, options: Any, name: str, engine: Any) -> Any:
        found.append(name)
        return find(rig, options, name, engine)

    monkeypatch.setattr(engines, "find_weights", count)
    request = speech.request(text="The kettle is on.", voice="heart")
    _, choice = speech._choose(request, "en")
    assert (choice.name, found) == ("hibari", ["hibari"])
    found.clear()
    request, choice = speech._choose(speech.request(text="The kettle is on.", voice="alloy"), "en")
    assert (choice.name, request.voice) == ("hibari", "heart")
    assert len(found) == len(set(found)), "each engine once"


def test_a_file_with_the_name_of_a_voice_does_not_keep_it_off_a_cluster(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = ClusterOptions(cluster="redis://127.0.0.1:1/0")
    for name in ("heart", "me.wav"):
        Path(name).write_bytes(b"a recording")
    check_no_recordings(rig, cluster, prepare("Hello.", SpeechOptions(voice="heart")).segments)
    with pytest.raises(WorkError, match="me.wav is a file on this machine"):
        check_no_recordings(rig, cluster, prepare("Hello.", SpeechOptions(voice="me.wav")).segments)
