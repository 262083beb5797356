from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from anyrig.errors import InvalidSettingError
from anyrig.settings.load import SettingsLoader
from anyrig.settings.schema import list_settings, setting


@dataclass(frozen=True)
class Audio:
    speed: float = setting(1.0, ge=0.25, le=4, unit="times")
    format: Literal["wav", "mp3"] = "wav"
    channels: int = setting(1, gt=0)
    output: str = setting("", restricted=True)


@dataclass(frozen=True)
class Example:
    quiet: bool = False
    name: str = setting("", normalize=lambda text: {"B": "beta"}.get(text))
    audio: Audio = field(default_factory=Audio)


def test_keys_types_and_choices() -> None:
    settings = list_settings(Example)
    assert list(settings) == [
        "quiet", "name", "audio.speed", "audio.format", "audio.channels", "audio.output",
    ]  # fmt: skip
    assert settings["audio.format"].choices == ("wav", "mp3")
    assert settings["audio.speed"].kind is float


@pytest.mark.parametrize(
    ("key", "value", "parsed"),
    [("quiet", "ON", True), ("quiet", 0, False), ("audio.speed", " 2 ", 2.0), ("name", 7, "7"),
     ("name", "B", "beta"), ("audio.channels", "2", 2), ("audio.format", "mp3", "mp3")],
)  # fmt: skip
def test_accepted_values(key: str, value: object, parsed: object) -> None:
    found = list_settings(Example)[key].parse(value, "test")
    assert found == parsed
    assert type(found) is type(parsed)


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [("quiet", "maybe", "true or false"), ("quiet", None, "true or false"),
     ("audio.speed", 5, "a number between 0.25 and 4 times"), ("audio.speed", "nan", "number"),
     ("audio.speed", "inf", "number"), ("audio.speed", True, "number"),
     ("audio.channels", 0, "a whole number greater than 0"), ("audio.channels", "\u00b2", "whole"),
     ("audio.channels", 1.5, "whole number"), ("audio.channels", True, "whole number"),
     ("audio.format", "ogg", "one of: wav, mp3"), ("name", ["a"], "text"), ("name", True, "text")],
)  # fmt: skip
def test_rejected_values(key: str, value: object, hint: str) -> None:
    with pytest.raises(
        InvalidSettingError, match=f"invalid value for {key}: .* \\(a.toml\\)"
    ) as caught:
        list_settings(Example)[key].parse(value, "a.toml")
    assert hint in caught.value.hint


def test_any_schema_can_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[audio]\nspeed = 2\noutput = "/x"\n')
    loaded = SettingsLoader(Example).load({"ANYRIG_AUDIO_FORMAT": "mp3"}, project_file=file)
    assert loaded.settings == Example(audio=Audio(speed=2.0, format="mp3"))
    assert "audio.output" in loaded.warnings[0]
