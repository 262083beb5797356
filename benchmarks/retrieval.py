"""Quality of search: 200 questions in English, German and French over the Debian FAQ.

The headings of the FAQ's sections are questions that people asked, and the section below each is
the answer. Sections become files without their heading; which headings are asked is in
`benchmarks/data/retrieval.txt`. The files of all three languages are one index. Rows are nDCG@10
and recall@10 of the whole search beside the same passages ranked by vectors alone (what
sentence-transformers does with them) and by FTS5's BM25 alone, each by its best passage per file.

The texts come from Debian's packages debian-faq, debian-faq-de and debian-faq-fr (11.1); without
them in /usr/share/doc, `BENCHMARK_FAQ` names the folder `FAQ` of unpacked ones. `BENCHMARK_MODEL`
is the model (minilm by default: every version has it).
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anyrig import Rig
from benchmarks.harness import ROOT, Row

FAQ = Path(os.environ.get("BENCHMARK_FAQ", "/usr/share/doc/debian/FAQ"))
MODEL = os.environ.get("BENCHMARK_MODEL", "minilm")
QUESTIONS = ROOT / "benchmarks" / "data" / "retrieval.txt"
LANGUAGES = {"en": "*.en.html", "de": "de/*.de.html", "fr": "fr/*.fr.html"}
DEPTH = 10


class Section(NamedTuple):
    """A section of the FAQ."""

    name: str
    """Language, chapter and place in it: `en-kernel-03`."""
    heading: str
    text: str


class Question(NamedTuple):
    text: str
    answer: str
    language: str


def run(hardware: str) -> list[Row]:
    sections = {one.name: one for one in read_sections()}
    names = QUESTIONS.read_text(encoding="utf-8").split()
    questions = [Question(sections[name].heading, name, name[:2]) for name in names]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        docs = folder / "docs"
        docs.mkdir()
        for section in sections.values():
            (docs / f"{section.name}.txt").write_text(section.text, encoding="utf-8")
        rig = Rig(environment={
            **os.environ, "XDG_CACHE_HOME": place, "XDG_CONFIG_HOME": place, "XDG_DATA_HOME": place,
        })  # fmt: skip
        rig.index(docs, model=MODEL, ocr="never", device="cpu")
        found = {
            "hybrid": _collect(questions, lambda one: _search(rig, one, "hybrid")),
            "vectors": _collect(questions, lambda one: _search(rig, one, "vectors")),
            "bm25": _collect(questions, _build_bm25(list(sections.values()))),
        }
    rows = []
    for language in ("", *LANGUAGES):
        chosen = [one for one in questions if not language or one.language == language]
        label = f"{language or 'all'}, {len(chosen)} questions, {MODEL}"
        for name, measure in (("nDCG@10", ndcg), ("recall@10", recall)):
            ours, vectors, bm25 = (
                sum(measure(found[way][one], one.answer) for one in chosen) / len(chosen)
                for way in ("hybrid", "vectors", "bm25")
            )
            rows.append(Row(f"{name}, {label}", ours, "", vectors, "vectors alone"))
            rows.append(Row(f"{name}, {label}, beside BM25", ours, "", bm25, "BM25"))
    return rows


def read_sections() -> list[Section]:
    """The sections of the FAQ in three languages; those within others are their own."""
    from lxml import html

    found = []
    for language, pattern in LANGUAGES.items():
        for file in sorted(FAQ.glob(pattern)):
            chapter = file.name.partition(".")[0]
            tree: Any = html.parse(str(file)).getroot()
            for number, element in enumerate(tree.xpath("//div[@class='section']"), 1):
                inner = element.xpath("./div[@class='titlepage']")
                heading = " ".join("".join(one.text_content() for one in inner).split())
                for part in [*inner, *element.xpath(".//div[@class='section']")]:
                    part.drop_tree()
                text = re.sub(r"[ \t]+", " ", element.text_content()).strip()
                name = f"{language}-{chapter}-{number:02}"
                if text:
                    found.append(Section(name, re.sub(r"^[\d.\s]+", "", heading), text))
    return found


def _search(rig: Rig, question: Question, mode: Any) -> list[str]:
    answer = rig.search(
        question.text.replace('"', " "), mode=mode, limit=DEPTH, files=True, all=True
    )
    return [hit.place.file.stem for hit in answer.hits]


def _build_bm25(sections: Sequence[Section]) -> Callable[[Question], list[str]]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE bodies USING fts5 (body)")
    connection.executemany("INSERT INTO bodies VALUES (?)", [(one.text,) for one in sections])

    def search(question: Question) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question.text))
        rows = connection.execute(
            "SELECT rowid FROM bodies WHERE bodies MATCH ? ORDER BY rank LIMIT ?", (words, DEPTH)
        )
        return [sections[number - 1].name for (number,) in rows]

    return search


def _collect(
    questions: Sequence[Question], search: Callable[[Question], list[str]]
) -> dict[Question, list[str]]:
    return {one: search(one) for one in questions}


def ndcg(order: Sequence[str], answer: str) -> float:
    """Of one answer that is right: 1 in the first place, less further down."""
    return 1 / math.log2(order.index(answer) + 2) if answer in order[:DEPTH] else 0.0


def recall(order: Sequence[str], answer: str) -> float:
    return float(answer in order[:DEPTH])
