"""Which engine speaks: by voice, by language, by quality, with the licence as a filter."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.app.engines import VoiceOptions, choose_engine, suggest_engines
from anyrig.app.rig import Rig
from anyrig.errors import InvalidInputError, MissingPackageError, render
from anyrig.speech.choose import (
    EngineCatalog,
    EngineReason,
    choose_by_language,
    choose_by_voices,
    rank_engines,
)
from anyrig.speech.engine import EngineWeights, Utterance, Voice
from anyrig.speech.engines.hibari import Hibari
from anyrig.speech.language import build_language_error
from anyrig.speech.takes import TakeCache
from anyrig.speech.voices import is_recording

VOICES = {
    "hibari": ("en",), "kokoro": ("en", "es", "fr", "it", "pt"), "piper": ("de", "es"),
    "nanotts": ("en", "es", "fr", "de", "it"), "xtts": ("en", "es", "pl"), "vits": ("fr",),
}  # fmt: skip


def catalog(*installed: str, options: dict[str, object] | None = None) -> EngineCatalog:
    def find(name: str) -> EngineWeights:
        if name not in installed:
            raise MissingPackageError(f"{name} is not installed", hint="Install it.")
        voices = tuple(Voice(f"{name}_{code}", code, name) for code in VOICES[name])
        return EngineWeights(name, "1", "x", voices)

    return EngineCatalog(find, options)


@pytest.mark.parametrize(
    ("language", "installed", "chosen"),
    [
        ("es", ("hibari", "nanotts", "kokoro"), "kokoro"),
        ("fr", ("hibari", "nanotts", "kokoro"), "kokoro"),
        ("it-IT", ("hibari", "nanotts", "kokoro"), "kokoro"),
        ("es", ("hibari", "nanotts", "piper"), "piper"),
        ("es", ("hibari", "nanotts", "xtts"), "nanotts"),  # the weights of xtts are restricted
        ("pl", ("hibari", "nanotts", "xtts"), "xtts"),  # ... but nothing else speaks Polish
        ("fr", ("hibari", "nanotts", "vits"), "nanotts"),
        ("en", ("hibari", "kokoro"), "hibari"),
        ("", ("hibari", "kokoro"), "hibari"),
        ("de", ("hibari", "kokoro"), "hibari"),  # nobody: the default says what is missing
    ],
)
def test_the_best_engine_for_a_language(
    language: str, installed: tuple[str, ...], chosen: str
) -> None:
    choice = choose_by_language(catalog(*installed), language)
    assert choice.name == chosen
    expected = EngineReason.DEFAULT if chosen == "hibari" else EngineReason.LANGUAGE
    assert choice.reason_code is expected


def test_without_the_default_engine() -> None:
    choice = choose_by_language(catalog("nanotts"), "en")
    assert (choice.name, choice.reason_code) == ("nanotts", EngineReason.NOT_INSTALLED)
    with pytest.raises(MissingPackageError):
        choose_by_language(catalog("nanotts"), "")


def test_an_engine_with_all_voices() -> None:
    installed = catalog("hibari", "kokoro", "nanotts")
    choice = choose_by_voices(installed, ["kokoro_en:2+kokoro_es", "kokoro_fr"])
    assert (choice.name, choice.reason_code) == ("kokoro", EngineReason.VOICES)
    assert choose_by_voices(installed, ["hibari_en"]).reason_code is EngineReason.DEFAULT
    with pytest.raises(InvalidInputError, match="no engine has all"):
        choose_by_voices(installed, ["kokoro_en", "nanotts_en"])
    with pytest.raises(InvalidInputError, match="unknown voice 'kokoro_xx'") as error:
        choose_by_voices(installed, ["kokoro_xx"])
    assert "Did you mean" in error.value.hint


def test_an_option_that_the_engine_of_a_voice_does_not_have_is_named() -> None:
    """The voice was called unknown, and the list of valid names was empty."""
    installed = catalog("hibari", "kokoro", options={"nonsense": 3})
    for voice in ("hibari_en", "kokoro_en"):
        with pytest.raises(InvalidInputError, match="has no option 'nonsense'"):
            choose_by_voices(installed, [voice])
    with pytest.raises(InvalidInputError, match="unknown voice 'nobody'") as error:
        choose_by_voices(installed, ["nobody"])
    assert "hibari_en" in error.value.hint


def test_the_hint_to_install_names_the_best() -> None:
    for language in ("es", "fr", "it", "pt"):
        assert rank_engines(language, known=True)[0] == "kokoro"
    rig = Rig()
    choice = choose_engine(rig, VoiceOptions())
    error = suggest_engines(rig, build_language_error("pt", ("en",)), VoiceOptions(), choice)
    hint = render(error.hint, "command")
    assert hint.startswith("kokoro (Apache-2.0) speaks it: anyrig voices get pt, then ")
    assert "espeak" not in hint


def test_weights_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, calls = Rig(), list[Path | None]()
    find = Hibari.find_weights.__func__  # type: ignore[attr-defined]

    def count(cls: type[Hibari], folder: Path | None = None) -> EngineWeights:
        calls.append(folder)
        found: EngineWeights = find(cls, folder)
        return found

    monkeypatch.setattr(Hibari, "find_weights", classmethod(count))
    for _ in range(3):
        assert choose_engine(rig, VoiceOptions(voice="heart")).name == "hibari"
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("voice", "is_path"),
    [("heart", False), ("af_heart:2+am_michael", False), ("Ana Florence", False),
     ("joe#2", False), ("me.wav", True), ("me.FLAC", True), ("./heart", True), (r"a\b", True)],
)  # fmt: skip
def test_a_voice_is_a_file_only_if_it_looks_like_one(voice: str, is_path: bool) -> None:
    assert is_recording(voice) is is_path


def test_a_file_with_the_name_of_a_voice_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("heart").write_text("a shopping list")
    choice = choose_engine(Rig(), VoiceOptions(voice="heart"))
    assert choice.name == "hibari"
    cache = TakeCache(choice.info, choice.weights, "fp32", choice.options)
    with_file = cache.make_key(Utterance("Hello.", voice="heart"))
    Path("heart").unlink()
    assert cache.make_key(Utterance("Hello.", voice="heart")) == with_file
    Path("heart").touch()
    with pytest.raises(InvalidInputError, match="is a recording"):
        choose_engine(Rig(), VoiceOptions(voice="./heart"))
