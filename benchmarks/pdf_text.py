"""PDFs of Debian packages against the same text as HTML or EPUB: what a listener would hear wrong.

The packages are fetched with `apt-get download` into a temporary folder, or found unpacked in the
one that BENCHMARK_PDFS names. What counts as ours is what a book speaks: no page numbers, heads and
contents. The peers are pdftotext (poppler-utils), where it is installed, and pymupdf4llm, where
BENCHMARK_PYMUPDF names a Python that has it.

- wrong characters: paragraphs of the reference are looked for in the text and aligned word by word;
  what is missing, other or in between counts, in per cent of their characters. Only paragraphs that
  one of the programs has are counted. Footnotes and front matter, which the reference has and a
  book leaves out or speaks later, count as text here.
- heads: lines that stand first or last on at least three pages, spoken more often than the
  reference has them; a "Chapter" over each title is none.
- glued: words that are two words of the reference, in a row there, without a space.
- contents: headings of the reference that are spoken with a page number after them.
- chapters: headings of the reference that are chapters or headings of ours.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

from anyrig.text.document import Document
from anyrig.text.matter import apply_matter
from anyrig.text.sandbox import ReaderPool
from benchmarks.harness import Row


@dataclass(frozen=True)
class Manual:
    package: str
    pdf: str
    reference: str
    """A pattern of paths anywhere in the unpacked package, like `pdf`."""
    maker: str
    reference_package: str = ""


MANUALS = (
    Manual("debian-faq", "debian-faq.en.pdf.gz", "*.en.html", "dblatex"),
    Manual("debian-faq-fr", "*.pdf.gz", "*.fr.html", "dblatex"),
    Manual("debian-faq-de", "*.pdf.gz", "*.de.html", "dblatex"),
    Manual("developers-reference", "developers-reference.pdf", "*.html", "Sphinx, XeTeX"),
    Manual("debian-policy", "policy.pdf.gz", "policy.html/*.html", "Sphinx, XeTeX"),
    Manual("maint-guide", "*.en.pdf", "html/*.en.html", "dblatex, XeTeX"),
    Manual("maint-guide-es", "*.es.pdf", "html/*.es.html", "dblatex, XeTeX"),
    Manual("debmake-doc", "debmake-doc.en.pdf", "html/*.en.html", "dblatex, XeTeX"),
    Manual("bash-doc", "bashref.pdf", "bashref.html", "Texinfo"),
    Manual("gitmagic", "gitmagic.pdf", "html/*.html", "dblatex"),
    Manual("bird2-doc", "bird.pdf.gz", "bird-*.html", "linuxdoc, LaTeX"),
    Manual("krb5-doc", "admin.pdf.gz", "admin/**/*.html", "Sphinx, pdfTeX"),
    Manual("haskell98-report", "haskell98-report.pdf.gz", "haskell98-report-html/*.html",
           "LaTeX"),
    Manual("menhir-doc", "manual.pdf.gz", "manual.html", "LaTeX, Hevea"),
    Manual("gnu-standards", "maintain.pdf.gz", "maintain.html", "Texinfo"),
    Manual("bzip2-doc", "manual.pdf.gz", "manual.html", "passivetex"),
    Manual("dbconfig-common", "dbconfig-common.pdf.gz", "dbconfig-common.html/*.html",
           "debiandoc"),
    Manual("fai-doc", "fai-guide.pdf", "fai-guide.html", "asciidoc, dblatex"),
    Manual("ledger", "ledger3.pdf", "ledger3.html", "Texinfo"),
    Manual("claws-mail-doc", "en/claws-mail-manual.pdf.gz", "en/claws-mail-manual.html",
           "FOP"),
    Manual("claws-mail-doc", "es/claws-mail-manual.pdf.gz", "es/claws-mail-manual.html",
           "FOP"),
    Manual("drbd-doc", "drbd-users-guide.pdf.gz", "drbd-users-guide.html", "FOP"),
    Manual("kannel-docs", "userguide.pdf.gz", "userguide.html", "JadeTeX"),
    Manual("lifelines-doc", "ll-userguide.pdf.gz", "ll-userguide.html", "FOP"),
    Manual("linuxdoc-tools", "guide.pdf", "guide-*.html", "linuxdoc, LaTeX"),
    Manual("gnuplot-doc", "gnuplot.pdf", "htmldocs/*.html", "LaTeX"),
    Manual("cvs", "cvs.pdf", "cvs.html", "Texinfo"),
    Manual("installation-guide-amd64", "install.en.pdf.gz", "en/*.html", "dblatex"),
    Manual("debian-edu-doc-en", "debian-edu-bookworm-manual.pdf", "debian-edu-bookworm-manual.epub",
           "dblatex"),
    Manual("apt-cacher-ng", "apt-cacher-ng.pdf", "html/*.html", "Halibut"),
    Manual("eyes17-manuals-es", "eyes17.pdf.gz", "eyes17.epub", "Sphinx, pdfTeX"),
    Manual("backup-manager-doc", "user-guide.pdf.gz", "user-guide.html/*.html", "debiandoc"),
    Manual("r-doc-pdf", "R-intro.pdf", "R-intro.html", "Texinfo", "r-doc-html"),
)  # fmt: skip
_MAX_PARAGRAPHS = 120
_SEED_WORDS = 4
_NUMBERING = re.compile(
    r"^(?:chapter|appendix|kapitel|chapitre|cap.tulo)?\s*[\dA-Z]?[\d.]*\s+", re.IGNORECASE
)
_LABEL = re.compile("chapter|appendix|kapitel|anhang|chapitre|annexe|cap.tulo|ap.ndice")
_SECTION = re.compile(r"\b[\da-z]{1,3}\.[\d.]*(?=\s|$)|\b\d+(?:\.\d+)+")
"""The number of a section, which is no page's."""
_PAGE = re.compile(r"\d{1,3}|[ivx]{1,5}")
_SPACE = re.compile(r"\s+")
_TRANSLATION = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "`": "'", "\u201c": '"', "\u201d": '"', "\u2010": "-",
     "\u2011": "-", "\u2212": "-", "\u2013": "-", "\u2014": "-", "\u00ad": None,
     "\u00ab": '"', "\u00bb": '"', "\u200b": None}
)  # fmt: skip


@dataclass
class Reference:
    paragraphs: list[list[str]]
    headings: set[str]
    text: str
    vocabulary: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Figures:
    wrong: float
    """Per cent of the characters."""
    heads: int
    glued: int
    contents: int
    found: list[int]
    """For each paragraph of the reference: wrong characters, -1 where it was not found."""


def run(hardware: str) -> list[Row]:
    rows: list[Row] = []
    totals: dict[str, list[Figures]] = defaultdict(list)
    chapters: list[tuple[int, int]] = []
    cpu_s = num_pages = 0.0
    with tempfile.TemporaryDirectory() as folder, ReaderPool() as pool:
        for manual in MANUALS:
            pdf, pages = _find_pdf(manual, Path(folder))
            if pdf is None:
                print(f"{manual.package}: not found", file=sys.stderr)
                continue
            reference = _read_reference(manual, Path(folder))
            started = _child_cpu_s(pool)
            document = apply_matter(pool.read_file(pdf, form="book"))
            cpu_s, num_pages = cpu_s + _child_cpu_s(pool) - started, num_pages + len(pages)
            texts = {"ours": _spoken_text(document), "pdftotext": "\n".join(pages)}
            whole = {**texts, "ours": _whole_text(document)}
            if markdown := _run_pymupdf4llm(pdf):
                texts["pymupdf4llm"] = whole["pymupdf4llm"] = markdown
            figures = _measure(reference, texts, whole, pages)
            found = _count_chapters(document, reference)
            chapters.append(found)
            for name, one in figures.items():
                totals[name].append(one)
            name = f"{manual.package} {pdf.stem} ({manual.maker}, {len(pages)} pages)"
            rows += _build_rows(name, figures, found)
            print(f"{name}: {rows[-5:]}", file=sys.stderr, flush=True)
    return [*_build_totals(totals, chapters, cpu_s, num_pages), *rows]


def _build_rows(name: str, figures: dict[str, Figures], chapters: tuple[int, int]) -> list[Row]:
    ours, peer = figures["ours"], figures["pdftotext"]
    more = figures.get("pymupdf4llm")

    def spread(value: Callable[[Figures], float]) -> str:
        return f"pymupdf4llm {value(more):.4g}" if more else ""

    return [
        Row(f"{name}: wrong characters", ours.wrong, "%", peer.wrong, "pdftotext",
            spread=spread(lambda one: one.wrong)),
        Row(f"{name}: heads spoken", ours.heads, "", peer.heads, "pdftotext",
            spread=spread(lambda one: one.heads)),
        Row(f"{name}: glued words", ours.glued, "", peer.glued, "pdftotext",
            spread=spread(lambda one: one.glued)),
        Row(f"{name}: lines of contents spoken", ours.contents, "", peer.contents, "pdftotext",
            spread=spread(lambda one: one.contents)),
        Row(f"{name}: chapters found of {chapters[1]}", chapters[0], ""),
    ]  # fmt: skip


def _build_totals(
    totals: dict[str, list[Figures]], chapters: list[tuple[int, int]], cpu_s: float, pages: float
) -> list[Row]:
    def mean(name: str) -> float:
        return sum(one.wrong for one in totals[name]) / max(1, len(totals[name]))

    def add(name: str, value: Callable[[Figures], int]) -> int:
        return sum(value(one) for one in totals[name])

    def spread(figure: float) -> str:
        return f"pymupdf4llm {figure:.4g}" if totals.get("pymupdf4llm") else ""

    found, wanted = map(sum, zip(*chapters, strict=True))
    rows = [
        Row("all: wrong characters, mean of files", mean("ours"), "%", mean("pdftotext"),
            "pdftotext", spread=spread(mean("pymupdf4llm"))),
    ]  # fmt: skip
    for what, value in (
        ("heads spoken", lambda one: one.heads),
        ("glued words", lambda one: one.glued),
        ("lines of contents spoken", lambda one: one.contents),
    ):
        rows.append(
            Row(f"all: {what}", add("ours", value), "", add("pdftotext", value), "pdftotext",
                spread=spread(add("pymupdf4llm", value)))
        )  # fmt: skip
    rows.append(Row("all: chapters found", 100 * found / max(1, wanted), "%"))
    rows.append(Row("all: CPU time a page", 1000 * cpu_s / max(1.0, pages), "ms"))
    return rows


# -- files -----------------------------------------------------------------------------------------


def _unpack(package: str, folder: Path) -> Path:
    given = os.environ.get("BENCHMARK_PDFS")
    target = Path(given or folder) / package
    if not target.is_dir():
        subprocess.run(
            ["apt-get", "download", package], cwd=folder, check=True, capture_output=True
        )
        for deb in folder.glob(f"{package}_*.deb"):
            subprocess.run(["dpkg", "-x", str(deb), str(target)], check=True)
    return target


def _find_pdf(manual: Manual, folder: Path) -> tuple[Path | None, list[str]]:
    """The PDF, and pdftotext's text of each page."""
    found = [
        p
        for p in sorted(_unpack(manual.package, folder).glob(f"**/{manual.pdf}"))
        if not p.is_symlink()
    ]
    if not found:
        return None, []
    made = folder / found[0].name.removesuffix(".gz")
    made.write_bytes(_content(found[0]))
    text = subprocess.run(["pdftotext", str(made), "-"], capture_output=True, check=True).stdout
    return made, text.decode("utf-8", "replace").rstrip("\f").split("\f")


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.name.endswith(".gz") else data


def _read_reference(manual: Manual, folder: Path) -> Reference:
    from lxml import html

    paragraphs, headings, texts = [], set(), []
    root = _unpack(manual.reference_package or manual.package, folder)
    for data in _list_reference_pages(path for path in sorted(root.glob(f"**/{manual.reference}"))):
        tree = html.fromstring(data)
        for dropped in tree.xpath("//script|//style|//nav|//*[@class='headerlink']|//head"):
            dropped.drop_tree()
        texts.append(tree.text_content())
        for element in tree.iter("p"):
            words = _words(element.text_content())
            if len(words) >= 12 and not element.xpath(".//p|.//pre|.//table|.//ul|.//img"):
                paragraphs.append(words)
        for element in tree.iter("h1", "h2"):
            if title := _bare_heading(element.text_content()):
                headings.add(title)
    step = max(1, len(paragraphs) // _MAX_PARAGRAPHS)
    reference = Reference(paragraphs[::step], headings, _clean(" ".join(texts)))
    words = [word.strip(".,;:!?()[]\"'").casefold() for word in reference.text.split()]
    reference.vocabulary = {word for word in words if word}
    reference.pairs = {
        (a, b) for a, b in zip(words, words[1:], strict=False) if a.isalpha() and b.isalpha()
    }
    return reference


def _list_reference_pages(paths: Iterable[Path]) -> Iterable[bytes]:
    for path in paths:
        if path.is_symlink():
            continue
        if path.suffix == ".epub":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith((".xhtml", ".html")):
                        yield archive.read(name)
        else:
            yield _content(path)


def _clean(text: str) -> str:
    text = unicodedata.normalize("NFKC", text.translate(_TRANSLATION))
    return _SPACE.sub(" ", text).strip()


def _words(text: str) -> list[str]:
    return _clean(text).split(" ")


def _bare_heading(text: str) -> str:
    text = _NUMBERING.sub("", _clean(text))
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()


# -- figures ---------------------------------------------------------------------------------------


def _spoken_text(document: Document) -> str:
    return "\n".join(
        block.text
        for chapter in document.chapters
        if chapter.role == "body"
        for block in chapter.blocks
        if block.kind not in ("page", "note")
    )


def _whole_text(document: Document) -> str:
    return "\n".join(
        block.text
        for chapter in document.chapters
        if chapter.role != "contents"
        for block in chapter.blocks
        if block.kind != "page"
    )


def _measure(
    reference: Reference, texts: dict[str, str], whole: dict[str, str], pages: Sequence[str]
) -> dict[str, Figures]:
    heads = _find_heads(pages)
    made = {}
    for name, text in texts.items():
        words = _words(text)
        wrong = _align_all(reference.paragraphs, _words(whole[name]))
        clean = " ".join(words).casefold()
        made[name] = Figures(
            0.0, _count_heads(heads, clean, reference), _count_glued(words, reference),
            _count_contents(clean, reference), wrong,
        )  # fmt: skip
    sizes = [sum(map(len, words)) for words in reference.paragraphs]
    counted = [
        number
        for number in range(len(sizes))
        if any(one.found[number] >= 0 for one in made.values())
    ]
    total = sum(sizes[number] for number in counted)
    for one in made.values():
        lost = sum(min(one.found[n], sizes[n]) if one.found[n] >= 0 else sizes[n] for n in counted)
        one.wrong = 100 * lost / max(1, total)
    return made


def _align_all(paragraphs: list[list[str]], words: list[str]) -> list[int]:
    seeds: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place in range(len(words) - _SEED_WORDS + 1):
        seeds[tuple(words[place : place + _SEED_WORDS])].append(place)
    return [_align(paragraph, words, seeds) for paragraph in paragraphs]


def _align(paragraph: list[str], words: list[str], seeds: dict[tuple[str, ...], list[int]]) -> int:
    votes: Counter[int] = Counter()
    for offset in range(len(paragraph) - _SEED_WORDS + 1):
        places = seeds.get(tuple(paragraph[offset : offset + _SEED_WORDS]), ())
        if len(places) <= 20:
            votes.update((place - offset) // 12 for place in places)
    if not votes:
        return -1
    start = max(0, votes.most_common(1)[0][0] * 12 - 24)
    window = words[start : start + len(paragraph) + 120]
    matcher = SequenceMatcher(None, paragraph, window, autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    wrong = sum(map(len, paragraph)) - sum(
        len(word) for block in blocks for word in paragraph[block.a : block.a + block.size]
    )
    first = blocks[0]
    for block in blocks:
        if block.size >= 2:
            first = block
            break
    inside = [block for block in blocks if block.b >= first.b]
    for before, after in zip(inside, inside[1:], strict=False):
        extra = sum(map(len, window[before.b + before.size : after.b]))
        missing = sum(map(len, paragraph[before.a + before.size : after.a]))
        wrong += max(0, extra - missing)
    return wrong


def _find_heads(pages: Sequence[str]) -> set[str]:
    counts: Counter[str] = Counter()
    for page in pages:
        lines = [line for line in page.splitlines() if line.strip()]
        counts.update({_head(line) for line in (*lines[:2], *lines[-2:])})
    return {
        head for head, count in counts.items()
        if count >= 3 and sum(map(str.isalpha, head)) >= 5 and len(head) < 120
        and not _LABEL.fullmatch(head)
    }  # fmt: skip


def _head(line: str) -> str:
    return " ".join(re.sub(r"\b[\dxvi]+\b|[|]", " ", _clean(line).casefold()).split())


def _count_heads(heads: set[str], text: str, reference: Reference) -> int:
    own = reference.text.casefold()
    return sum(max(0, text.count(head) - own.count(head) - 2) for head in heads)


def _count_glued(words: list[str], reference: Reference) -> int:
    made = 0
    for word in words:
        bare = word.strip(".,;:!?()[]\"'").casefold()
        if len(bare) >= 6 and bare.isalpha() and bare not in reference.vocabulary:
            made += any(
                (bare[:at], bare[at : at + size]) in reference.pairs
                for at in range(2, len(bare) - 2)
                for size in range(3, len(bare) - at + 1)
            )
    return made


def _count_contents(text: str, reference: Reference) -> int:
    found = 0
    flat, own = (
        re.sub(r"[^\w#]+|_", " ", _SECTION.sub("#", one))
        for one in (text, reference.text.casefold())
    )
    for heading in reference.headings:
        if " " in heading:
            found += max(0, _count_numbered(flat, heading) - _count_numbered(own, heading))
    return found


def _count_numbered(text: str, heading: str) -> int:
    """How often a number stands right after a heading."""
    parts = text.split(f" {heading} ")[1:]
    return sum(bool(_PAGE.fullmatch(part.lstrip()[:6].partition(" ")[0])) for part in parts)


def _count_chapters(document: Document, reference: Reference) -> tuple[int, int]:
    ours = {_bare_heading(chapter.title) for chapter in document.chapters}
    ours |= {_bare_heading(b.text) for b in document.blocks if b.kind == "heading"}
    ours |= {part for title in ours for part in [title.partition(" ")[2]]}
    return len(reference.headings & ours), len(reference.headings)


def _child_cpu_s(pool: ReaderPool) -> float:
    import psutil

    times = [child.cpu_times() for child in psutil.Process().children()]
    return sum(one.user + one.system for one in times)


def _run_pymupdf4llm(pdf: Path) -> str:
    python = os.environ.get("BENCHMARK_PYMUPDF", "")
    if not python or not shutil.which(python):
        return ""
    code = (
        "import sys, pymupdf4llm;"
        "sys.stdout.write(pymupdf4llm.to_markdown(sys.argv[1], show_progress=False))"
    )
    try:
        done = subprocess.run([python, "-c", code, str(pdf)], capture_output=True, timeout=600)
    except subprocess.TimeoutExpired:
        print(f"pymupdf4llm takes more than 10 minutes for {pdf.name}: left out")
        return ""
    text = done.stdout.decode("utf-8", "replace")
    return re.sub(r"[*#`]+|^\|", " ", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text))


if __name__ == "__main__":
    before = time.time()
    for row in run("cpu"):
        print(
            row.what,
            "|",
            f"{row.ours:.3f}",
            "|",
            "" if row.peer is None else f"{row.peer:.3f}",
            row.spread,
        )
    print(f"{time.time() - before:.0f} s", file=sys.stderr)
