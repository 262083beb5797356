"""The device saved by `anyrig use`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from anyrig.errors import InvalidSettingError, Message, OptionRef
from anyrig.storage import files


@dataclass(frozen=True)
class SavedDevice:
    device: str
    """A device's stable id, or `auto`, `all`, `cpu` or another kind."""
    name: str = ""


def load_saved_device(path: Path) -> SavedDevice | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        data = data if isinstance(data, dict) else {}
        device, name = data.get("device"), data.get("name", "")
        if not (isinstance(device, str) and device and isinstance(name, str)):
            raise ValueError("it names no device")
        return SavedDevice(device, name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise InvalidSettingError(
            f"cannot read the saved device in {path}: {problem}",
            hint="Save another one with `anyrig use`, or delete it with `anyrig use --reset`.",
        ) from error


def save_device(path: Path, device: SavedDevice) -> None:
    try:
        files.write_atomic(path, json.dumps(asdict(device), indent=2) + "\n")
    except OSError as error:
        raise _cannot_write(path, error) from error


def delete_saved_device(path: Path) -> bool:
    """Return whether a device was saved."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _cannot_write(path, error) from error
    return True


def _cannot_write(path: Path, error: OSError) -> InvalidSettingError:
    return InvalidSettingError(
        f"cannot write {path}: {error.strerror}",
        hint=Message(
            "Set XDG_CONFIG_HOME to a writable folder, or pass {device} each time.",
            device=OptionRef("device"),
        ),
    )
