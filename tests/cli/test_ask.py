"""Being asked on a terminal: a real pseudo-terminal, real keys."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import MACHINES

PAIR = MACHINES / "rtx4090-rtxpro6000-wsl2.json"


def _on_terminal(code: str, keys: bytes, *words: str) -> tuple[int, str]:
    """Run Python on a terminal of its own, typing `keys` once it asks."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
    )  # fmt: skip
    os.close(theirs)
    text, typed, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([ours], [], [], 0.2)
        if ready:
            try:
                text += os.read(ours, 65536)
            except OSError:
                break
        if not typed and b"]: " in text:
            os.write(ours, keys)
            typed = True
        if not ready and process.poll() is not None:
            break
    os.close(ours)
    return process.wait(timeout=60), text.decode().replace("\r\n", "\n")


_USE = "import sys; from anyrig.cli.main import main; sys.exit(main(sys.argv[1:]))"
# A computing command on a recorded machine: what every such command does before it computes.
_COMPUTE = """
import json, sys
from anyrig.app.compute import DeviceOptions
from anyrig.app.rig import Rig
from anyrig.cli.rig import _ask_device
from anyrig.cli.ask import can_ask
from anyrig.devices.discover import from_record
rig = Rig(ask_device=_ask_device if can_ask() else None)
rig.machine = from_record(json.load(open(sys.argv[1])))
print("PICKED", rig.choose_device(DeviceOptions(device=sys.argv[2], no_bench=True)).device.name)
"""


def _saved() -> dict[str, str]:
    path = Path(os.environ["XDG_CONFIG_HOME"], "anyrig", "choice.json")
    data: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return data


def test_use_asks_and_enter_takes_the_recommended_one() -> None:
    code, text = _on_terminal(_USE, b"\r", "use", "--no-bench")
    assert code == 0
    assert "Which device" in text
    assert "(recommended)" in text
    assert _saved()["device"] == "cpu"


@pytest.mark.parametrize("keys", [b"\x04", b"q\r"])
def test_leaving_the_question_saves_nothing(keys: bytes) -> None:
    code, text = _on_terminal(_USE, keys, "use", "--no-bench")
    assert code == 0
    assert "Nothing was saved" in text
    assert _saved() == {}


def test_a_name_answers_too() -> None:
    code, _ = _on_terminal(_USE, b"cpu\r", "use", "--no-bench")
    assert code == 0
    assert _saved()["device"] == "cpu"


def test_use_asks_again_after_nonsense() -> None:
    code, text = _on_terminal(_USE, b"99\r0\r", "use", "--no-bench")
    assert code == 0
    assert "Enter a number from 0 to" in text


@pytest.mark.parametrize(
    ("keys", "name"), [(b"\r", "PRO 6000"), (b"0\r", "4090"), (b"2\r", "Ryzen")]
)
def test_the_first_computing_command_asks_once(keys: bytes, name: str) -> None:
    code, text = _on_terminal(_COMPUTE, keys, str(PAIR), "")
    assert code == 0, text
    assert "Which device" in text
    assert name in text.split("PICKED")[1]
    assert name in _saved()["name"]
    _, again = _on_terminal(_COMPUTE, b"", str(PAIR), "")
    assert "Which device" not in again
    assert name in again.split("PICKED")[1]


def test_nobody_is_asked_when_a_device_is_named_or_only_one_can_serve() -> None:
    _, text = _on_terminal(_COMPUTE, b"", str(PAIR), "rtx 4090")
    assert "Which device" not in text
    _, text = _on_terminal(_COMPUTE, b"", str(MACHINES / "h200-linux.json"), "")
    assert "Which device" not in text
    assert "H200" in text.split("PICKED")[1]


def test_nobody_is_asked_without_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMPUTE, str(PAIR), ""],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert "Which device" not in done.stdout + done.stderr
    assert "PRO 6000" in done.stdout


@pytest.mark.parametrize("words", [["devices"], ["use", "cpu"], ["doctor"]])
def test_commands_about_devices_never_import_rich(words: list[str]) -> None:
    """Not even on a terminal, where they show progress."""
    code = (
        "import sys; from anyrig.cli.main import main; main(sys.argv[1:]);"
        "print('RICH', any(name.partition('.')[0] == 'rich' for name in sys.modules))"
    )
    _, text = _on_terminal(code, b"", *words)
    assert "RICH False" in text


@pytest.mark.parametrize("printer", ["EventPrinter", "PlainEventPrinter"])
def test_progress_is_drawn_on_a_terminal(printer: str) -> None:
    code = (
        f"from anyrig.cli.output import {printer}\n"
        "from anyrig.app.events import ProgressEvent, WarningEvent\n"
        f"with {printer}() as printer:\n"
        "    printer(ProgressEvent('loading'))\n"
        "    printer(ProgressEvent('measuring', 1, 3, 'a device'))\n"
        "    printer(WarningEvent('it is slow'))\n"
    )
    status, text = _on_terminal(code, b"")
    assert status == 0, text
    assert "a device" in text
    assert "warning: it is slow" in text
