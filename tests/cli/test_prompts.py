"""Being asked on a terminal: a real pseudo-terminal, real keys."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anyrig.cli.prompts import can_ask
from tests.conftest import MACHINES

PAIR = MACHINES / "rtx4090-rtxpro6000-wsl2.json"


def _on_terminal(code: str, keys: bytes, *words: str, until: bytes = b"") -> tuple[int, str]:
    """Run Python on a terminal of its own, typing `keys` once it asks.

    Args:
        until: end the process when it has written this.
    """
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
        if until and until in text:
            process.terminate()
            until = b""
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
from anyrig.cli.prompts import can_ask
from anyrig.devices.discovery import from_record
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


# The commands of a machine with two GPUs, on a terminal with colours.
_ON_PAIR = """
import json, os, sys
from anyrig.devices import discovery
from anyrig.cli.main import main
os.environ.pop("NO_COLOR", None)
os.environ |= {"TERM": "xterm-256color", "ANYRIG_CONTAINER": "0"}
record = json.load(open(sys.argv[1]))
found = discovery.from_record(record)
discovery.discover = lambda environment=None, **_: found
sys.exit(main(sys.argv[2:]))
"""
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_speak_asks_while_nothing_else_is_drawn() -> None:
    words = ["speak", "Hello there.", "--engine", "tone", "-o", "out.wav", "--no-bench"]
    code, text = _on_terminal(_ON_PAIR, b"0\r", str(PAIR), *words)
    assert code == 0, text
    assert Path("out.wav").exists()
    question = text.partition("Which device")[2].partition("]: ")[0]
    assert "RTX PRO 6000" in question
    assert "Edition\x1b[32m  (recommended)\x1b[0m\n" in question
    assert set(_SEQUENCE.findall(question)) == {"\x1b[32m", "\x1b[0m"}  # no bar is drawn under it
    assert "\r" not in question
    assert "4090" in _saved()["name"]


def test_events_during_a_question_are_shown_after_it() -> None:
    code = (
        "import threading\n"
        "from anyrig.events import ProgressEvent, WarningEvent\n"
        "from anyrig.cli.output import EventPrinter\n"
        "with EventPrinter() as printer:\n"
        "    printer(ProgressEvent('loading', 1, 3))\n"
        "    with printer.hold():\n"
        "        for event in (WarningEvent('it is slow'), ProgressEvent('reading', 2, 3)):\n"
        "            thread = threading.Thread(target=printer, args=(event,))\n"
        "            thread.start(); thread.join()\n"
        "        input('[0]: ')\n"
        "    print('DONE')\n"
    )
    status, text = _on_terminal(code, b"1\r")
    assert status == 0, text
    before, _, after = text.partition("[0]: ")
    assert "slow" not in before
    assert "reading" not in text
    assert "warning: it is slow" in after


def test_serve_asks_at_a_terminal() -> None:
    words = ["serve", "--port", "0", "--no-page"]
    _, text = _on_terminal(_ON_PAIR, b"0\r", str(PAIR), *words, until=b"Listening")
    question, _, after = text.partition("]: ")
    assert "Which device" in question
    assert set(_SEQUENCE.findall(question)) == {"\x1b[32m", "\x1b[0m"}
    assert "RTX 4090" in after.partition("Listening")[0]
    assert "saved by `anyrig use`" in after
    assert "4090" in _saved()["name"]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_serve_says_which_device_where_nobody_can_be_asked(words: list[str]) -> None:
    command = [sys.executable, "-c", _ON_PAIR, str(PAIR), *words, "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--no-page"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        first = process.stdout.readline()
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert "istening" in first
    assert "Which device" not in errors
    lines = errors.splitlines()[:4]
    assert any("RTX PRO 6000" in line for line in lines), errors
    assert any("anyrig use" in line and "--device" in line for line in lines), errors
    assert _saved() == {}


def test_nobody_is_asked_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """`anyrig serve &` would be stopped by the terminal when it reads."""
    ours, theirs = pty.openpty()
    with open(theirs, closefd=False) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
        assert can_ask()
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
        assert not can_ask()
        monkeypatch.undo()
    os.close(ours)
    os.close(theirs)


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
        "from anyrig.events import ProgressEvent, WarningEvent\n"
        f"with {printer}() as printer:\n"
        "    printer(ProgressEvent('loading'))\n"
        "    printer(ProgressEvent('measuring', 1, 3, 'a device'))\n"
        "    printer(WarningEvent('it is slow'))\n"
    )
    status, text = _on_terminal(code, b"")
    assert status == 0, text
    assert "a device" in text
    assert "warning: it is slow" in text
