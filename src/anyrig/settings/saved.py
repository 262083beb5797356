"""The device saved by `anyrig use`: kept by its stable id, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from anyrig.errors import InvalidSettingError
from anyrig.storage import files


@dataclass(frozen=True)
class SavedChoice:
    """What was chosen: a device's id, or the words `auto`, `all` or `cpu`."""

    device: str
    name: str = ""


def load(path: Path) -> SavedChoice | None:
    """The saved choice, or None when there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return SavedChoice(str(data["device"]), str(data.get("name", "")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidSettingError(
            f"the saved choice {path} cannot be read: {error}",
            hint="Forget it with `anyrig use --reset`.",
        ) from error


def save(path: Path, choice: SavedChoice) -> None:
    """Keep a choice."""
    try:
        files.write_atomic(path, json.dumps(asdict(choice), indent=2) + "\n")
    except OSError as error:
        raise _unwritable(path, error) from error


def forget(path: Path) -> bool:
    """Drop the saved choice; whether there was one."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unwritable(path, error) from error
    return True


def _unwritable(path: Path, error: OSError) -> InvalidSettingError:
    return InvalidSettingError(
        f"cannot write {path}: {error.strerror}",
        hint="Set XDG_CONFIG_HOME to a folder you may write to, or use --device each time.",
    )
