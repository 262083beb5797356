"""ClassifiedText of files and texts, and classifiers trained from examples.

    for one in classify_sources(documents, ByName(labels, vectors), vectors): ...

    examples = select_examples(read_manifest(path))
    trained = train_on_examples(examples, read_sources(examples.sources), vectors)

A text of several passages counts as the mean of their vectors, unless their votes are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anyrig.documents.ordered import iter_rows, run_ordered
from anyrig.documents.passages import Passage, split_passages
from anyrig.documents.protocol import TextBlock, estimate_cost
from anyrig.documents.reading import OpenedSource, TextSource, build_textless_error
from anyrig.errors import (
    MORE_DETAILS,
    AnyrigError,
    InvalidInputError,
    Message,
    OptionRef,
    WorkError,
)
from anyrig.text.document import Document
from anyrig.text.language import detect_document
from anyrig.text.manifest import Example, Manifest, Trouble
from anyrig.text.sandbox import ReadError
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.classify.classifier import TrainedHead
    from anyrig.documents.classify.decide import AnswerOptions, LabelAnswer, LabelScorer
    from anyrig.documents.classify.figures import Array, Kind
    from anyrig.documents.classify.finetuned import FineTuned, LabelPrediction
    from anyrig.documents.classify.train import Prior
    from anyrig.documents.protocol import Vectors
    from anyrig.work.outcome import ItemOutcome
    from anyrig.work.pool import WorkerPool


@dataclass(frozen=True)
class ClassifiedText:
    """A source and its labels, or why it has none."""

    source: TextSource
    answer: LabelAnswer | None = None
    error: AnyrigError | None = None
    warnings: tuple[str, ...] = ()
    """What was wrong with the file though it could be read."""


@dataclass(frozen=True)
class TrainedClassifier:
    """A classifier, and what was left out on the way to it."""

    head: TrainedHead
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _SplitSource:
    """A source in passages; none when there is an error."""

    source: TextSource
    passages: list[Passage]
    warnings: tuple[str, ...] = ()
    error: AnyrigError | None = None
    language: str = ""
    """Empty where it is not sure."""


def classify_sources(
    documents: Iterable[OpenedSource],
    chooser: LabelScorer,
    vectors: Vectors,
    options: AnswerOptions | None = None,
) -> Iterator[ClassifiedText]:
    """What each source is, in order; files are read while those before are embedded.

    Args:
        documents: sources with their pages, which may come as a stream.
        chooser: by names (`ByName`), by examples (`TrainedHead`).
        vectors: of the model that the chooser knows.
        options: how probabilities become an answer.
    """
    from anyrig.documents.classify.decide import AnswerOptions, decide

    options = options or AnswerOptions()
    for piece, rows in _embed_sources(documents, vectors):
        if piece.error is not None:
            yield ClassifiedText(piece.source, error=piece.error)
            continue
        known = vectors.model.languages
        unknown = piece.language if known and piece.language not in known else ""
        answer = decide(piece.passages, rows, chooser, options, unknown)
        yield ClassifiedText(piece.source, answer, warnings=piece.warnings)


def classify_with_model(
    documents: Iterable[OpenedSource],
    model: FineTuned,
    pool: WorkerPool,
    options: AnswerOptions | None = None,
) -> Iterator[ClassifiedText]:
    """What each source is by a fine-tuned model, in order.

    Args:
        documents: sources with their pages, which may come as a stream.
        model: what it is.
        pool: workers that have it loaded.
        options: how probabilities become an answer; long texts are always read in windows.
    """
    from anyrig.documents.classify.decide import AnswerOptions

    chosen = options or AnswerOptions()

    def expand(
        opened: OpenedSource,
    ) -> tuple[tuple[TextSource, Document | AnyrigError], list[TextBlock]]:
        source, found = opened
        whole = _check_text(found)
        blocks = [TextBlock([whole.text])] if isinstance(whole, Document) else []
        return (source, whole), blocks

    def join(
        opened: tuple[TextSource, Document | AnyrigError], outcomes: list[ItemOutcome[Any]]
    ) -> ClassifiedText:
        source, whole = opened
        if isinstance(whole, AnyrigError):
            return ClassifiedText(source, error=whole)
        (outcome,) = outcomes
        if outcome.result is None:
            problem = outcome.failure.message if outcome.failure else "no answer"
            message = Message("{name}: {problem}", name=source.name, problem=problem)
            return ClassifiedText(source, error=WorkError(message, hint=MORE_DETAILS))
        answer = _answer(model, outcome.result[0], whole.text, chosen)
        return ClassifiedText(source, answer, warnings=whole.warnings)

    return run_ordered(documents, expand, lambda blocks: pool.run(blocks, cost=estimate_cost), join)


def _answer(
    model: FineTuned, predicted: LabelPrediction, text: str, options: AnswerOptions
) -> LabelAnswer:
    import numpy as np

    from anyrig.documents.classify.decide import HALF, LabelAnswer, Reason, choose_labels

    shares = np.array(predicted.probabilities)
    if options.other and not options.at_least:
        options = replace(options, at_least=HALF)  # it knows no text that is none of its labels
    given = choose_labels(shares, np.ones(len(shares)), model.kind, options)
    order = np.argsort(-shares, kind="stable")
    start, end = predicted.window
    reason = Reason(
        model.labels[int(order[0])], text[start:end], 0, start, predicted.window_probability
    )
    return LabelAnswer(
        tuple(model.labels[n] for n in given),
        tuple((model.labels[int(n)], float(shares[n])) for n in order),
        predicted.num_windows, False, reason,
    )  # fmt: skip


def check_model_fits(head: TrainedHead, vectors: Vectors) -> TrainedHead:
    """The classifier, if these are the vectors it was trained on."""
    about, model = head.about, vectors.model
    if about.fingerprint != model.fingerprint or about.dimension != model.dimension:
        raise InvalidInputError(
            f"{about.title} was trained on vectors of {about.embedding} ({about.fingerprint[:12]}),"
            f" and these are of {model.name} ({model.fingerprint[:12]})",
            hint=Message(
                "Pass {model}, or train it again.",
                model=OptionRef("model", about.word or about.embedding),
            ),
        )
    return head


@dataclass(frozen=True)
class Examples:
    """Examples to learn from, in an order that is always the same, and those left out."""

    kind: Kind
    chosen: list[Example]
    troubles: list[Trouble]

    @property
    def sources(self) -> list[TextSource]:
        return [TextSource(one.place, one.file, one.text) for one in self.chosen]


def select_examples(found: Manifest, kind: Kind | None = None) -> Examples:
    """The examples that can be learnt from; their kind is what they have unless it is given."""
    kind = kind or ("many" if any(len(one.labels) > 1 for one in found.examples) else "one")
    chosen, troubles = [], list(found.troubles)
    for one in found.examples:
        if kind == "one" and not one.labels:
            troubles.append(_trouble(one, "it has no label"))
        elif kind == "one" and len(one.labels) > 1:
            troubles.append(_trouble(one, f"it has {len(one.labels)} labels instead of one"))
        else:
            chosen.append(one)
    chosen.sort(key=lambda one: (one.labels, one.text, one.place))
    return Examples(kind, chosen, troubles)


def train_on_examples(
    examples: Examples,
    documents: Iterable[OpenedSource],
    vectors: Vectors,
    *,
    prior: Prior = "even",
    word: str = "",
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> TrainedClassifier:
    """A classifier of examples, with its figures.

    Args:
        examples: what is learnt.
        documents: their sources with their pages.
        vectors: of the model to build on.
        prior: how common each of several labels is taken to be.
        word: what the person calls that model, to find it again.
        on_progress: receives how many of how many are done.
    """
    import numpy as np

    from anyrig.documents.classify.train import train
    from anyrig.documents.embed import document_vectors

    rows: list[Array] = []
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    troubles = list(examples.troubles)
    embedded = _embed_sources(documents, vectors)
    for example, (piece, got) in zip(examples.chosen, embedded, strict=True):
        if piece.error is not None:
            troubles.append(_trouble(example, piece.error.message))
        else:
            rows.append(document_vectors([[one.text for one in piece.passages]], [got])[0])
            texts.append(" ".join(" ".join(one.text.split()) for one in piece.passages))
            labels.append(example.labels)
        on_progress(len(rows), len(examples.chosen))
    indexes, known, notes = _drop_copies(texts, labels, examples.kind, troubles)
    matrix = np.array([rows[n] for n in indexes])
    head = train(matrix, known, examples.kind, vectors.model, prior=prior, word=word)
    return TrainedClassifier(head, troubles, notes)


@dataclass(frozen=True)
class ExampleTexts:
    """Whole texts to learn from, each once, with what they are."""

    texts: list[str]
    labels: list[tuple[str, ...]]
    troubles: list[Trouble]
    notes: list[str]


def read_examples(
    examples: Examples,
    documents: Iterable[OpenedSource],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ExampleTexts:
    """The texts of examples; `on_progress` receives how many of how many are done."""
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    troubles = list(examples.troubles)
    pairs = zip(examples.chosen, documents, strict=True)
    for number, (example, (_, found)) in enumerate(pairs, 1):
        whole = _check_text(found)
        if isinstance(whole, AnyrigError):
            troubles.append(_trouble(example, whole.message))
        else:
            texts.append(whole.text)
            labels.append(example.labels)
        on_progress(number, len(examples.chosen))
    plain = [" ".join(text.split()) for text in texts]
    indexes, known, notes = _drop_copies(plain, labels, examples.kind, troubles)
    return ExampleTexts([texts[n] for n in indexes], known, troubles, notes)


def _trouble(example: Example, message: str) -> Trouble:
    return Trouble(example.place, message)


def _drop_copies(
    texts: Sequence[str],
    labels: Sequence[tuple[str, ...]],
    kind: Kind,
    troubles: Sequence[Trouble],
) -> tuple[list[int], list[tuple[str, ...]], list[str]]:
    """Each text once: a copy that is learnt from and asked about would flatter the figures.

    The same text under several labels has all of them where it may; else it says nothing.
    """
    seen: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        seen.setdefault(text, []).append(number)
    indexes, known, notes = [], [], []
    copies = contradictory = 0
    for _, numbers in sorted(seen.items()):  # whatever order the examples came in
        names = tuple(sorted({name for n in numbers for name in labels[n]}))
        copies += len(numbers) - 1
        if kind == "one" and len(names) > 1:
            contradictory += 1
            continue
        indexes.append(numbers[0])
        known.append(names)
    if copies:
        notes.append(f"{pluralize(copies, 'example')} said the same as another: each counts once")
    if contradictory:
        notes.append(
            Message(
                "left out {texts} with several labels; pass {multi}?",
                texts=pluralize(contradictory, "text"),
                multi=OptionRef("multi"),
            )
        )
    if not indexes:
        hint = "Pass some with text."
        if troubles:
            hint = Message("{place}: {reason}", place=troubles[0].place, reason=troubles[0].reason)
        raise InvalidInputError("no example could be used", hint=hint)
    return indexes, known, notes


def _embed_sources(
    documents: Iterable[OpenedSource], vectors: Vectors
) -> Iterator[tuple[_SplitSource, Array]]:
    """Sources with the vectors of their passages, in order; many sources share a batch."""
    import numpy as np

    def expand(opened: OpenedSource) -> tuple[_SplitSource, list[str]]:
        piece = _split(*opened)
        return piece, [passage.text for passage in piece.passages]

    def join(piece: _SplitSource, rows: list[Array]) -> tuple[_SplitSource, Array]:
        return piece, np.array(rows, np.float64) if rows else np.zeros((0, 0))

    return run_ordered(documents, expand, lambda texts: iter_rows(vectors.embed(texts)), join)


def _split(source: TextSource, found: Document | ReadError) -> _SplitSource:
    if isinstance(found, ReadError):
        return _SplitSource(source, [], error=found.error)
    detected = detect_document(found)
    language = detected.language.partition("-")[0]
    passages = list(split_passages(found, language=language))
    if not passages:
        return _SplitSource(source, [], error=build_textless_error(found))
    return _SplitSource(source, passages, found.warnings, language=language * detected.sure)


def _check_text(found: Document | ReadError) -> Document | AnyrigError:
    """The document, or why it has no text."""
    if isinstance(found, ReadError):
        return found.error
    return found if any(map(str.isalnum, found.text)) else build_textless_error(found)
