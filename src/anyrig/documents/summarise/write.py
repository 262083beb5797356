"""A summary that a model writes: long texts in windows, and a summary of the summaries.

    with Scribe(writer, placed=placed, environment=environment) as scribe:
        written = scribe.summarise(document, words=120)

A window holds whole sentences and never more tokens than the model reads: nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.documents.summarise.extract import cut
from anyrig.documents.summarise.seq2seq import Piece, tokenizer
from anyrig.documents.summarise.writer import Writer
from anyrig.errors import MORE_DETAILS, Message, MissingWeightsError, OptionRef, WorkError
from anyrig.text import language as languages
from anyrig.work.outcome import ItemOutcome
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

if TYPE_CHECKING:
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.placement import PlacementPlan
    from anyrig.text.document import Document
    from anyrig.text.tokens import Span

WORDS = 120
_TOKENS_A_WORD = 1.5
_ROUNDS = 8
_SHRINK = 0.4
"""A window's summary has at most this share of its tokens: every round makes the text shorter."""
Tell = Callable[[int, int], None]
"""How many windows are done, and of how many in this round."""


@dataclass(frozen=True)
class Part:
    """A stretch of the text, and what was written of it."""

    start: int
    end: int
    page: int
    text: str


@dataclass(frozen=True)
class Written:
    """A summary by a model."""

    text: str
    parts: tuple[Part, ...]
    """The summaries of the windows, in order; one where the text fits into one."""
    rounds: int
    num_words: int
    """Of the whole text."""
    language: str
    method: str


class Scribe:
    """A model on every device that was placed."""

    def __init__(
        self,
        writer: Writer,
        *,
        placed: PlacementPlan,
        environment: Mapping[str, str],
        limits: KnownBatchSizes | None = None,
        stamp: str = "",
    ) -> None:
        """Start the workers; they load while this goes on."""
        self.writer = writer
        self._count, extra = _counter(writer.folder)
        self._pool = WorkerPool(
            LocalWorkers(
                placed.placements,
                writer.recipe(),
                environment=environment,
                fallback=placed.fallback,
                known_sizes=limits,
                stamp=stamp,
            )
        )
        self._room = max(16, writer.longest - extra - self._count(writer.prefix) - 1)

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices so far."""
        return self._pool.warnings

    def pools(self) -> tuple[WorkerPool, ...]:
        """Its workers."""
        return (self._pool,)

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def __enter__(self) -> Scribe:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def summarise(
        self,
        document: Document,
        *,
        words: int = WORDS,
        language: str = "",
        tell: Tell | None = None,
    ) -> Written:
        """A file in about so many words.

        Args:
            document: the file.
            words: that the summary may have, about.
            language: of the text, for its sentences; found out when empty.
            tell: is told how far it is.
        """
        text = document.text
        spoken = language or languages.detect(text).language
        spans, _ = cut(text, spoken, document.parts("page"))
        windows = list(self._windows(text, spans))
        wanted = max(8, round(words * _TOKENS_A_WORD))
        told = self._written([text[a:b] for a, b in windows], wanted, tell)
        parts = tuple(
            Part(start, end, document.page_at(start), one)
            for (start, end), one in zip(windows, told, strict=True)
        )
        joined, rounds = " ".join(told), 1
        while len(told) > 1 and rounds < _ROUNDS:
            pieces = [joined[a:b] for a, b in self._windows(joined, cut(joined, spoken)[0])]
            told = self._written(pieces, wanted, tell)
            joined, rounds = " ".join(told), rounds + 1
        return Written(
            joined, parts, rounds, languages.num_words(text), spoken,
            f"written by {self.writer.name}",
        )  # fmt: skip

    def _windows(self, text: str, spans: Sequence[Span]) -> Iterator[Span]:
        """Whole sentences, as many as the model reads at once; a giant one in pieces."""
        start, end, used = -1, -1, 0
        for first, last, size in self._sized(text, spans):
            if start >= 0 and used + size > self._room:
                yield start, end
                start, used = -1, 0
            start = first if start < 0 else start
            end, used = last, used + size
        if start >= 0:
            yield start, end

    def _sized(self, text: str, spans: Sequence[Span]) -> Iterator[tuple[int, int, int]]:
        """Sentences with their tokens, those that are too long cut in two until they fit."""
        waiting = list(reversed(spans))
        while waiting:
            start, end = waiting.pop()
            # A space before: a sentence inside a text has one, and some tokenizers count it.
            size = self._count(" " + text[start:end]) + 1
            if size <= self._room or end - start < 2:
                yield start, end, size
                continue
            middle = text.rfind(" ", start + 1, (start + end) // 2 + 1)
            middle = middle if middle > start else (start + end) // 2
            waiting += [(middle, end), (start, middle)]

    def _written(self, texts: Sequence[str], wanted: int, tell: Tell | None) -> list[str]:
        pieces = [self._piece(text, wanted) for text in texts]
        found: list[str] = []
        for outcome in self._pool.run(pieces, cost=lambda piece: piece.cost):
            found.append(_told(outcome))
            if tell is not None:
                tell(len(found), len(pieces))
        return found

    def _piece(self, text: str, wanted: int) -> Piece:
        size = self._count(text)
        most = max(4, min(wanted, round(_SHRINK * size))) if size > 20 else max(4, size)
        return Piece(text, size, min(most // 3, 30), most)


def _counter(folder: Path) -> tuple[Callable[[str], int], int]:
    """What counts a text's tokens, and how many are added to each text.

    transformers takes seconds to load, so its own tokenizer is asked only where there is no file
    that the small library reads.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        theirs = tokenizer(str(folder))

        def count(text: str) -> int:
            return len(theirs(text, add_special_tokens=False, verbose=False)["input_ids"])

        return count, int(theirs.num_special_tokens_to_add())
    from tokenizers import Tokenizer

    try:
        ours: Tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises a bare Exception
        raise MissingWeightsError(
            f"{path} is not a tokenizer: {error}", hint="Save the model again."
        ) from error
    ours.no_truncation()
    ours.no_padding()
    return (
        lambda text: len(ours.encode(text, add_special_tokens=False).ids),
        ours.num_special_tokens_to_add(False),
    )


def _told(outcome: ItemOutcome[Any]) -> str:
    if outcome.failure is not None:
        raise WorkError(
            Message("a summary could not be written: {problem}", problem=outcome.failure.message),
            hint=outcome.failure.hint
            or Message(
                "Leave {model} out: then sentences are chosen. {more}",
                model=OptionRef("model"),
                more=MORE_DETAILS,
            ),
        )
    return str(outcome.result)
