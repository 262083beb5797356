"""Voices: the Python call."""

from __future__ import annotations

import pytest

from anyrig.app.rig import Rig
from anyrig.errors import InvalidInputError


def test_voices_are_selected_by_engine_language_and_name() -> None:
    rig = Rig()
    assert {voice.engine for voice in rig.voices(engine="tone")} == {"tone"}
    assert {voice.language for voice in rig.voices(language="en")} <= {"en", "en-us", "en-gb"}
    assert "tone" not in {voice.engine for voice in rig.voices()}
    with pytest.raises(InvalidInputError, match="no installed voice matches"):
        rig.voices(match="nobody")


def test_the_language_of_the_settings_selects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYRIG_SPEECH_LANGUAGE", "fr")
    assert {voice.language for voice in Rig().voices(engine="tone")} == {"en", "es", "fr"}
