"""Short texts of our own with what a reader would keep: sentences and phrases, marked by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anyrig.documents.words import plain, stem, words
from anyrig.text.document import Document

FOLDER = Path(__file__).parent / "marked"


@dataclass(frozen=True)
class Marked:
    name: str
    language: str
    phrases: tuple[str, ...]
    sentences: tuple[str, ...]
    salient: frozenset[str]

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    @property
    def document(self) -> Document:
        return Document.from_text(self.text, FOLDER / f"{self.name}.txt")


def load() -> list[Marked]:
    return [_read(path) for path in sorted(FOLDER.glob("*.txt"))]


def _read(path: Path) -> Marked:
    head, _, body = path.read_text(encoding="utf-8").partition("\n\n")
    told = dict(line.split(": ", 1) for line in head.splitlines())
    lines = body.strip().splitlines()
    return Marked(
        path.stem,
        told["language"],
        tuple(phrase.strip() for phrase in told["phrases"].split(";")),
        tuple(line.removeprefix("* ") for line in lines),
        frozenset(line.removeprefix("* ") for line in lines if line.startswith("* ")),
    )


def matches(phrase: str, wanted: Sequence[str]) -> bool:
    """Whether a phrase is one of those wanted: at least half of the words of both are common."""
    mine = stems(phrase)
    return any(len(mine & (other := stems(one))) >= 0.5 * len(mine | other) for one in wanted)


def stems(phrase: str) -> set[str]:
    return {stem(plain(word.text)) for word in words(phrase)}
