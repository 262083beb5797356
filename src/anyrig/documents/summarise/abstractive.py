"""A summary that a model writes: long texts in windows, and a summary of the summaries.

    model = find(name, models=folders.models)
    with AbstractiveSummarizer(model, placed=placed, environment=environment) as summarizer:
        written = summarizer.summarise(document, words=120)

The model (BART, T5, Pegasus and their kin) is found without loading it. A window holds whole
sentences and never more tokens than the model reads: nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.documents.model_folder import Fetch, find_hub_folder, has_config, read_config
from anyrig.documents.summarise.extract import split_sentences
from anyrig.documents.summarise.seq2seq import SummaryWindow, open_tokenizer
from anyrig.errors import (
    MORE_DETAILS,
    InvalidInputError,
    Message,
    MissingWeightsError,
    OptionRef,
    WorkError,
)
from anyrig.placement import Workload
from anyrig.text import language as languages
from anyrig.work.engine import EngineFactory
from anyrig.work.outcome import ItemOutcome
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

if TYPE_CHECKING:
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.placement import PlacementPlan
    from anyrig.text.document import Document
    from anyrig.text.tokens import Span

ENGINE = "anyrig.documents.summarise.seq2seq:Seq2Seq"
VERSION = "1"
_LONGEST = 512
"""Tokens of a window where the model does not say: what T5 was taught on."""
_MOST = 4_096
_HINT = (
    "Pass a folder saved by transformers: config.json of an encoder-decoder, tokenizer, weights."
)
# Families that read and then write; others may say so by `is_encoder_decoder`.
_KNOWN = frozenset("bart mbart t5 mt5 umt5 longt5 pegasus pegasus_x led bigbird_pegasus marian "
                   "blenderbot prophetnet m2m_100 nllb-moe encoder-decoder".split())  # fmt: skip
WORDS = 120
_TOKENS_A_WORD = 1.5
_ROUNDS = 8
_SHRINK = 0.4
"""A window's summary has at most this share of its tokens: every round makes the text shorter."""
Report = Callable[[int, int], None]
"""How many windows are done, and of how many in this round."""


@dataclass(frozen=True)
class Seq2SeqModel:
    """A sequence-to-sequence model in a folder."""

    name: str
    folder: Path
    longest: int
    """Tokens it reads at once."""
    prefix: str = ""
    """What stands before a text to say that a summary is wanted, as T5 was taught."""
    beams: int = 4
    length_penalty: float = 1.0
    weights_bytes: int = 0

    def need(self) -> Workload:
        """What its workers ask for; fp16 is left out, as T5 overflows in it."""
        return Workload(
            name=f"the summariser {self.name}",
            libraries=("torch",),
            precisions=("bf16", "fp32"),
            worker_bytes=self.weights_bytes * 2 + (300 << 20),
        )

    def build_factory(self) -> EngineFactory:
        """How a worker makes its engine."""
        options = {
            "folder": str(self.folder), "prefix": self.prefix, "longest": self.longest,
            "beams": self.beams, "length_penalty": self.length_penalty,
        }  # fmt: skip
        return EngineFactory(ENGINE, options, f"summarise {self.name}", VERSION)


@dataclass(frozen=True)
class WindowSummary:
    """A stretch of the text, and what was written of it."""

    start: int
    end: int
    page: int
    text: str


@dataclass(frozen=True)
class WrittenSummary:
    """A summary by a model."""

    text: str
    parts: tuple[WindowSummary, ...]
    """The summaries of the windows, in order; one where the text fits into one."""
    rounds: int
    num_words: int
    """Of the whole text."""
    language: str
    method: str


class AbstractiveSummarizer:
    """A model on every device that was placed."""

    def __init__(
        self,
        model: Seq2SeqModel,
        *,
        placed: PlacementPlan,
        environment: Mapping[str, str],
        limits: KnownBatchSizes | None = None,
    ) -> None:
        """Start the workers; they load while this goes on."""
        self.model = model
        self._count, extra = _make_counter(model.folder)
        self._pool = WorkerPool(
            LocalWorkers(
                placed.placements,
                model.build_factory(),
                environment=environment,
                fallback=placed.fallback,
                known_sizes=limits,
            )
        )
        self._room = max(16, model.longest - extra - self._count(model.prefix) - 1)

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

    def __enter__(self) -> AbstractiveSummarizer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def summarise(
        self,
        document: Document,
        *,
        words: int = WORDS,
        language: str = "",
        on_progress: Report | None = None,
    ) -> WrittenSummary:
        """A file in about so many words.

        Args:
            document: the file.
            words: that the summary may have, about.
            language: of the text, for its sentences; detected when empty.
            on_progress: receives how far it is.
        """
        text = document.text
        code = language or languages.detect(text).language
        spans, _ = split_sentences(text, code, document.parts("page"))
        windows = list(self._windows(text, spans))
        max_tokens = max(8, round(words * _TOKENS_A_WORD))
        texts = self._write([text[a:b] for a, b in windows], max_tokens, on_progress)
        parts = tuple(
            WindowSummary(start, end, document.page_at(start), one)
            for (start, end), one in zip(windows, texts, strict=True)
        )
        joined, rounds = " ".join(texts), 1
        while len(texts) > 1 and rounds < _ROUNDS:
            pieces = [
                joined[a:b] for a, b in self._windows(joined, split_sentences(joined, code)[0])
            ]
            texts = self._write(pieces, max_tokens, on_progress)
            joined, rounds = " ".join(texts), rounds + 1
        return WrittenSummary(
            joined, parts, rounds, languages.num_words(text), code,
            f"written by {self.model.name}",
        )  # fmt: skip

    def _windows(self, text: str, spans: Sequence[Span]) -> Iterator[Span]:
        """Whole sentences, as many as the model reads at once; a giant one in pieces."""
        start, end, used = -1, -1, 0
        for first, last, size in self._measure(text, spans):
            if start >= 0 and used + size > self._room:
                yield start, end
                start, used = -1, 0
            start = first if start < 0 else start
            end, used = last, used + size
        if start >= 0:
            yield start, end

    def _measure(self, text: str, spans: Sequence[Span]) -> Iterator[tuple[int, int, int]]:
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

    def _write(
        self, texts: Sequence[str], max_tokens: int, on_progress: Report | None
    ) -> list[str]:
        pieces = [self._piece(text, max_tokens) for text in texts]
        found: list[str] = []
        for outcome in self._pool.run(pieces, cost=lambda piece: piece.cost):
            found.append(_take_text(outcome))
            if on_progress is not None:
                on_progress(len(found), len(pieces))
        return found

    def _piece(self, text: str, max_tokens: int) -> SummaryWindow:
        size = self._count(text)
        most = max(4, min(max_tokens, round(_SHRINK * size))) if size > 20 else max(4, size)
        return SummaryWindow(text, size, min(most // 3, 30), most)


def _make_counter(folder: Path) -> tuple[Callable[[str], int], int]:
    """What counts a text's tokens, and how many are added to each text.

    transformers takes seconds to load, so its own tokenizer is asked only where there is no file
    that the small library reads.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        theirs = open_tokenizer(str(folder))

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


def _take_text(outcome: ItemOutcome[Any]) -> str:
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


# -- finding a model --


def find(name: str, *, models: Path, fetch: Fetch | None = None) -> Seq2SeqModel:
    """The model that a name stands for.

    Args:
        name: a folder, or `owner/name` on the hub.
        models: where fetched weights lie.
        fetch: gets a repository into a folder; without it only what is there is taken.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return in_folder(folder.resolve())
    if name.startswith((".", "~", "/")) or name.count("/") > 1 or not name.strip():
        raise InvalidInputError(f"there is no folder {name}", hint=_HINT)
    return in_folder(find_hub_folder(name, models, fetch, has_config), name=name)


def in_folder(folder: Path, *, name: str = "") -> Seq2SeqModel:
    """The model of a folder; InvalidInputError where it cannot summarise."""
    config = read_config(folder, hint=_HINT)
    kind = str(config.get("model_type", ""))
    if not (config.get("is_encoder_decoder") or kind in _KNOWN):
        raise InvalidInputError(
            f"{folder} contains a model of type {kind or 'unknown'}, which cannot summarise",
            hint="Name a sequence-to-sequence model, such as BART, T5 or Pegasus.",
        )
    weights = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    if not weights:
        raise MissingWeightsError(f"{folder} contains no weights", hint=_HINT)
    task = _task(config)
    return Seq2SeqModel(
        name or folder.name,
        folder,
        _longest(config),
        str(task.get("prefix", "summarize: " if kind == "t5" else "")),
        _to_count(task.get("num_beams"), 4),
        float(task.get("length_penalty") or 1.0),
        sum(path.stat().st_size for path in weights),
    )


def _task(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the model says of summaries, where it says so."""
    tasks = config.get("task_specific_params")
    found = tasks.get("summarization") if isinstance(tasks, dict) else None
    return found if isinstance(found, dict) else {}


def _longest(config: Mapping[str, Any]) -> int:
    """Tokens that it reads at once: by its positions; those of T5 are relative, so as taught."""
    names = ("max_encoder_position_embeddings", "max_position_embeddings", "n_positions")
    for name in names:
        count = config.get(name)
        if isinstance(count, int) and count > 0:
            return min(count, _MOST)
    return _LONGEST


def _to_count(value: object, default: int) -> int:
    return value if isinstance(value, int) and 1 <= value <= 16 else default
