"""Speech and vectors for many clients, called as the server calls them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import numpy as np
import pytest

from anyrig.app.live_embedding import LiveEmbedding
from anyrig.app.live_speech import LiveSpeech, open_live_speech
from anyrig.app.models import ModelCache
from anyrig.app.rig import Rig
from anyrig.errors import InvalidInputError, LimitExceededError, ModelNotFoundError
from tests.server.conftest import environment_of


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


def test_two_clients_share_one_synthesizer(rig: Rig, speech: LiveSpeech) -> None:
    with ExitStack() as stack:
        texts = ("The kettle is on.", "The sea is calm.")
        requests = [speech.request(text=text, engine="tone", voice="alloy") for text in texts]
        first, second = [stack.enter_context(speech.start(request)) for request in requests]
        assert names(rig) == [("speech tone", 2)]
        audio = [one.finish(one.next_segment().result()) for one in (first, second)]
        assert (first.engine, first.voice, first.done) == ("tone", "tone", True)
        assert all(len(samples) == one.num_samples > 10_000
                   for samples, one in zip(audio, (first, second), strict=True))  # fmt: skip
    assert names(rig) == [("speech tone", 0)]


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
    vectors = [future.result() for future in futures]
    assert [vector.dtype for vector in vectors] == [np.float32] * 2
    assert names(rig) == [("embeddings hashing", 0)]
    with rig.models.borrow("embeddings hashing", nullcontext) as embedder:
        assert embedder.is_open
    rig.models.unload("embeddings hashing")
    assert not embedder.is_open
    with pytest.raises(ModelNotFoundError) as unknown:
        embedding.find_model("/etc")
    assert unknown.value.option == "model"
