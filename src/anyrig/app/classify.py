"""ClassifiedText: which label a text has, by the labels' names, by examples or by a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.app.compute import place, test_devices
from anyrig.app.documents import (
    FailedFile,
    FileOptions,
    SourceOptions,
    list_sources,
    read_sources,
    report_warnings,
)
from anyrig.app.embedding import (
    EmbeddingOptions,
    detect_languages,
    download_model,
    find_model,
    format_reference,
    open_vectors,
)
from anyrig.app.files import check_writable, format_csv, format_json_lines, write_text
from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
)
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import option
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.classify.classifier import ClassifierRecord
    from anyrig.documents.classify.figures import Kind
    from anyrig.documents.classify.finetuned import FineTuned
    from anyrig.documents.classify.pipeline import ClassifiedText
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.reading import TextSource
    from anyrig.text.manifest import Manifest, Trouble
    from anyrig.work.pool import WorkerPool

OUTPUT_FORMATS = (".csv", ".jsonl")
_NUM_PEEKED = 20
"""Files that are read before the model is chosen, to see what languages they are in."""
_SNIPPET_CHARACTERS = 240
_EXAMPLES_HINT = "Give a folder of folders, a CSV or JSON lines."


@dataclass(frozen=True, kw_only=True)
class ClassifierModelOptions(EmbeddingOptions, FileOptions):
    """Classifiers."""

    # Not filled in from the settings: a trained classifier brings its own model.
    model: str = option(
        "auto", "embedding model: a name from `anyrig embed --models`, a folder, or a hub name;"
        " auto chooses by the language of the texts", setting="documents.model",
        fill=False, metavar="NAME",
    )  # fmt: skip
    multi: bool = option(False, "a text may have any number of labels")


@dataclass(frozen=True, kw_only=True)
class ClassifyRequest(ClassifierModelOptions, SourceOptions):
    """ClassifiedText."""

    files: tuple[Path, ...] = option((), "files and folders", flag=False, upload=True)
    labels: tuple[str, ...] | None = option(
        None, "labels by name, each perhaps with a description: `invoice: a bill to pay`",
        flag=False, excludes="classifier",
    )  # fmt: skip
    classifier: str | None = option(
        None, "a trained classifier, a folder, or owner/name on the hub", flag=False
    )
    template: tuple[str, ...] = option(
        (), "with labels: sentences with {} for the label", flag=False
    )
    other: bool | None = option(
        None, "answer `none of these` where no label fits; a fine-tuned model does not by default"
    )
    threshold: float = option(
        0.0, "minimum probability of a label; 0.5 if a text may have several", ge=0, le=1
    )
    pool: Literal["mean", "vote"] = option(
        "mean", "long texts: average the passages' vectors, or their answers"
    )
    output: Path | None = option(
        None, "write a table: .csv or .jsonl", short="-o", http=False, metavar="FILE"
    )


@dataclass(frozen=True, kw_only=True)
class TrainClassifierRequest(ClassifierModelOptions):
    """Training a classifier."""

    examples: Path = option(
        help="a folder of folders, a CSV or JSON lines", flag=False, upload=True
    )
    name: str = option("", "name of the classifier", metavar="NAME")
    prior: Literal["even", "examples"] = option(
        "even", "prior of labels: equal, or as in the examples"
    )


# -- classifying -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassifyResult:
    by: str
    """What classified: a classifier, a model, or labels by name."""
    texts: tuple[ClassifiedText, ...]

    @property
    def failed(self) -> tuple[FailedFile, ...]:
        return tuple(FailedFile(one.source.name, one.error) for one in self.texts if one.error)

    @property
    def labels(self) -> list[str | None]:
        """The first label of each text; None where none fits or the text could not be read."""
        return [one.answer.labels[0] if one.answer and one.answer.labels else None
                for one in self.texts]  # fmt: skip

    def list_rows(self) -> list[dict[str, Any]]:
        """A row for each text that could be read, ready for JSON."""
        return [classified_to_json(one) for one in self.texts if one.answer is not None]

    def save(self, path: str | Path) -> None:
        """Write a table, .csv or .jsonl; a row for each text, those that failed included."""
        path = Path(path)
        check_writable(path, OUTPUT_FORMATS)
        rows = [_to_row(one) for one in self.texts]
        is_csv = path.suffix.lower() == ".csv"
        write_text(path, format_csv(_list_cells(rows)) if is_csv else format_json_lines(rows))


def classify(
    rig: Rig,
    request: ClassifyRequest,
    on_event: OnEvent,
    on_text: Callable[[ClassifiedText], None] = lambda _: None,
) -> ClassifyResult:
    """Classify files and texts, and pass each to `on_text`; one that cannot be read does not stop
    the others.
    """
    if request.labels is None and request.classifier is None:
        raise InvalidInputError(
            "no labels were given",
            hint=Message(
                "Pass {labels}, or {classifier}"
                " for a trained one; `anyrig classify train EXAMPLES --name NAME` trains one.",
                labels=OptionRef("labels", "invoice,letter"),
                classifier=OptionRef("classifier", "NAME"),
            ),
        )
    if request.output is not None:
        check_writable(request.output, OUTPUT_FORMATS)
    sources = list_sources(request, on_event, "classify")
    sources.sort(key=lambda one: one.file is None)  # files first
    done: list[ClassifiedText] = []
    with ExitStack() as stack:
        by, found = _start(rig, request, stack, SourceReader(rig, request, sources), on_event)
        on_event(ProgressEvent("classifying", 0, len(sources)))
        for one in found:
            report_warnings(one.source.name, one.warnings, on_event)
            done.append(one)
            on_event(ProgressEvent("classifying", len(done), len(sources), one.source.name))
            on_text(one)
    result = ClassifyResult(by, tuple(done))
    _warn_of_languages(done, on_event)
    if request.output is not None and len(result.failed) < len(done):
        result.save(request.output)
    return result


def _warn_of_languages(done: Sequence[ClassifiedText], on_event: OnEvent) -> None:
    counts = Counter(one.answer.unknown_language for one in done
                     if one.answer and one.answer.unknown_language)  # fmt: skip
    if counts:
        codes = ", ".join(code for code, _ in counts.most_common(5))
        on_event(WarningEvent(Message(
            "{texts} in a language that the model was not trained on ({codes}): their labels are"
            " guesses. Pass {model}, or train the classifier with it.",
            texts=pluralize(counts.total(), "text"), codes=codes,
            model=OptionRef("model", "use-multilingual"),
        )))  # fmt: skip


def _start(
    rig: Rig,
    request: ClassifyRequest,
    stack: ExitStack,
    reader: SourceReader,
    on_event: OnEvent,
) -> tuple[str, Iterator[ClassifiedText]]:
    """What classifies, in words, and its answers."""
    from anyrig.documents.classify import classifier
    from anyrig.documents.classify.decide import AnswerOptions
    from anyrig.documents.classify.labels import build_labels
    from anyrig.documents.classify.pipeline import (
        check_model_fits,
        classify_sources,
        classify_with_model,
    )
    from anyrig.documents.classify.zero import TEMPLATES, ByName

    options = AnswerOptions(request.pool, request.other, request.threshold)
    if request.labels is not None:
        labels = build_labels(request.labels)
        for template in request.template:
            if "{}" not in template:
                raise InvalidInputError(
                    f"the template {template!r} has no {{}} for the label", hint="Write {} in it."
                )
        vectors = reader.open_vectors(stack, on_event)
        kind: Kind = "many" if request.multi else "one"
        chooser = ByName(labels, vectors, kind=kind, templates=request.template or TEMPLATES)
        by = f"labels by name, {vectors.model.name}"
        return by, classify_sources(reader.documents, chooser, vectors, options)
    assert request.classifier is not None
    model = find_fine_tuned(rig, request, on_event)
    if model is not None:
        pool = stack.enter_context(_open_workers(rig, request, model))
        answers = classify_with_model(reader.documents, model, pool, options)
        return f"the model {model.name}", answers
    head = classifier.open_classifier(rig.folders.classifiers, request.classifier)
    if request.multi and head.kind == "one":
        raise InvalidInputError(
            f"{head.about.title} gives one label to a text",
            hint=Message(
                "Train it with {multi}, from examples that have several.", multi=OptionRef("multi")
            ),
        )
    vectors = reader.open_vectors(stack, on_event, default_model=head.about.word)
    check_model_fits(head, vectors)
    return head.about.title, classify_sources(reader.documents, head, vectors, options)


class SourceReader:
    """Reads sources in order, the first at once: their language decides which model is used."""

    def __init__(
        self, rig: Rig, options: ClassifierModelOptions, sources: Sequence[TextSource]
    ) -> None:
        self._rig, self._options = rig, options
        documents = read_sources(rig, options, sources)
        self._first = list(islice(documents, _NUM_PEEKED))
        self._more_texts = [one.text for one in sources[_NUM_PEEKED:] if one.file is None]
        self._read_all = len(self._first) + len(self._more_texts) == len(sources)
        self.documents = chain(self._first, documents)

    def list_texts(self) -> list[str]:
        """The texts that are known at once."""
        from anyrig.text.sandbox import ReadError

        first = [found.text for _, found in self._first if not isinstance(found, ReadError)]
        return first + self._more_texts

    def open_vectors(self, stack: ExitStack, on_event: OnEvent, default_model: str = "") -> Vectors:
        """The requested embedding model; else a default, that of the settings, or one for the
        texts' languages.
        """
        texts = self.list_texts()
        options = self._options
        if options.model == "auto":
            options = replace(options, model=default_model)
        found = find_model(self._rig, options, detect_languages(texts), on_event)
        size = sum(map(len, texts)) if self._read_all else None
        return stack.enter_context(
            open_vectors(self._rig, options, found, on_event, num_characters=size)
        )


def find_fine_tuned(rig: Rig, request: ClassifyRequest, on_event: OnEvent) -> FineTuned | None:
    """The fine-tuned model that a request names by its folder or its name on the hub, if any."""
    from anyrig.documents.classify import classifier
    from anyrig.documents.classify.finetuned import find_classifier
    from anyrig.documents.model_folder import find_hub_folder, has_config

    name = request.classifier or ""
    folder = Path(name).expanduser()
    is_bare = folder.name == name
    if is_bare and classifier.list_versions(rig.folders.classifiers, name.partition("@")[0]):
        return None  # the folder of its examples may have the same name
    if folder.is_dir() and (has_config(folder) or not is_bare):
        return find_classifier(folder.resolve())
    if name.count("/") != 1 or name.startswith((".", "~", "/")):
        return None
    fetch = partial(download_model, on_event=on_event) if request.fetch else None
    return replace(
        find_classifier(find_hub_folder(name, rig.folders.models, fetch, has_config)), name=name
    )


def _open_workers(rig: Rig, request: ClassifyRequest, model: FineTuned) -> WorkerPool:
    from anyrig.work.pool import WorkerPool
    from anyrig.work.worker import LocalWorkers

    plan = place(rig, rig.choose_device(request), model.need(), request)
    plan = test_devices(rig, plan, request)
    workers = LocalWorkers(
        plan.placements, model.recipe(), environment=rig.environment, fallback=plan.fallback,
        deterministic=request.deterministic,
    )  # fmt: skip
    return WorkerPool(workers)


# -- trained classifiers ---------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainedResult:
    """A classifier that was trained and classifier."""

    about: ClassifierRecord
    is_new: bool
    """Whether it differs from its last version; if not, that was kept."""
    notes: list[str] = field(default_factory=list)
    left_out: list[Trouble] = field(default_factory=list)
    """Examples that could not be used."""


def train_classifier(rig: Rig, request: TrainClassifierRequest, on_event: OnEvent) -> TrainedResult:
    """Train a classifier on examples and save it as a new version of its name."""
    from anyrig.documents.classify import classifier
    from anyrig.documents.classify.pipeline import select_examples, train_on_examples

    if not request.name:
        raise InvalidInputError(
            "the classifier needs a name",
            hint=Message("Pass {name}.", name=OptionRef("name", "NAME")),
        )
    classifier.validate_name(request.name)
    found = load_examples(request.examples)
    examples = select_examples(found, "many" if request.multi else None)
    with ExitStack() as stack:
        reader = SourceReader(rig, request, examples.sources)
        vectors = reader.open_vectors(stack, on_event)
        trained = train_on_examples(
            examples, reader.documents, vectors, prior=request.prior,
            word=format_reference(request.model, vectors.model),
            on_progress=lambda done, total: on_event(ProgressEvent("embedding", done, total)),
        )  # fmt: skip
    about, is_new = classifier.save_classifier(rig.folders.classifiers, request.name, trained.head)
    return TrainedResult(about, is_new, trained.notes, trained.troubles)


def load_examples(path: Path) -> Manifest:
    from anyrig.text.manifest import read_manifest

    if not path.exists():
        raise InvalidInputError(f"no such file or folder: {path}", hint=_EXAMPLES_HINT)
    return read_manifest(path)


def list_classifiers(rig: Rig) -> list[ClassifierRecord]:
    from anyrig.documents.classify import classifier

    return classifier.list_classifiers(rig.folders.classifiers)


def show_classifier(rig: Rig, title: str) -> tuple[ClassifierRecord, list[int], Path]:
    """What is known of a classifier, its versions, and its folder."""
    from anyrig.documents.classify import classifier

    folder = rig.folders.classifiers
    about = classifier.open_classifier(folder, title).about
    return (
        about,
        classifier.list_versions(folder, about.name),
        classifier.find_version(folder, title),
    )


def list_deleted(rig: Rig, title: str) -> list[int]:
    """The versions that `delete_classifier` would delete."""
    from anyrig.documents.classify import classifier

    classifier.find_version(rig.folders.classifiers, title)
    name, number = classifier.split_title(title)
    return (
        [number] if number is not None else classifier.list_versions(rig.folders.classifiers, name)
    )


def delete_classifier(rig: Rig, title: str) -> list[ClassifierRecord]:
    """Delete a version (`name@2`), or all of a name."""
    from anyrig.documents.classify import classifier

    return classifier.delete_versions(rig.folders.classifiers, title)


# -- output ----------------------------------------------------------------------------------------


def classified_to_json(one: ClassifiedText) -> dict[str, Any]:
    from anyrig.text.labels import one_line

    answer = one.answer
    assert answer is not None
    shares = dict(answer.probabilities)
    reason = answer.reason
    return {
        "name": one.source.name,
        "file": str(one.source.file) if one.source.file is not None else None,
        "label": answer.labels[0] if answer.labels else None,
        "labels": list(answer.labels),
        "probability": round(shares[answer.labels[0]] if answer.labels else answer.probability, 6),
        "probabilities": {label: round(share, 6) for label, share in answer.probabilities},
        "calibrated": answer.calibrated,
        "unknown_language": answer.unknown_language or None,
        "passages": answer.num_passages,
        "reason": reason
        and {
            "label": reason.label,
            "text": one_line(reason.text, _SNIPPET_CHARACTERS),
            "page": reason.page or None,
            "start": reason.start,
            "probability": round(reason.probability, 6),
        },
        "warnings": list(one.warnings),
    }


def _to_row(one: ClassifiedText) -> dict[str, Any]:
    if one.error is None:
        return classified_to_json(one)
    return {"name": one.source.name, "error": one.error.message}


def _list_cells(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[object]]:
    """A row for each text: its label, the probability of every label, and what went wrong."""
    names = sorted({label for row in rows for label in row.get("probabilities", ())})
    yield ["name", "label", "probability", *(f"p({name})" for name in names), "error"]
    for row in rows:
        shares = row.get("probabilities", {})
        numbers = [row.get("probability"), *map(shares.get, names)]
        cells = ["" if number is None else f"{number:.6f}" for number in numbers]
        yield [row["name"], "|".join(row.get("labels", ())), *cells, row.get("error", "")]
