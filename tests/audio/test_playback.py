"""Playing through a program: what it gets, what is told when it dies or is not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from anyrig.audio.playback import PLAYERS, find_player, play
from anyrig.audio.samples import Samples
from anyrig.errors import AnyrigError, MissingPackageError
from tests.conftest import ROOT
from tests.speech.takes import RATE, sine
from tests.waiting import wait_until

Install = Callable[[str, str], Path]
LISTENS = """
import sys
data = sys.stdin.buffer.read()
open({note!r}, "w").write(" ".join(sys.argv[1:]) + "|" + str(len(data)))
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a program on a PATH that holds nothing else; gives the note that it may write."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setitem(sys.modules, "sounddevice", None)

    def put(name: str, code: str) -> Path:
        note = tmp_path / "note"
        program = programs / name
        program.write_text(f"#!{sys.executable}\n{code.replace('{note!r}', repr(str(note)))}")
        program.chmod(0o755)
        return note

    return put


@pytest.mark.parametrize("known", [known.program for known in PLAYERS])
def test_a_player_gets_every_sample(install: Install, known: str) -> None:
    note = install(known, LISTENS)
    assert find_player() == known
    play(iter([sine(0.5), sine(0.25), np.zeros(0, dtype=np.float32)]), RATE)
    arguments, size = note.read_text().split("|")
    assert "24000" in arguments
    assert int(size) == 2 * 18000


def test_a_player_that_wants_a_file_gets_one(install: Install) -> None:
    note = install(
        "afplay",
        "import sys, wave\n"
        "with wave.open(sys.argv[1]) as file:\n"
        "    open({note!r}, 'w').write(f'{file.getframerate()} {file.getnframes()}')",
    )
    assert find_player() == "afplay"
    play(iter([sine(0.5), sine(0.25)]), RATE)
    assert note.read_text() == "24000 18000"


def test_nothing_to_play_with(install: Install) -> None:
    with pytest.raises(MissingPackageError, match="play") as caught:
        find_player()
    assert "-o" in caught.value.hint
    with pytest.raises(MissingPackageError):
        play(iter([sine(0.1)]), RATE)


def test_a_player_that_dies_is_named_with_its_words(install: Install) -> None:
    install("aplay", "import sys; sys.exit('aplay: audio open error: No such device')")
    with pytest.raises(AnyrigError, match="the player aplay stopped: .*No such device") as caught:
        play(iter([sine(1.0)] * 50), RATE)
    assert caught.value.hint
    install("aplay", "import sys; sys.stdin.buffer.read(); sys.exit(3)")
    with pytest.raises(AnyrigError, match="code 3"):
        play(iter([sine(0.1)]), RATE)
    install("afplay", "import sys; sys.exit('cannot play')")
    os.unlink(Path(os.environ["PATH"]) / "aplay")
    with pytest.raises(AnyrigError, match="cannot play"):
        play(iter([sine(0.1)]), RATE)


def test_a_failing_source_stops_the_player(install: Install) -> None:
    note = install("aplay", LISTENS)

    def parts() -> Iterator[Samples]:
        yield sine(0.1)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        play(parts(), RATE)
    assert not note.exists(), "it was killed, it did not end by itself"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_control_c_stops_at_once(install: Install, tmp_path: Path) -> None:
    note = install("aplay", "import os, time\nopen({note!r}, 'w').write(str(os.getpid()))\n"
                   "time.sleep(600)")  # fmt: skip
    code = (
        "import numpy as np; from anyrig.audio.playback import play\n"
        "play(iter([np.zeros(10, dtype=np.float32)]), 24000)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    child = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: note.exists() and note.read_text())
    child.send_signal(signal.SIGINT)
    assert child.wait(60) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
