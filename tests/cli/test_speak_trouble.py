"""`anyrig speak` when something goes wrong: stopped, killed, no room, no store, a foreign text."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import soundfile

from tests.conftest import Anyrig
from tests.waiting import wait_until

FRENCH = (
    "Le vieux gardien descendit lentement l'escalier et compta chaque marche, parce qu'il ne "
    "pouvait pas dormir."
)
SLOW = ("--engine", "tone", "--set", "sleep_s=0.01")


def _text(count: int) -> str:
    return " ".join(f"This is sentence number {n} of the text." for n in range(count))


def _start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "anyrig", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def _workers(process: subprocess.Popen[str], wait_s: float = 30.0) -> list[psutil.Process]:
    """The processes that speak, once they have begun to."""
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        found = [
            child
            for child in psutil.Process(process.pid).children(recursive=True)
            if any("anyrig.work" in word for word in child.cmdline())
        ]
        # A worker is at work once it has loaded: by what it computed, or on a fast machine by time.
        if found and all(
            child.cpu_times().user > 0.2 or time.time() - child.create_time() > 1.5
            for child in found
        ):
            return found
        time.sleep(0.05)
    raise AssertionError("no worker appeared")


def test_interrupted_it_leaves_no_file_and_no_process() -> None:
    process = _start("speak", _text(60), *SLOW, "-o", "out.wav")
    workers = _workers(process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
    assert list(Path().iterdir()) == []


def test_a_killed_worker_costs_a_warning_and_no_words() -> None:
    process = _start("speak", _text(30), *SLOW, "-o", "out.wav", "--json")
    victim = _workers(process)[0]
    time.sleep(1.5)  # in the middle of it: 10 s of waiting lie ahead
    victim.kill()
    out, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert errors.count("starting another") == 1
    assert errors.startswith("WARNING")
    told = json.loads(out)
    said = " ".join(segment["text"] for segment in told["segments"])
    assert said.split() == _text(30).split()
    assert soundfile.info("out.wav").duration == pytest.approx(told["audio_s"], abs=0.01)


def test_lines_go_on_after_the_whole_command_was_killed(anyrig: Anyrig) -> None:
    rows = [f"This is line number {n} of the file." for n in range(40)]
    Path("talk.txt").write_text("\n".join(rows), encoding="utf-8")
    process = _start("speak", "--lines", "talk.txt", *SLOW)
    wait_until(lambda: len(list(Path().glob("talk/*.wav"))) >= 3)
    workers = _workers(process)
    process.kill()
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
    done = {path: path.stat().st_mtime_ns for path in Path().glob("talk/*.wav")}
    assert 3 <= len(done) < 40
    known = len(Path("talk/lines.jsonl").read_text(encoding="utf-8").splitlines())
    told = json.loads(anyrig("speak", "--lines", "talk.txt", *SLOW, "--json").stdout)
    assert told["left"] in (known, known - 1)  # the last line may have been cut off in mid-writing
    assert told["made"] + told["left"] == 40
    assert len(list(Path().glob("talk/*.wav"))) == 40
    for path, changed in sorted(done.items())[: known - 1]:
        assert path.stat().st_mtime_ns == changed
    for path in Path().glob("talk/*.wav"):
        assert soundfile.info(str(path)).frames > 10_000


def test_no_room_for_the_file_leaves_none(anyrig_process: Anyrig) -> None:
    def little() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    done = anyrig_process("speak", _text(3), "--engine", "tone", "-o", "out.wav", preexec_fn=little)
    assert done.returncode == 1, done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(Path().iterdir()) == []


def test_a_store_that_cannot_be_opened_costs_no_audio(anyrig: Anyrig, tmp_path: Path) -> None:
    (tmp_path / "home" / ".cache").write_text("a file where the folder should be")
    done = anyrig("speak", "Hello.", "--engine", "tone", "-o", "a.wav")
    assert done.returncode == 0, done.stderr
    assert "not cached" in done.stderr
    assert soundfile.info("a.wav").frames > 1000


def test_two_at_once_share_the_store() -> None:
    both = [
        _start("speak", _text(20), "--engine", "tone", "-o", f"{name}.wav") for name in ("a", "b")
    ]
    for process in both:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "speak", _text(40), "--engine", "tone", "-o", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(4) == b"RIFF"
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=60) == 141
    assert b"Traceback" not in errors
    process.stderr.close()


# -- languages and voices -------------------------------------------------------------------------


def test_a_french_text_is_spoken_by_an_engine_that_can(anyrig: Anyrig) -> None:
    done = anyrig("speak", FRENCH, "-o", "a.wav")
    assert done.returncode == 0, done.stderr
    assert "by nanotts: hibari does not speak French" in done.stdout
    done = anyrig("speak", FRENCH, "--engine", "hibari", "-o", "b.wav")
    assert done.returncode == 2
    assert "French" in done.stderr
    assert "kokoro (Apache-2.0) speaks it: anyrig voices get fr" in done.stderr
    assert "So do vibevoice, vibevoice-realtime, nanotts" in done.stderr
    assert "If that is wrong, pass --language en." in done.stderr
    assert not Path("b.wav").exists()
    done = anyrig("speak", "Xin chào.", "--language", "vi", "-o", "b.wav")
    assert "No engine speaks Vietnamese. If that is wrong, pass --language en." in done.stderr


def test_a_voice_names_its_engine(anyrig: Anyrig) -> None:
    told = anyrig("speak", "Guten Tag.", "--voice", "de-DE", "--language", "de", "--dry-run",
                  "--json")  # fmt: skip
    assert json.loads(told.stdout)["engine"] == "nanotts"
    done = anyrig("speak", "Hello.", "--voice", "hart", "--dry-run")
    assert done.returncode == 2
    assert "Did you mean heart" in done.stderr


def test_what_is_no_text_says_what_it_is(anyrig: Anyrig) -> None:
    Path("a.epub").write_bytes(b"PK\x03\x04 and so on")
    Path("b.bin").write_bytes(random.randbytes(4000) + b"\0" * 100)
    for name, said in (("a.epub", "EPUB"), ("b.bin", "is not text")):
        done = anyrig("speak", "-f", name, "-o", "a.wav")
        assert done.returncode == 2
        assert said in done.stderr


def test_each_segment_is_listened_to(anyrig: Anyrig) -> None:
    text = "The old keeper walked down the long stone stairs. Nobody had ever seen such rain."
    done = anyrig("speak", text, "-o", "a.wav", "--verify")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stdout
    assert lines[1].startswith("  segment 0: 0 of ")
    assert lines[1].endswith(" words differ (0.0%)")
    assert "recognised by moonshine: 0 of 15 words differ" in lines[3]


_KILLED_WHILE_WRITING = """
import os, signal, sys
from anyrig.cli.main import main

flush = os.fsync

def killed(descriptor):
    if any(name.startswith(".out") for name in os.listdir()):
        os.kill(os.getpid(), int(sys.argv[1]))
    flush(descriptor)

os.fsync = killed
sys.exit(main(sys.argv[2:]))
"""
_WRITERS = {
    "speak": ("speak", "The tide came in.", "--engine", "tone", "-o", "out.wav"),
    "speak mp3": ("speak", "The tide came in.", "--engine", "tone", "-o", "out.mp3"),
    "book": ("book", "story.txt", "--engine", "tone", "-o", "out.m4b"),
    "summary": ("summarise", "story.txt", "-o", "out.md"),
    "export": ("cache", "export", "out.zip"),
}


def _killed_while_writing(number: int, words: tuple[str, ...]) -> int:
    Path("story.txt").write_text("CHAPTER I\n\n" + _text(20), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_WHILE_WRITING, str(number), *words],
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode


def _hidden() -> list[str]:
    return [path.name for path in Path().iterdir() if path.name.startswith(".")]


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such signals")
@pytest.mark.parametrize("name", _WRITERS)
def test_a_command_ended_while_it_writes_leaves_nothing_unfinished(name: str) -> None:
    assert _killed_while_writing(signal.SIGTERM, _WRITERS[name]) == 128 + signal.SIGTERM
    assert not _hidden()
    assert not list(Path().glob("out*"))


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such signals")
@pytest.mark.parametrize("name", ["speak", "book", "summary"])
def test_what_a_killed_command_left_is_removed_by_the_next(anyrig: Anyrig, name: str) -> None:
    assert _killed_while_writing(signal.SIGKILL, _WRITERS[name]) == -signal.SIGKILL
    left = _hidden()
    assert left
    for one in left:  # as though it had happened a minute ago
        os.utime(one, (time.time() - 60,) * 2)
    done = anyrig(*_WRITERS[name])
    assert done.returncode == 0, done.stderr
    assert not _hidden()
    assert list(Path().glob("out*"))
