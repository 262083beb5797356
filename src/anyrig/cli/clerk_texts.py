"""A clerk's tasks on texts and files: passages, labels, entities, summaries, an analysis.

Each answers a list, one entry for each source in order: `{"result": ...}`, or `{"error": ...}` as
`errors.error_to_dict` writes it, so that one bad file fails alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import clerk_models, compute
from anyrig.cli.clerk import ClerkRoom
from anyrig.cli.clerk_models import Given
from anyrig.errors import AnyrigError, InvalidInputError, error_to_dict, format_mentions

if TYPE_CHECKING:
    from anyrig.documents.classify.decide import Chooser
    from anyrig.documents.entities.finder import Finder
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.reading import Unread
    from anyrig.documents.summarise.write import Scribe
    from anyrig.text.pages import Paged

Rows = list[dict[str, Any]]


def _wrong(source: Given, error: AnyrigError) -> dict[str, Any]:
    """An error with the name that its sender gave the file."""
    row = error_to_dict(error)
    return {"error": row | {name: source.told(row[name]) for name in ("message", "hint")}}


def _unread(source: Given, found: Unread) -> dict[str, Any]:
    return _wrong(source, found.error)


def passages(room: ClerkRoom, arguments: Mapping[str, Any]) -> Rows:
    """Sources cut into passages with their places: what is embedded as one piece."""
    from anyrig.documents.passages import passages as cut
    from anyrig.documents.reading import Unread, textless

    sources = clerk_models.given(arguments)
    rows: Rows = []
    read = clerk_models.read(room, sources, arguments.get("ocr"))
    for source, paged in zip(sources, read, strict=True):
        if isinstance(paged, Unread):
            rows.append(_unread(source, paged))
            continue
        found = [asdict(one) for one in cut(paged, language=paged.language[:2] or "en")]
        if not found:
            rows.append(_wrong(source, textless(paged)))
            continue
        rows.append({"result": {
            "format": paged.format, "passages": found, "warnings": list(paged.warnings),
        }})  # fmt: skip
    return rows


# -- labels ----------------------------------------------------------------------------------------


def classifiers(room: ClerkRoom, arguments: Mapping[str, Any]) -> Rows:
    """What was trained and is kept."""
    from anyrig.documents.classify import shelf

    return [
        {"name": about.name, "version": about.version, "title": about.title,
         "labels": list(about.labels), "kind": about.kind, "examples": about.num_examples,
         "embedding": about.embedding, "made": about.made, "figures": about.figures}
        for about in shelf.kept(room.context.folders.classifiers)
    ]  # fmt: skip


def classify(room: ClerkRoom, arguments: Mapping[str, Any]) -> Rows:
    """Which label each source has.

    Arguments are `sources`, `labels` (`name: a few words` each) or `classifier`, `multi`, `other`,
    `threshold`, `pool`, `templates`, `model`.
    """
    from anyrig.app.classify import classified_to_json
    from anyrig.documents.classify.decide import Ways
    from anyrig.documents.classify.pipeline import classify_sources
    from anyrig.documents.reading import TextSource

    sources = clerk_models.given(arguments)
    # Read before the model is chosen, as their language decides for one of several.
    pages = list(clerk_models.read(room, sources, arguments.get("ocr")))
    texts = [one.text for one in pages if not _is_unread(one)]  # type: ignore[union-attr]
    chooser, vectors = _chooser(room, arguments, texts)
    advice = clerk_models.advice(vectors, texts)
    ways = Ways(arguments["pool"], arguments["other"], arguments["threshold"])

    def read(paths: Iterable[Path]) -> Iterator[Paged | Unread]:
        for _, page in zip(paths, pages, strict=False):
            yield page

    asked = [TextSource(one.name, file=one.file or Path(one.name)) for one in sources]
    rows: Rows = []
    for source, one in zip(
        sources, classify_sources(asked, chooser, vectors, read, ways), strict=True
    ):
        if one.error is not None:
            rows.append(_wrong(source, one.error))
        else:
            row = classified_to_json(one)
            row["warnings"] = [*advice, *row["warnings"]]
            rows.append({"result": {k: v for k, v in row.items() if k not in ("name", "file")}})
    return rows


def _is_unread(one: Paged | Unread) -> bool:
    from anyrig.documents.reading import Unread

    return isinstance(one, Unread)


def _chooser(
    room: ClerkRoom, arguments: Mapping[str, Any], texts: Sequence[str]
) -> tuple[Chooser, Vectors]:
    from anyrig.app.classify import build_label_chooser
    from anyrig.documents.classify import shelf
    from anyrig.documents.classify.labels import build_labels
    from anyrig.documents.classify.pipeline import check_model_fits

    if arguments.get("classifier"):
        head = shelf.open_(room.context.folders.classifiers, arguments["classifier"])
        if arguments["multi"] and head.kind == "one":
            raise InvalidInputError(
                f"{head.about.title} gives one label to a text",
                hint="Train it from examples that have several, or leave multi out.",
            )
        vectors = clerk_models.vectors(room, head.about.word, texts, trusted=True)
        return check_model_fits(head, vectors), vectors
    named = build_labels(arguments["labels"])
    vectors = clerk_models.vectors(room, arguments["model"], texts)
    chooser = build_label_chooser(
        named, vectors, multi=arguments["multi"], templates=arguments.get("templates") or ()
    )
    return chooser, vectors


# -- entities --------------------------------------------------------------------------------------


def entities(room: ClerkRoom, arguments: Mapping[str, Any]) -> Rows:
    """What each source names: `sources`, `kinds`, `language`, `engine`, `unchecked`, `distinct`."""
    from anyrig.app.entities import describe_missing_names
    from anyrig.documents.entities.entity import kinds_of
    from anyrig.documents.entities.pipeline import find_in_sources
    from anyrig.documents.reading import TextSource

    kinds = kinds_of(arguments["kinds"]) if arguments.get("kinds") else None
    engine = arguments["engine"]
    finder = _finder(room, engine, kinds, arguments["unchecked"])
    sources = clerk_models.given(arguments)
    from anyrig.cli import reading

    mode = reading.mode(room.options(ocr=arguments.get("ocr")))
    pictures = mode != "never" and any(one.file is not None for one in sources)
    found = find_in_sources(
        [TextSource(one.name, one.file, one.text) for one in sources], finder,
        language=arguments["language"], limits=clerk_models.limits(room), mode=mode,
        ocr=clerk_models.ocr_reads(room) if pictures else None,
    )  # fmt: skip
    rows: Rows = []
    for source, one in zip(sources, found, strict=True):
        if one.error is not None:
            rows.append(_wrong(source, one.error))
            continue
        wanted = [e for e in one.entities if kinds is None or e.entity.kind in kinds]
        rows.append({"result": {
            "entities": _listed(wanted) if arguments["distinct"] else [e.to_json() for e in wanted],
            "languages": list(one.languages),
            "warnings": [
                *one.warnings,
                *(format_mentions(text, "http")
                  for text in describe_missing_names(engine, finder, one, kinds)),
            ],
        }})  # fmt: skip
    return rows


def _listed(found: Sequence[Any]) -> Rows:
    """Each thing once, with how often."""
    from anyrig.documents.entities.listing import listed

    pages = {one.entity: one for one in found}
    return [
        {**pages[one.first].to_json(), "count": one.count}
        for one in listed(one.entity for one in found)
    ]


def _finder(room: ClerkRoom, engine: str, kinds: Sequence[str] | None, unchecked: bool) -> Finder:
    """What finds them. All kinds are looked for: so one process serves whatever is asked."""
    from anyrig.app.compute import ComputeOptions
    from anyrig.app.entities import build_finder
    from anyrig.documents.entities.finder import wants_names
    from anyrig.documents.entities.names import choose

    namer = choose(engine)
    if not wants_names(namer, kinds):
        namer = None
    also = ", unchecked numbers too" if unchecked else ""
    options = room.context.request(ComputeOptions, device="cpu")
    return room.keep(
        f"entities by {namer.name if namer else 'rule'}{also}",
        lambda: build_finder(
            room.context.rig, options, namer, kinds=None, unchecked=unchecked, num_bytes=0
        ),
    )


# -- summaries -------------------------------------------------------------------------------------


def summarise(room: ClerkRoom, arguments: Mapping[str, Any]) -> Rows:
    """Each source in a few sentences.

    Arguments are `sources`, `sentences`, `words`, `share`, `by_chapter`, `language`, `vectors`
    (weigh sentences by the embedding model as well) and `model` (one that writes).
    """
    from anyrig.app.summarise import summary_to_json
    from anyrig.documents.summarise.extract import Length
    from anyrig.documents.summarise.files import summarise_files

    sources = clerk_models.given(arguments)
    length = Length(arguments["sentences"], arguments["words"], arguments["share"])
    scribe = _scribe(room, arguments["model"]) if arguments["model"] else None
    found = summarise_files(
        clerk_models.read(room, sources, arguments.get("ocr")),
        length=length, limits=clerk_models.limits(room), by_chapter=arguments["by_chapter"],
        language=arguments["language"], scribe=(lambda: scribe) if scribe is not None else None,
        vectors=(lambda: clerk_models.vectors(room)) if arguments["vectors"] else None,
    )  # fmt: skip
    rows: Rows = []
    for source, one in zip(sources, found, strict=True):
        if one.error is not None:
            rows.append(_wrong(source, one.error))
            continue
        rows.append({"result": {
            "summaries": [summary_to_json(two) for two in one.summaries],
            "warnings": list(one.warnings),
        }})  # fmt: skip
    return rows


def _scribe(room: ClerkRoom, word: str) -> Scribe:
    """A model that writes, loaded."""
    from anyrig.documents.summarise.writer import find

    place = clerk_models.allowed(room.context, word)
    writer = find(place, models=room.context.folders.models)

    def load() -> AbstractContextManager[Scribe]:
        from anyrig.documents.summarise.write import Scribe
        from anyrig.memory.known_sizes import KnownBatchSizes

        context = room.context
        placed = compute.placed(context, context.choose(), writer.need())
        return Scribe(
            writer, placed=placed, environment=context.environment,
            limits=KnownBatchSizes(context.folders.batch_limits),
        )  # fmt: skip

    return room.keep(f"summaries {Path(str(place)).name}", load, version=str(place))


# -- an analysis -----------------------------------------------------------------------------------


def analyse(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What sources hold, each and together: `sources`, `title`, `vectors`, `model`, `seed`, `html`.

    With `html` the whole is a page that needs no network.
    """
    from anyrig.app.analyse import analysis_to_json
    from anyrig.documents.analyse.files import analyse_files
    from anyrig.documents.analyse.report import html
    from anyrig.documents.reading import Unread

    sources = clerk_models.given(arguments)
    # Names are shown, so files go by the names that their senders gave them.
    named = {_unlike(number, one.name): one for number, one in enumerate(sources)}

    def read(paths: Sequence[Path]) -> Iterator[Paged | Unread]:
        order = [named[path] for path in paths]
        for path, found in zip(
            paths, clerk_models.read(room, order, arguments.get("ocr")), strict=True
        ):
            if isinstance(found, Unread):
                found = replace(found, message=named[path].told(found.message))
            yield replace(found, file=path)

    def model(languages: Mapping[str, float]) -> Vectors:
        return clerk_models.vectors(room, arguments["model"], shares=languages)

    found = analyse_files(
        list(named), read=read, title=arguments["title"], seed=arguments["seed"],
        model=model if arguments["vectors"] else None,
    )  # fmt: skip
    if not found.docs:
        first = found.left[0]
        raise InvalidInputError(
            f"{first.name}: {first.why}", hint=first.hint or "Give files with text."
        )
    result = analysis_to_json(found)
    for one in result["documents"]:
        one.pop("path")
    result["failed"] = [
        {"name": one.name, "error": one.why, "hint": one.hint} for one in found.left
    ]
    return {"html": html(found)} if arguments["html"] else result


def _unlike(number: int, name: str) -> Path:
    """A path that no other source has and whose last part is the name."""
    return Path(str(number)) / (name.replace("/", "_").replace("\0", "") or "document")
