"""The schema of settings, and the folders of a user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from anyrig.errors import InvalidSettingError
from anyrig.options import Request, option
from anyrig.settings.folders import find_folders
from anyrig.settings.load import SettingsLoader, SettingsSchema
from anyrig.settings.saved_device import (
    SavedDevice,
    delete_saved_device,
    load_saved_device,
    save_device,
)


@dataclass(frozen=True, kw_only=True)
class AudioOptions(Request):
    speed: float = option(1.0, ge=0.25, le=4, unit="times", setting="audio.speed")
    format: Literal["wav", "mp3"] = option("wav", setting="audio.format")
    channels: int = option(1, gt=0, setting="audio.channels")
    memory_gb: float | None = option(None, gt=0, setting="audio.memory_gb", excludes="memory_mb")
    memory_mb: int | None = option(None, gt=0, setting="audio.memory_mb")
    folder: Path | None = option(None, setting="audio.folder")
    tags: tuple[str, ...] = option((), setting="audio.tags")
    output: str = option("", setting="audio.output", restricted=True)
    seed: int = option(0)


@dataclass(frozen=True, kw_only=True)
class OtherOptions(Request):
    quiet: bool = option(False, setting="quiet")
    name: str = option("", normalize=lambda text: {"B": "beta"}.get(text), setting="name")
    speed: float = option(2.0, setting="audio.speed", fill=False)


SCHEMA = SettingsSchema({"": [OtherOptions], "audio": [AudioOptions, OtherOptions]})


def load(variables: dict[str, str] | None = None, **places: Any) -> Any:
    return SettingsLoader(SCHEMA, dict).load(variables or {}, **places)


def load_value(tmp_path: Path, key: str, value: str) -> Any:
    file = tmp_path / "a.toml"
    section, _, name = key.rpartition(".")
    file.write_text(f"[{section}]\n{name} = {value}" if section else f"{name} = {value}")
    return load(user_file=file).settings[key]


def test_keys_are_the_options_that_have_one() -> None:
    assert list(SCHEMA) == [
        "quiet", "name", "audio.speed", "audio.format", "audio.channels", "audio.memory_gb",
        "audio.memory_mb", "audio.folder", "audio.tags", "audio.output",
    ]  # fmt: skip
    assert SCHEMA["audio.speed"].default == 1.0  # of the first class
    assert "audio.seed" not in SCHEMA
    assert "nowhere.seed" not in SCHEMA


def test_a_section_is_imported_when_it_is_needed(tmp_path: Path) -> None:
    schema = SettingsSchema({"": [OtherOptions], "audio": ["nowhere:Nothing"]})
    loader = SettingsLoader(schema, dict)
    assert loader.load({"ANYRIG_QUIET": "yes", "HOME": "/"}).settings == {"quiet": True}
    with pytest.raises(ModuleNotFoundError):
        loader.load({"ANYRIG_AUDIO_SPEED": "2"})


@pytest.mark.parametrize(
    ("key", "value", "parsed"),
    [("quiet", "'ON'", True), ("quiet", "0", False), ("audio.speed", "' 2 '", 2.0),
     ("name", "7", "7"), ("name", "'B'", "beta"), ("audio.channels", "'2'", 2),
     ("audio.format", "'mp3'", "mp3"), ("audio.memory_gb", "0", None),
     ("audio.memory_gb", "0.5", 0.5), ("audio.folder", "''", None),
     ("audio.folder", "'/a,b'", Path("/a,b")), ("audio.tags", "['a', 'b,c']", ("a", "b,c")),
     ("audio.tags", "'a, b'", ("a", "b"))],
)  # fmt: skip
def test_accepted_values(tmp_path: Path, key: str, value: str, parsed: object) -> None:
    found = load_value(tmp_path, key, value)
    assert found == parsed
    assert type(found) is type(parsed)


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [("quiet", "'maybe'", "true or false"), ("audio.speed", "5", "a number between 0.25 and 4"),
     ("audio.speed", "'nan'", "a number"), ("audio.speed", "inf", "a number"),
     ("audio.speed", "true", "a number"), ("audio.channels", "0", "a whole number greater than 0"),
     ("audio.channels", "'\u00b2'", "a whole"), ("audio.channels", "1.5", "a whole number"),
     ("audio.channels", "true", "a whole number"), ("audio.format", "'ogg'", "one of wav, mp3"),
     ("name", "['a']", "text"), ("name", "true", "text"), ("audio.memory_gb", "-1", "a number")],
)  # fmt: skip
def test_rejected_values(tmp_path: Path, key: str, value: str, accepted: str) -> None:
    with pytest.raises(
        InvalidSettingError, match=f"{key} must be .*, not .* \\(.*a.toml\\)"
    ) as caught:
        load_value(tmp_path, key, value)
    assert f"must be {accepted}" in caught.value.message
    assert "default" in caught.value.hint


def test_settings_that_exclude_each_other(tmp_path: Path) -> None:
    both = {"ANYRIG_AUDIO_MEMORY_GB": "1", "ANYRIG_AUDIO_MEMORY_MB": "1"}
    with pytest.raises(InvalidSettingError, match="audio.memory_gb and audio.memory_mb are both"):
        load(both)
    assert load({**both, "ANYRIG_AUDIO_MEMORY_MB": "0"}).settings["audio.memory_gb"] == 1.0


def test_any_schema_can_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[audio]\nspeed = 2\noutput = "/x"\n')
    loaded = load({"ANYRIG_AUDIO_FORMAT": "mp3"}, project_file=file)
    assert loaded.settings == {"audio.speed": 2.0, "audio.format": "mp3"}
    assert "audio.output" in loaded.warnings[0]


@pytest.mark.parametrize(
    ("platform", "environment", "config", "cache", "data", "state"),
    [
        ("linux", {"HOME": "/h"}, "/h/.config/anyrig", "/h/.cache/anyrig",
         "/h/.local/share/anyrig", "/h/.local/state/anyrig"),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/k",
                   "XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "/s"},
         "/c/anyrig", "/k/anyrig", "/d/anyrig", "/s/anyrig"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/anyrig",
         "/h/Library/Caches/anyrig", "/h/Library/Application Support/anyrig",
         "/h/Library/Application Support/anyrig"),
        ("win32", {"USERPROFILE": "/u", "APPDATA": "/r", "LOCALAPPDATA": "/l"}, "/r/anyrig",
         "/l/anyrig/Cache", "/l/anyrig", "/l/anyrig"),
    ],
)  # fmt: skip
def test_folders(
    platform: str, environment: dict[str, str], config: str, cache: str, data: str, state: str
) -> None:
    found = find_folders(environment, platform)
    assert (found.config, found.cache) == (Path(config), Path(cache))
    assert (found.data, found.state) == (Path(data), Path(state))


def test_user_without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert find_folders({}, "linux").config.name == "anyrig"


@pytest.mark.parametrize(
    "text", ["null", "[]", '"cpu"', "7", "{}", '{"device": 5}', '{"device": ""}']
)
def test_a_saved_device_that_is_none_is_called_that(tmp_path: Path, text: str) -> None:
    path = tmp_path / "choice.json"
    path.write_text(text)
    with pytest.raises(InvalidSettingError, match="it names no device"):
        load_saved_device(path)


def test_saved_device(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "choice.json"
    assert load_saved_device(path) is None
    save_device(path, SavedDevice("GPU-1", "card"))
    assert load_saved_device(path) == SavedDevice("GPU-1", "card")
    assert delete_saved_device(path)
    assert not delete_saved_device(path)
    path.write_text("{")
    with pytest.raises(InvalidSettingError) as caught:
        load_saved_device(path)
    assert "--reset" in caught.value.hint
