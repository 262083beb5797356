"""What documents hold, each and together: languages, phrases, duplicates, clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.documents import (
    FailedFile,
    SourceOptions,
    list_sources,
    name_texts,
    read_sources,
)
from anyrig.app.embedding import EmbeddingOptions, find_model, open_vectors
from anyrig.app.files import check_writable
from anyrig.documents.reading import TextSource
from anyrig.errors import InvalidInputError
from anyrig.events import OnEvent, ProgressEvent
from anyrig.options import option
from anyrig.text.sandbox import ReadError

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.analyse.folder import AnalysedDocument, Analysis
    from anyrig.documents.analyse.phrases import KeyPhrase
    from anyrig.documents.protocol import Vectors
    from anyrig.text.document import Document


@dataclass(frozen=True, kw_only=True)
class AnalyseRequest(EmbeddingOptions, SourceOptions):
    """Analysis."""

    files: tuple[Path, ...] = option(
        help="folders and files", positional=True, metavar="FOLDER", http=False
    )
    output: Path | None = option(
        None, "write the report to this file: .html", short="-o", http=False, metavar="FILE"
    )
    similar: Path | None = option(
        None, "also list the documents that are most similar to this one", http=False,
        metavar="FILE",
    )  # fmt: skip
    file_names: tuple[str, ...] = option(
        (), "what the files are called in the result, if not by their own names", flag=False,
        http=False,
    )  # fmt: skip
    title: str = option("", "title of the report")
    no_vectors: bool = option(False, "compare documents by words only; faster")
    seed: int = option(0, "random seed of the clustering")


def analyse(rig: Rig, request: AnalyseRequest, on_event: OnEvent) -> Analysis:
    """Analyse documents; files that cannot be read are listed in the result."""
    from anyrig.documents.analyse.folder import analyse_files
    from anyrig.documents.analyse.report import html
    from anyrig.storage.files import write_atomic

    if request.output is not None:
        check_writable(request.output, (".html", ".htm"), new_folder=True)
    if request.similar is not None and not request.similar.is_file():
        raise InvalidInputError(
            f"no such file: {request.similar}", hint="Give the path of a document."
        )
    sources = _list_sources(request, on_event)
    places = request.files
    with ExitStack() as stack:

        def read(paths: Sequence[Path]) -> Iterator[Document | ReadError]:
            some = [sources.get(path) or TextSource(str(path), path) for path in paths]
            for path, (one, found) in zip(paths, read_sources(rig, request, some), strict=True):
                if isinstance(found, ReadError) and one.file is not None:
                    message = found.error.message.replace(one.file.name, path.name)
                    error = InvalidInputError(message, hint=found.error.hint)
                    found = replace(found, error=error)
                yield replace(found, path=path)

        def open_model(languages: Mapping[str, float]) -> Vectors:
            model = find_model(rig, request, languages, on_event)
            return stack.enter_context(open_vectors(rig, request, model, on_event))

        found = analyse_files(
            list(sources),
            read=read,
            root=places[0] if len(places) == 1 and places[0].is_dir() else None,
            title=request.title,
            model=None if request.no_vectors else open_model,
            similar_to=request.similar,
            seed=request.seed,
            on_step=lambda step, done, total: on_event(
                ProgressEvent("analysing", done, total, step)
            ),
        )
    if request.output is not None and found.docs:
        write_atomic(request.output, html(found))
    return found


def _list_sources(request: AnalyseRequest, on_event: OnEvent) -> dict[Path, TextSource]:
    """Texts and files, by the path whose last part is shown for each."""
    if not request.file_names:
        sources = list_sources(request, on_event, "analyse")
    else:
        files = zip(request.file_names, request.files, strict=True)
        sources = name_texts(request.texts, request.names)
        sources += [TextSource(name, file) for name, file in files]
    if not request.texts and not request.file_names:
        return {one.file: one for one in sources if one.file is not None}
    names = [one.name.replace("/", "_").replace("\0", "") or "document" for one in sources]
    return {Path(str(number), name): sources[number] for number, name in enumerate(names)}


def list_failed(found: Analysis) -> list[FailedFile]:
    """The files that could not be read."""
    return [FailedFile(one.name, one.error) for one in found.left]


def analysis_to_json(found: Analysis) -> dict[str, Any]:
    name = [doc.facts.name for doc in found.docs]
    return {
        "title": found.title,
        "model": found.model or None,
        "num_documents": len(found.docs),
        "num_words": sum(doc.statistics.num_words for doc in found.docs),
        "languages": {one.language: round(one.share, 4) for one in found.languages},
        "phrases": [_phrase_to_json(one) for one in found.phrases],
        "clusters": [
            {"name": one.name, "phrases": list(one.phrases),
             "files": [name[n] for n in one.members]}
            for one in found.clustering.clusters
            if found.clustering.stands_out
        ],
        "silhouette": round(found.clustering.silhouette, 4),
        "duplicates": [
            {
                "file": name[group.first],
                "exact": group.exact,
                "copies": [
                    {
                        "file": name[one.index], "similarity": round(one.similarity, 4),
                        "exact": one.exact, "num_changes": one.num_changes,
                        "changes": [asdict(change) for change in one.changes],
                    }
                    for one in group.members
                ],
            }
            for group in found.groups
        ],
        "documents": [_document_to_json(found, doc) for doc in found.docs],
        "similar": _similar_to_json(found, name),
    }  # fmt: skip


def _similar_to_json(found: Analysis, name: list[str]) -> dict[str, Any] | None:
    if found.similar_to is None:
        return None
    rows = [{"file": name[index], "cosine": round(alike, 4)} for index, alike in found.similar]
    return {"to": name[found.similar_to], "files": rows}


def _phrase_to_json(one: KeyPhrase) -> dict[str, Any]:
    return {"text": one.text, "score": round(one.score, 4), "count": one.count}


def _document_to_json(found: Analysis, doc: AnalysedDocument) -> dict[str, Any]:
    statistics = asdict(doc.statistics)
    return {
        "file": doc.facts.name,
        "path": str(doc.facts.path),
        "format": doc.facts.format,
        "num_bytes": doc.facts.num_bytes,
        "date": doc.facts.day or None,
        "dated_by": doc.facts.dated_by or None,
        "num_pages": doc.facts.num_pages,
        "read_by": doc.facts.read_by,
        "language": doc.language,
        "languages": {one.language: round(one.share, 4) for one in doc.languages},
        "phrases": [_phrase_to_json(one) for one in doc.phrases],
        "cluster": found.clustering.clusters[doc.cluster].name
        if found.clustering.stands_out
        else None,
        "place": [round(side, 4) for side in doc.place],
        "warnings": list(doc.facts.warnings),
        **{
            key: round(one, 4) if isinstance(one, float) else one for key, one in statistics.items()
        },
    }
