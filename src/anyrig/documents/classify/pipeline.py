"""Classification of files and texts, and classifiers trained from examples.

    trained = train_on_examples(found, vectors, read)
    for one in classify_sources(sources, ByName(labels, vectors), vectors, read): ...

A text of several passages counts as the mean of their vectors, unless their votes are asked for.

Examples to learn from are a folder of folders, or a manifest (`anyrig.text.manifest`):

    folder/invoice/a.pdf, folder/letter/b.txt      a label is the name of a folder
    examples.csv, examples.jsonl

A link that leads out of a folder of examples is reported and not followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.documents.ordered import iter_rows, run_ordered
from anyrig.documents.passages import Passage, split_passages
from anyrig.documents.protocol import TextBlock, estimate_cost
from anyrig.documents.reading import TextSource, Unread, build_textless_error
from anyrig.errors import (
    MORE_DETAILS,
    AnyrigError,
    InvalidInputError,
    Message,
    OptionRef,
    WorkError,
)
from anyrig.text.document import Document
from anyrig.text.folder import LEADS_OUT, leads_out
from anyrig.text.language import detect_document
from anyrig.text.manifest import Example, Manifest, Resolve, Trouble, read_manifest
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.classify.decide import AnswerOptions, LabelAnswer, LabelScorer
    from anyrig.documents.classify.figures import Array, Kind
    from anyrig.documents.classify.finetuned import FineTuned, LabelPrediction
    from anyrig.documents.classify.head import TrainedHead
    from anyrig.documents.classify.train import Prior
    from anyrig.documents.protocol import Vectors
    from anyrig.work.outcome import ItemOutcome
    from anyrig.work.pool import WorkerPool

Read = Callable[[Iterable[Path]], Iterator[Document | Unread]]
"""Files to their pages, one for one: `documents.reading.read_all` with OCR or without."""


@dataclass(frozen=True)
class Classification:
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
    sources: Iterable[TextSource],
    chooser: LabelScorer,
    vectors: Vectors,
    read: Read,
    options: AnswerOptions | None = None,
) -> Iterator[Classification]:
    """What each source is, in order; files are read while those before are embedded.

    Args:
        sources: files and texts, which may come as a stream.
        chooser: by names (`ByName`), by examples (`Head`).
        vectors: of the model that the chooser knows.
        read: files to their pages.
        options: how probabilities become an answer.
    """
    from anyrig.documents.classify.decide import AnswerOptions, decide

    options = options or AnswerOptions()
    for piece, rows in _embed_sources(sources, vectors, read):
        if piece.error is not None:
            yield Classification(piece.source, error=piece.error)
            continue
        known = vectors.model.languages
        unknown = piece.language if known and piece.language not in known else ""
        answer = decide(piece.passages, rows, chooser, options, unknown)
        yield Classification(piece.source, answer, warnings=piece.warnings)


def classify_with_model(
    sources: Iterable[TextSource],
    model: FineTuned,
    pool: WorkerPool,
    read: Read,
    options: AnswerOptions | None = None,
) -> Iterator[Classification]:
    """What each source is by a fine-tuned model, in order.

    Args:
        sources: files and texts, which may come as a stream.
        model: what it is.
        pool: workers that have it loaded.
        read: files to their pages.
        options: how probabilities become an answer; long texts are always read in windows.
    """
    from anyrig.documents.classify.decide import AnswerOptions

    chosen = options or AnswerOptions()

    def expand(
        opened: tuple[TextSource, Document | AnyrigError],
    ) -> tuple[tuple[_SplitSource, str], list[TextBlock]]:
        piece, text = _take_whole(*opened)
        return (piece, text), [TextBlock([text])] if piece.error is None else []

    def join(indexes: tuple[_SplitSource, str], outcomes: list[ItemOutcome[Any]]) -> Classification:
        piece, text = indexes
        if piece.error is not None:
            return Classification(piece.source, error=piece.error)
        (outcome,) = outcomes
        if outcome.result is None:
            problem = outcome.failure.message if outcome.failure else "no answer"
            message = Message("{name}: {problem}", name=piece.source.name, problem=problem)
            return Classification(piece.source, error=WorkError(message, hint=MORE_DETAILS))
        answer = _answer(model, outcome.result[0], text, chosen)
        return Classification(piece.source, answer, warnings=piece.warnings)

    return run_ordered(
        _read_sources(sources, read), expand,
        lambda blocks: pool.run(blocks, cost=estimate_cost), join,
    )  # fmt: skip


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


def train_on_examples(
    found: Manifest,
    vectors: Vectors,
    read: Read,
    *,
    kind: Kind | None = None,
    prior: Prior = "even",
    word: str = "",
    on_progress: Callable[[str, int, int], None] | None = None,
) -> TrainedClassifier:
    """A classifier of examples, with its figures.

    Args:
        found: the examples.
        vectors: of the model to build on.
        read: files to their pages.
        kind: whether a text has one label or any number; by default as the examples have it.
        prior: how common each of several labels is taken to be.
        word: what the person calls that model, to find it again.
        on_progress: receives what is done, how much of it, and of how many.
    """
    from anyrig.documents.classify.train import train
    from anyrig.documents.embed import document_vectors

    report = on_progress or (lambda _what, _done, _all: None)
    kind = kind or detect_kind(found)
    ordered, troubles = select_examples(found, kind)
    sources = [TextSource(one.place, one.file, one.text) for one in ordered]
    rows: list[Array] = []
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    for example, (piece, got) in zip(ordered, _embed_sources(sources, vectors, read), strict=True):
        if piece.error is not None:
            troubles.append(_trouble(example, piece.error.message))
        else:
            rows.append(document_vectors([[one.text for one in piece.passages]], [got])[0])
            texts.append(" ".join(" ".join(one.text.split()) for one in piece.passages))
            labels.append(example.labels)
        report("example", len(rows), len(sources))
    indexes, known, notes = _drop_copies(texts, labels, kind)
    if not indexes:
        raise InvalidInputError("no example could be used", hint=_first(troubles))
    import numpy as np

    matrix = np.array([rows[n] for n in indexes])
    head = train(matrix, known, kind, vectors.model, prior=prior, word=word)
    return TrainedClassifier(head, troubles, notes)


@dataclass(frozen=True)
class ExampleTexts:
    """Whole texts to learn from, each once, with what they are."""

    texts: list[str]
    labels: list[tuple[str, ...]]
    troubles: list[Trouble]
    notes: list[str]


def read_examples(
    found: Manifest,
    read: Read,
    *,
    kind: Kind | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ExampleTexts:
    """The texts of examples, files read; `on_progress` receives how many of how many are done."""
    kind = kind or detect_kind(found)
    ordered, troubles = select_examples(found, kind)
    sources = [TextSource(one.place, one.file, one.text) for one in ordered]
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    opened = _read_sources(sources, read)
    for number, (example, (source, document)) in enumerate(zip(ordered, opened, strict=True), 1):
        piece, text = _take_whole(source, document)
        if piece.error is not None:
            troubles.append(_trouble(example, piece.error.message))
        else:
            texts.append(text)
            labels.append(example.labels)
        if on_progress is not None:
            on_progress(number, len(sources))
    indexes, known, notes = _drop_copies([" ".join(text.split()) for text in texts], labels, kind)
    if not indexes:
        raise InvalidInputError("no example could be used", hint=_first(troubles))
    return ExampleTexts([texts[n] for n in indexes], known, troubles, notes)


def detect_kind(found: Manifest) -> Kind:
    """Whether the examples have one label each, or any number."""
    return "many" if any(len(one.labels) > 1 for one in found.examples) else "one"


def select_examples(found: Manifest, kind: Kind) -> tuple[list[Example], list[Trouble]]:
    """Examples to learn from in an order that is always the same, and those left out."""
    taken, troubles = [], list(found.troubles)
    for one in found.examples:
        if kind == "one" and not one.labels:
            troubles.append(_trouble(one, "it has no label"))
        elif kind == "one" and len(one.labels) > 1:
            troubles.append(_trouble(one, f"it has {len(one.labels)} labels instead of one"))
        else:
            taken.append(one)
    return sorted(taken, key=lambda one: (one.labels, one.text, one.place)), troubles


def _trouble(example: Example, message: str) -> Trouble:
    return Trouble(example.place, message)


def _first(troubles: Sequence[Trouble]) -> str:
    return (
        Message("{place}: {said}", place=troubles[0].place, said=troubles[0].said)
        if troubles
        else "Pass some with text."
    )


def _drop_copies(
    texts: Sequence[str], labels: Sequence[tuple[str, ...]], kind: Kind
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
    return indexes, known, notes


def _embed_sources(
    sources: Iterable[TextSource], vectors: Vectors, read: Read
) -> Iterator[tuple[_SplitSource, Array]]:
    """Sources with the vectors of their passages, in order; many sources share a batch."""
    import numpy as np

    def expand(opened: tuple[TextSource, Document | AnyrigError]) -> tuple[_SplitSource, list[str]]:
        piece = _split(*opened)
        return piece, [passage.text for passage in piece.passages]

    def join(piece: _SplitSource, rows: list[Array]) -> tuple[_SplitSource, Array]:
        return piece, np.array(rows, np.float64) if rows else np.zeros((0, 0))

    return run_ordered(
        _read_sources(sources, read), expand, lambda texts: iter_rows(vectors.embed(texts)), join
    )


def _read_sources(
    sources: Iterable[TextSource], read: Read
) -> Iterator[tuple[TextSource, Document | AnyrigError]]:
    """Each source in pages, in order; files are read ahead. What is wrong with one is its own."""
    waiting: deque[TextSource] = deque()

    def paths() -> Iterator[Path]:
        for source in sources:
            waiting.append(source)
            if source.file is not None:
                yield source.file

    def texts() -> Iterator[tuple[TextSource, Document]]:
        while waiting and waiting[0].file is None:
            source = waiting.popleft()
            yield source, Document.from_text(source.text, Path(source.name))

    for found in read(paths()):
        yield from texts()
        source = waiting.popleft()
        if isinstance(found, Document):
            yield source, found
        else:
            yield source, found.error
    yield from texts()


def _split(source: TextSource, document: Document | AnyrigError) -> _SplitSource:
    """A source in passages."""
    if isinstance(document, AnyrigError):
        return _SplitSource(source, [], error=document)
    detected = detect_document(document)
    language = detected.language.partition("-")[0]
    found = list(split_passages(document, language=language))
    if not found:
        return _SplitSource(source, [], error=build_textless_error(document))
    return _SplitSource(source, found, document.warnings, language=language * detected.sure)


def _take_whole(source: TextSource, document: Document | AnyrigError) -> tuple[_SplitSource, str]:
    """A source in one piece."""
    if isinstance(document, AnyrigError):
        return _SplitSource(source, [], error=document), ""
    if not any(map(str.isalnum, document.text)):
        return _SplitSource(source, [], error=build_textless_error(document)), ""
    return _SplitSource(source, [], document.warnings), document.text


# -- examples --------------------------------------------------------------------------------------

_EXAMPLES_HINT = (
    "A folder of folders, a CSV with the columns text,label or file,label, or JSON lines."
)


def list_examples(path: Path, *, resolve: Resolve | None = None) -> Manifest:
    """All examples of a folder or a manifest; InvalidInputError where there are none.

    `resolve` says where a file lies that a row of a manifest names.
    """
    path = Path(path)
    if not path.is_dir():
        return read_manifest(path, resolve=resolve)
    found = Manifest([], [])
    for one in _list_folder(path):
        if isinstance(one, Trouble):
            found.troubles.append(one)
        else:
            found.examples.append(one)
    if not found.examples:
        why = f": {found.troubles[0].place}: {found.troubles[0].said}" if found.troubles else ""
        raise InvalidInputError(f"there are no examples in {path}{why}", hint=_EXAMPLES_HINT)
    return found


def _list_folder(folder: Path) -> Iterator[Example | Trouble]:
    inside = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    for place in inside:
        if not place.is_dir():
            yield Trouble(place.name, "it is not in a label's folder")
            continue
        label = " ".join(place.name.split())
        empty = True
        for file in sorted(place.rglob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(place).parts)
            if file.is_file() and not hidden:
                empty = False
                linked = place.is_symlink() or file.is_symlink()
                if linked and leads_out(file, folder):
                    yield Trouble(str(file.relative_to(folder)), LEADS_OUT)
                    continue
                yield Example((label,), str(file.relative_to(folder)), file=file)
        if empty:
            yield Trouble(place.name, "the folder is empty")
