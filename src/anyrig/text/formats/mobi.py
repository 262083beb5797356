"""Kindle and Mobipocket books (mobi, azw, azw3, prc) through Calibre, where it is installed.

No library under a free enough licence reads them, and Calibre reads all of them: its
`ebook-convert` is run as a program of its own, makes an EPUB in a folder that is thrown away, and
that EPUB is read as any other. A book with DRM is refused from its first bytes, before anything
runs; the user's own Calibre plugins are not loaded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from anyrig.backends.process import ChildProcess
from anyrig.errors import InvalidInputError, MissingPackageError, ProtectedFileError
from anyrig.text.document import Document
from anyrig.text.formats import memory
from anyrig.text.formats.limits import Limits

TIME_LIMIT_S = 300.0
"""A long novel takes half a minute."""
_END_S = 10.0
_PLACES = (
    "/Applications/calibre.app/Contents/MacOS/ebook-convert",
    "C:/Program Files/Calibre2/ebook-convert.exe",
    "/opt/calibre/ebook-convert",
)
_ENDINGS = frozenset((".mobi", ".azw", ".azw3", ".azw4", ".prc", ".pdb", ".lit", ".lrf", ".kfx"))
_LOCKS = (
    (b"TPZ", "Amazon (Topaz)"),
    (b"\xeaDRMION\xee", "Amazon (KFX)"),
)
_NO_DRM = "Ask the seller for a copy without DRM."


def read(path: Path, limits: Limits, *, time_limit_s: float = TIME_LIMIT_S) -> Document:
    """All that a Kindle book says.

    Args:
        path: of the file.
        limits: how much it may ask of the machine.
        time_limit_s: for Calibre.
    """
    refuse_locked(path)
    program = find_converter()
    with tempfile.TemporaryDirectory(prefix="anyrig-book-", ignore_cleanup_errors=True) as folder:
        made = _convert(program, path, Path(folder), time_limit_s)
        if made.stat().st_size > limits.file_bytes:
            raise InvalidInputError(f"{path.name} unpacks to too large a book", hint="Split it.")
        from anyrig.text.formats.epub import read as read_epub

        return replace(read_epub(made, limits), format="mobi")


def find_converter() -> str:
    """Where Calibre's program is."""
    found = shutil.which("ebook-convert")
    if found:
        return found
    for place in _PLACES:
        if Path(place).is_file():
            return place
    how = {
        "darwin": "brew install --cask calibre",
        "win32": "winget install calibre.calibre",
    }.get(sys.platform, "sudo apt install calibre")
    raise MissingPackageError(
        "Kindle books are read through Calibre, which is not installed",
        hint=f"{how}; or convert the book to EPUB elsewhere.",
    )


def refuse_locked(path: Path) -> None:
    """`ProtectedFileError` if the file says that it is locked, `InvalidInputError` if it is cut
    short.
    """
    with path.open("rb") as file:
        head = file.read(78 + 8)
        for mark, seller in _LOCKS:
            if head.startswith(mark):
                raise ProtectedFileError(
                    f"{path.name} is protected by {seller}: it cannot be read", hint=_NO_DRM
                )
        if head[60:68] not in (b"BOOKMOBI", b"TEXtREAd"):
            return  # another of Calibre's formats: it will say what is wrong
        if len(head) < 86 or struct.unpack(">H", head[76:78])[0] == 0:
            raise _cut_short(path)
        file.seek(struct.unpack(">I", head[78:82])[0])
        record = file.read(16)
    if len(record) < 16:
        raise _cut_short(path)
    if head[60:68] == b"BOOKMOBI" and struct.unpack(">H", record[12:14])[0]:
        raise ProtectedFileError(
            f"{path.name} is protected by the DRM of Amazon or another seller of Mobipocket books:"
            " it cannot be read",
            hint=_NO_DRM,
        )


def _cut_short(path: Path) -> InvalidInputError:
    return InvalidInputError(
        f"{path.name} is truncated or damaged", hint="Get another copy of the file."
    )


def _convert(program: str, path: Path, folder: Path, time_limit_s: float) -> Path:
    """The EPUB that Calibre makes of a book."""
    source = path.resolve()
    if path.suffix.lower() not in _ENDINGS:  # Calibre goes by the name
        source = folder / "book.mobi"
        shutil.copyfile(path, source)
    made = folder / f"{path.stem or 'book'}.epub"
    log = folder / "output"
    code = _run([program, str(source), str(made)], folder, log, time_limit_s, path)
    if code == 0 and made.is_file():
        return made
    output = log.read_text(encoding="utf-8", errors="replace")
    if "DRM" in output:
        raise ProtectedFileError(
            f"{path.name} is protected by DRM: it cannot be read", hint=_NO_DRM
        )
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    why = f": {last[:200]}" if last else ""
    raise InvalidInputError(
        f"Calibre cannot convert {path.name}{why}",
        hint="Get another copy of the file, or convert it to EPUB with another program.",
    )


def _run(command: list[str], folder: Path, log: Path, time_limit_s: float, path: Path) -> int:
    """The program's exit code; all that it started ends with it."""
    # Calibre is a Python program of its own: this one's settings would break it.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {
        **kept,
        "CALIBRE_CONFIG_DIRECTORY": str(folder / "settings"),
        "CALIBRE_TEMP_DIR": str(folder),
        "QT_QPA_PLATFORM": "offscreen",
    }
    with log.open("wb") as output:
        try:
            child = ChildProcess(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=environment, cwd=folder,
            )  # fmt: skip
        except OSError as error:
            raise MissingPackageError(
                f"Calibre cannot be started: {error.strerror}", hint="Reinstall Calibre."
            ) from error
        memory.lift_limits(child.pid)
        try:
            return child.wait(time_limit_s)
        except subprocess.TimeoutExpired:
            raise InvalidInputError(
                f"Calibre did not end with {path.name} in {time_limit_s:.0f} seconds",
                hint="Convert it to EPUB with Calibre's own window, and see what it says.",
            ) from None
        finally:
            _end(child)


def _end(child: ChildProcess) -> None:
    """Kill a program and what it started, if it has not ended."""
    child.kill_group()
    child.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_END_S)
