from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import InvalidSettingError
from anyrig.settings.folders import find_folders
from anyrig.settings.saved_device import (
    SavedDevice,
    delete_saved_device,
    load_saved_device,
    save_device,
)


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
