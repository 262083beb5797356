"""Plans, timelines and sound made without an engine, and a read-along book taken apart."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from lxml import etree

from anyrig.audio.encode import open_encoder
from anyrig.audiobooks.plan import ChapterPlan, NarrationPlan
from anyrig.audiobooks.readalong import write_readalong
from anyrig.audiobooks.record import ChapterSpan, Cue, Timeline
from anyrig.errors import UnspeakableTextError
from anyrig.speech.engine import WordTime
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.speech.segment import Omission, Script
from anyrig.text.document import Block, Chapter, Document, Inline, Metadata, Picture

RATE = 24000
NAMES = {
    "x": "http://www.w3.org/1999/xhtml",
    "o": "http://www.idpf.org/2007/opf",
    "s": "http://www.w3.org/ns/SMIL",
    "dc": "http://purl.org/dc/elements/1.1/",
    "e": "http://www.idpf.org/2007/ops",
}


def part(chapter: Chapter, number: int = 1, script: Script | None = None) -> ChapterPlan:
    """A chapter with every block spoken."""
    places, at = [], 0
    for block in chapter.blocks:
        places.append(at)
        at += len(block.text) + 2
    source = "\n\n".join(block.text for block in chapter.blocks)
    return ChapterPlan(
        number, chapter.title, chapter.level, chapter, script or _script(source), tuple(places)
    )


def _script(source: str) -> Script:
    try:
        return prepare(source, SpeechOptions(language="en", ssml=False))
    except UnspeakableTextError:
        left = (Omission((0, len(source)), "symbol"),) if source else ()
        return Script(source, (), left)


def plan(
    *chapters: Chapter,
    about: Metadata | None = None,
    outside: Sequence[Chapter] = (),
    main: str = "en",
) -> NarrationPlan:
    """A book of these chapters; those outside are in the document and not spoken."""
    about = about or Metadata("A trial", ("The anyrig authors",), "en")
    document = Document(about, (*chapters, *outside), format="epub")
    return NarrationPlan(
        document, tuple(part(each, at) for at, each in enumerate(chapters, 1)), main
    )


def timeline(of: NarrationPlan, rate: int = RATE, *, words: bool = False) -> Timeline:
    """Fifty milliseconds for each letter, and pauses; if requested, with the times of words."""
    marks, cues, at = [], [], 0
    for number, each in enumerate(of.parts):
        begin = at
        at += rate // 2
        for index, segment in enumerate(each.script.segments):
            length = len(segment.text) * rate // 20
            span = segment.spans[0][0], segment.spans[-1][1]
            spoken = _time_words(segment.utterance.text, at / rate, length / rate) if words else ()
            cues.append(Cue(number, index, at, at + length, segment.text, span, spoken))
            at += length + rate // 3
        marks.append(ChapterSpan(each.title, begin, at, each.level))
    return Timeline(rate, tuple(marks), tuple(cues))


def _time_words(text: str, start_s: float, length_s: float) -> tuple[WordTime, ...]:
    """Of what is spoken, as an engine gives them: by their length."""
    found, share = [], length_s / len(text)
    for word in re.finditer(r"\S+", text):
        found.append(
            WordTime(word[0], start_s + share * word.start(), start_s + share * word.end())
        )
    return tuple(found)


def sound(folder: Path, times: Timeline, ending: str = ".m4a") -> list[Path]:
    """A quiet tone for each part, as long as its mark."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number, mark in enumerate(times.chapters):
        path = folder / f"{number}{ending}"
        wave = 0.1 * np.sin(np.arange(mark.end - mark.start) * 0.06)
        with open_encoder(path, rate=times.rate) as out:
            out.write(wave.astype(np.float32))
        made.append(path)
    return made


@dataclass(frozen=True)
class Par:
    text: str
    audio: str
    start_s: float
    end_s: float


class Book:
    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            self.entries = archive.infolist()
            self.files = {entry.filename: archive.read(entry) for entry in self.entries}
        self.opf = self.xml("EPUB/package.opf")

    def xml(self, name: str) -> etree._Element:
        return etree.fromstring(self.files[name])

    def page(self, number: int) -> etree._Element:
        return self.xml(f"EPUB/text/part-{number:03d}.xhtml")

    def text(self, number: int) -> str:
        return "".join(self.find(self.page(number), "//x:body")[0].itertext())

    def find(self, of: etree._Element, path: str) -> list[etree._Element]:
        found = of.xpath(path, namespaces=NAMES)
        assert isinstance(found, list)
        return [each for each in found if isinstance(each, etree._Element)]

    def pars(self, number: int) -> list[Par]:
        made = []
        for each in self.find(self.xml(f"EPUB/smil/part-{number:03d}.smil"), "//s:par"):
            words, heard = each[0], each[1]
            made.append(
                Par(
                    words.attrib["src"],
                    heard.attrib["src"],
                    seconds(heard.attrib["clipBegin"]),
                    seconds(heard.attrib["clipEnd"]),
                )  # fmt: skip
            )
        return made

    def lit(self, number: int) -> list[str]:
        """What lights up, in the order in which it is heard."""
        page = self.page(number)
        ids = [par.text.partition("#")[2] for par in self.pars(number)]
        return ["".join(self.find(page, f"//*[@id='{name}']")[0].itertext()) for name in ids]


def seconds(clock: str) -> float:
    hours, minutes, rest = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def make(
    folder: Path, of: NarrationPlan, ending: str = ".m4a", *, words: bool = False,
    cover: Picture | None = None, narrator: str = "",
) -> Book:  # fmt: skip
    times = timeline(of, words=words)
    path = folder / "book.epub"
    of = replace(of, document=replace(of.document, cover=cover or of.document.cover))
    write_readalong(path, of, times, sound(folder / "sound", times, ending), narrator=narrator)
    return Book(path)


def odd() -> NarrationPlan:
    """A book with one of everything, and characters that XML cannot hold."""
    said = "He stopped.1 She said: bonjour, mes amis. Was it late? It was. 12"
    first = Chapter(
        "Part <One> & more",
        (
            Block("The Beginning", "heading", level=1),
            Block(
                said,
                inlines=(
                    Inline(11, 12, "noteref", "a#n1"),
                    Inline(23, 41, "language", "fr"),
                    Inline(58, 58, "page", "12"),
                    Inline(len(said), len(said), "page", "13"),
                ),
            ),
            Block(
                "Bell\x00s \x0brang\ud800 \uffff<out> & 'over' \"all\" ]]> the \U0001f514 town.\x85"
            ),
            Block("Roses are red,\nViolets are blue,\n\nThe sea is wide,\nAnd so are you.", "poem"),
            Block("Hour\tTide\nSix\tHigh water\nNoon\t", "table"),
            Block("A first item in a list.", "item"),
            Block("A second item, which is longer.", "item"),
            Block("Nobody who sails alone is ever alone.", "quote"),
            Block("for x in y:\n    print(x < 3)", "code"),
            Block("A lighthouse in the rain.", "image"),
            Block("* * *", "rule"),
            Block("", "rule"),
            Block("14", "page"),
            Block("", "image"),
            Block("C'est la vie, mon vieux.", language="fr"),
            Block("A line in a script that reads the other way.", language="he"),
            Block("The first note, which is spoken here.", "note", id="a#n1"),
            Block("Its second paragraph.", "note", id="a#n1"),
            Block("Another note.", "note", id="a#n2"),
        ),
    )
    second = Chapter(
        "", (Block("Far away2 and alone3.", inlines=(
            Inline(8, 9, "noteref", "z#far"), Inline(19, 20, "noteref", "nowhere"))),), level=3,
    )  # fmt: skip
    third = Chapter("Silence", (Block("* * *"),), level=2)
    fourth = Chapter("The end", (Block("And so it ended."),), level=1, role="back")
    notes = Chapter("Notes", (Block("A note from far away.", "note", id="z#far"),), role="notes")
    about = Metadata(
        "Odd & <strange>", ("Ann\x01 Author", ""), "not a language!", "The Oddities", "2",
        "2026", "A book\nof everything", "anyrig", "urn:isbn:123", "MIT", ("tests", "odd & even"),
    )  # fmt: skip
    return plan(first, second, third, fourth, about=about, outside=(notes,))
