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
from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError, error_to_dict

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
    from anyrig.cli.classify_show import plain
    from anyrig.documents.classify.decide import Ways
    from anyrig.services import classify as service

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

    asked = [service.Source(one.name, file=one.file or Path(one.name)) for one in sources]
    rows: Rows = []
    for source, one in zip(
        sources, service.classify(asked, chooser, vectors, read, ways), strict=True
    ):
        if one.error is not None:
            rows.append(_wrong(source, one.error))
        else:
            row = plain(one)
            row["warnings"] = [*advice, *row["warnings"]]
            rows.append({"result": {k: v for k, v in row.items() if k not in ("name", "file")}})
    return rows


def _is_unread(one: Paged | Unread) -> bool:
    from anyrig.documents.reading import Unread

    return isinstance(one, Unread)


def _chooser(
    room: ClerkRoom, arguments: Mapping[str, Any], texts: Sequence[str]
) -> tuple[Chooser, Vectors]:
    from anyrig.documents.classify import shelf
    from anyrig.documents.classify.labels import Label, checked
    from anyrig.documents.classify.zero import TEMPLATES, ByName
    from anyrig.services.classify import fitting

    if arguments.get("classifier"):
        head = shelf.open_(room.context.folders.classifiers, arguments["classifier"])
        if arguments["multi"] and head.kind == "one":
            raise InvalidInputError(
                f"{head.about.title} gives one label to a text",
                hint="Train it from examples that have several, or leave multi out.",
            )
        vectors = clerk_models.vectors(room, head.about.word, texts, trusted=True)
        return fitting(head, vectors), vectors
    parts = [one.partition(":") for one in arguments["labels"]]
    named = checked(Label(" ".join(a.split()), " ".join(c.split())) for a, _, c in parts)
    templates = tuple(arguments.get("templates") or TEMPLATES)
    for template in templates:
        if "{}" not in template:
            raise InvalidInputError(
                f"{template!r} has no place for a label", hint="Write {} in it."
            )
    vectors = clerk_models.vectors(room, arguments["model"], texts)
    kind: Any = "many" if arguments["multi"] else "one"
    return ByName(named, vectors, kind=kind, templates=templates), vectors


# -- entities --------------------------------------------------------------------------------------


def entities(room: ClerkRoom, arguments: Mapping[str, Any]) -> Rows:
    """What each source names: `sources`, `kinds`, `language`, `engine`, `unchecked`, `distinct`."""
    from anyrig.documents.entities.entity import kinds_of
    from anyrig.documents.entities.names import nameless
    from anyrig.services.entities import Source, find

    kinds = kinds_of(arguments["kinds"]) if arguments.get("kinds") else None
    finder = _finder(room, arguments["engine"], kinds, arguments["unchecked"])
    sources = clerk_models.given(arguments)
    from anyrig.cli import reading

    mode = reading.mode(room.options(ocr=arguments.get("ocr")))
    pictures = mode != "never" and any(one.file is not None for one in sources)
    found = find(
        [Source(one.name, one.file, one.text) for one in sources], finder,
        language=arguments["language"], limits=clerk_models.limits(room), mode=mode,
        ocr=clerk_models.ocr_reads(room) if pictures else None,
    )  # fmt: skip
    rows: Rows = []
    for source, one in zip(sources, found, strict=True):
        if one.error:
            kind = LimitExceededError if one.past_limit else InvalidInputError
            rows.append(_wrong(source, kind(one.error, hint=one.hint)))
            continue
        wanted = [e for e in one.entities if kinds is None or e.entity.kind in kinds]
        names = kinds is None or any(kind in kinds for kind in ("person", "organisation", "place"))
        without = one.nameless if names and arguments["engine"] != "grammar" else ()
        rows.append({"result": {
            "entities": _listed(wanted) if arguments["distinct"] else [e.plain() for e in wanted],
            "languages": list(one.languages),
            "warnings": [*one.warnings, *(
                nameless(finder.namer, language) for language in without
            )],
        }})  # fmt: skip
    return rows


def _listed(found: Sequence[Any]) -> Rows:
    """Each thing once, with how often."""
    from anyrig.documents.entities.listing import listed

    pages = {one.entity: one for one in found}
    return [
        {**pages[one.first].plain(), "count": one.count}
        for one in listed(one.entity for one in found)
    ]


def _finder(room: ClerkRoom, engine: str, kinds: Sequence[str] | None, unchecked: bool) -> Finder:
    """What finds them. All kinds are looked for: so one process serves whatever is asked."""
    from anyrig.documents.entities.finder import Finder, wants_names
    from anyrig.documents.entities.names import choose

    namer = choose(engine)
    if namer is None or not wants_names(namer, kinds):
        name = f"entities by rule{', unchecked numbers too' if unchecked else ''}"
        return room.keep(name, lambda: Finder(None, unchecked=unchecked))

    def load() -> AbstractContextManager[Finder]:
        from anyrig.devices.choose import DeviceRequest
        from anyrig.devices.choose import choose_device as device
        from anyrig.memory.known_sizes import KnownBatchSizes

        context = room.context
        cpu = device(context.machine, (DeviceRequest("cpu", "flag"),))
        placed = compute.placed(context, cpu, replace(namer.need, most_workers=1))
        return Finder(
            namer, placed=placed, environment=context.environment,
            limits=KnownBatchSizes(context.folders.batch_limits), unchecked=unchecked,
        )  # fmt: skip

    also = ", unchecked numbers too" if unchecked else ""
    return room.keep(f"entities by {namer.name}{also}", load)


# -- summaries -------------------------------------------------------------------------------------


def summarise(room: ClerkRoom, arguments: Mapping[str, Any]) -> Rows:
    """Each source in a few sentences.

    Arguments are `sources`, `sentences`, `words`, `share`, `by_chapter`, `language`, `vectors`
    (weigh sentences by the embedding model as well) and `model` (one that writes).
    """
    from anyrig.cli.summarise import plain_summary
    from anyrig.documents.summarise.extract import Length
    from anyrig.services.summarise import summarise as service

    sources = clerk_models.given(arguments)
    length = Length(arguments["sentences"], arguments["words"], arguments["share"])
    scribe = _scribe(room, arguments["model"]) if arguments["model"] else None
    found = service(
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
            "summaries": [{"title": two.title, **plain_summary(two.summary)} for two in one.told],
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
    from anyrig.cli.analyse_show import plain
    from anyrig.documents.analyse.report import html
    from anyrig.documents.reading import Unread
    from anyrig.services.analyse import analyse as service

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

    found = service(
        list(named), read=read, title=arguments["title"], seed=arguments["seed"],
        model=model if arguments["vectors"] else None,
    )  # fmt: skip
    if not found.docs:
        first = found.left[0]
        raise InvalidInputError(
            f"{first.name}: {first.why}", hint=first.hint or "Give files with text."
        )
    result = plain(found)
    for one in result["documents"]:
        one.pop("path")
    result["failed"] = [
        {"name": one.name, "error": one.why, "hint": one.hint} for one in found.left
    ]
    return {"html": html(found)} if arguments["html"] else result


def _unlike(number: int, name: str) -> Path:
    """A path that no other source has and whose last part is the name."""
    return Path(str(number)) / (name.replace("/", "_").replace("\0", "") or "document")
