"""Names that hold control characters: what a stranger calls a file never steers the terminal."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from anyrig.cli.main import main

ODD = "a\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\rover"
SEEN = r"a\u001b[31mred\u001b]0;title\u0007\u009b2J\u007f\u000dover"
UNSAFE = set(map(chr, (*range(9), *range(14, 32), *range(127, 160)))) | {"\r"}


@pytest.mark.parametrize(
    "words",
    [["entities"], ["book", "--list"], ["transcribe"], ["ocr"], ["summarise"],
     ["classify", "--labels", "a,b"], ["index"], ["analyse"], ["speak", "-f"], ["train"],
     ["cache", "import"], ["devices", "--machine"], ["devices", "--config"], ["jobs", "show"],
     ["speak", "Hello.", "--dry-run", "--voice"], ["keys", "remove"]],
    ids=" ".join,
)  # fmt: skip
def test_an_error_that_names_a_file_is_escaped(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([*words, ODD]) != 0
    out, err = capsys.readouterr()
    assert not UNSAFE & {*out, *err}
    assert "red" in out + err


def test_a_file_that_is_read_is_named_without_its_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"{ODD}.txt").write_text("CHAPTER I\n\nThe tide came in.")
    assert main(["book", "--list", f"{ODD}.txt"]) == 0
    out, err = capsys.readouterr()
    assert not UNSAFE & {*out, *err}
    assert main(["book", "--list", "--json", f"{ODD}.txt"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo terminals")
def test_colours_of_our_own_stay_on_a_terminal() -> None:
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "anyrig", "jobs", "show", ODD])
    said = b""
    try:
        while piece := os.read(terminal, 4096):
            said += piece
    except OSError:  # Linux's way to say that the other side has closed
        pass
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"\x1b[31merror\x1b[0m: " in said
    assert said.count(b"\x1b") == 2
    assert rb"\u001b[31mred" in said


def test_only_the_stream_s_own_mark_becomes_an_escape() -> None:
    from anyrig.cli.escape import EscapedStream, esc

    inner = io.StringIO()
    stream = EscapedStream(inner)
    mark = esc(stream)
    print(f"\r{mark}[2K{ODD}\tb\r\nc\x0c\ud800{mark}[0m", end="", file=stream)
    assert inner.getvalue() == f"\r\x1b[2K{SEEN}\tb\r\nc\x0c\\ud800\x1b[0m"
    assert esc(io.StringIO()) == "\x1b"
