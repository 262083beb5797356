"""Indexes: searched, listed, looked into, and deleted for good; and the trained classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.access import Client, is_shared
from anyrig.app.ask import AskRequest
from anyrig.app.search import SearchRequest, SimilarRequest
from anyrig.errors import LimitExceededError
from anyrig.server.auth import get_client
from anyrig.server.documents import DocumentTasks, Source, build_results, run_few
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.request_models import EXAMPLE_UPLOAD, MAX_FILES, Texts, Upload, build_model
from anyrig.server.routes.documents import TaskRoute, add_form_route, answer
from anyrig.server.uploads import IndexFiles, view_response

_MAX_SEARCHES = 4
"""Of one request at a time."""
_PASSAGES = 64
_BYTES = {"type": "string", "format": "binary"}
_Name = Annotated[str, Path(min_length=1, max_length=64, examples=["letters"])]
_File = Annotated[str, Query(min_length=1, max_length=4000, description="As a hit has it.")]


# -- what is asked ---------------------------------------------------------------------------------

_FILTERS = "folders=folder types=type languages=language after before"
_SEARCH = f"{_FILTERS} index mode limit per_file=files all least=min"

SearchBody = build_model(
    "SearchBody", SearchRequest, f"{_SEARCH} question",
    example={"index": "letters", "question": "when is the rent due"},
)  # fmt: skip
SearchBatchBody = build_model(
    "SearchBatchBody", SearchRequest, _SEARCH,
    example={"index": "letters", "questions": ["when is the rent due", "who is the owner"]},
    questions=(
        list[Annotated[str, Field(min_length=1, max_length=10_000)]],
        Field(min_length=1, max_length=100),
    ),
)  # fmt: skip
AskBody = build_model(
    "AskBody", AskRequest, f"{_FILTERS} index passages question",
    example={"index": "letters", "question": "when is the rent due"},
)  # fmt: skip
_SIMILAR = f"{_FILTERS} index limit model ocr"
SimilarOptions = build_model("SimilarOptions", SimilarRequest, _SIMILAR)
SimilarBody = build_model(
    "SimilarBody", SimilarRequest, f"{_SIMILAR} to_text", one_of=("to_text", "to_file"),
    example={"to_text": "The landlord may raise the rent once a year.", "index": "letters"},
    to_file=(Upload | None, Field(None, description="either this or `to_text`")),
    texts=(Texts, Field([], description="texts to compare with it, instead of an index")),
    files=(list[Upload], Field([], max_length=MAX_FILES, description="files to compare with it")),
)  # fmt: skip


class RemoveBody(BaseModel):
    """Files to remove from an index for good."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"files": [EXAMPLE_UPLOAD]}]}
    )

    files: list[Annotated[str, Field(min_length=1, max_length=4000)]] = Field(
        min_length=1, max_length=1000,
        description="As the index lists them: `upload:ID`, or a path of the index.",
    )  # fmt: skip
    uploads: bool = Field(True, description="Delete the uploads among them as well.")


# -- what is answered ------------------------------------------------------------------------------


class SearchHit(BaseModel):
    """A passage that was found."""

    name: str = Field(description="The name of the file.")
    file: str = Field(description="`upload:ID`, or its path.")
    url: str | None = Field(
        description="Where the file can be opened; null for a path outside of `server.folders`."
    )
    score: float
    similarity: float | None
    text: str
    sentence: list[int] | None = Field(description="The best sentence: from, to, in the text.")
    matches: list[list[int]] = Field(description="What to highlight: from, to, in the text.")
    page: int | None
    title: str
    start: int = Field(description="In the page, in characters.")
    end: int
    file_start: int = Field(description="In the text of the file.")
    file_end: int
    type: str
    language: str
    changed: str
    also: list[dict[str, Any]] = Field(description="Other places with the same text.")
    more_passages: int


class SearchAnswer(BaseModel):
    """The result of a search."""

    question: str
    index: str
    words: list[str] = Field(description="What was searched word by word.")
    hits: list[SearchHit]
    nearest: SearchHit | None = Field(description="The nearest passage, if none is near enough.")
    unmatched: int
    notes: list[str]


class SearchAnswers(BaseModel):
    """The results of several searches, in the order of the questions."""

    results: list[SearchAnswer]


class AskAnswer(BaseModel):
    """An answer, and the passages it is from."""

    question: str
    index: str
    answer: str = Field(
        description="With citations, such as [2]; empty if no passage answers the question."
    )
    method: str = Field(
        description="`llm`: by the language model of `documents.llm`; `extract`: sentences as they "
        "stand; `none`."
    )
    model: str
    cited: list[int] = Field(description="Numbers of the passages that are cited, from 1.")
    passages: list[SearchHit]
    notes: list[str]


class SimilarSource(BaseModel):
    """One of the sources that were compared."""

    name: str
    file: str | None = None
    similarity: float


class SimilarAnswer(BaseModel):
    """What is most similar: hits of an index, or sources that were given."""

    to: str
    index: str | None = None
    hits: list[SearchHit] = []
    model: str | None = None
    similar: list[SimilarSource] = []
    failed: list[dict[str, Any]] = []


class IndexInfo(BaseModel):
    """An index and its figures."""

    name: str
    model: str
    dimension: int
    folders: list[dict[str, Any]]
    files: int
    passages: int
    vectors: int
    ocr_pages: int
    types: dict[str, int]
    languages: dict[str, int]
    failed: list[dict[str, Any]]
    size_bytes: int
    pending: int = Field(0, description="Files that the last run has found and not finished.")
    indexing: bool = Field(False, description="Whether a process is at work on it.")


class IndexList(BaseModel):
    indexes: list[IndexInfo]
    failed: list[dict[str, Any]] = Field(description="Indexes that cannot be read.")


class IndexedFile(BaseModel):
    """A file of an index."""

    name: str
    file: str
    size: int
    ocr_pages: int
    error: str
    hint: str


class IndexedFileList(BaseModel):
    """Some of the files of an index."""

    index: str
    total: int
    files: list[IndexedFile]


class TextParagraph(BaseModel):
    text: str
    start: int = Field(description="In the text of the file, in characters.")
    heading: bool


class FileText(BaseModel):
    """A part of the text of a file: a chapter, a page or a message, or a piece of a long one."""

    name: str
    url: str = Field(description="Where the file itself is.")
    part: int = Field(description="From 1.")
    num_parts: int
    type: str
    language: str = Field(description="As the file says; may be empty.")
    title: str = Field(description="Of the chapter or message.")
    page: int | None
    start: int | None = Field(
        description="Where the passage begins in the text of the file; null if it was not found."
    )
    blocks: list[TextParagraph]


class RemovedFiles(BaseModel):
    """What was deleted for good."""

    index: str
    files: list[str]
    passages: int
    cached: int = Field(description="Vectors and pages that were cached of them.")
    uploads: list[str] = Field(
        description="Uploads that were deleted with it: those that no other index holds, and no "
        "unfinished job needs."
    )
    clean: bool = Field(description="False if another process still reads; its end clears it.")


class ClassifierInfo(BaseModel):
    """A trained classifier."""

    name: str
    version: int
    title: str
    labels: list[str]
    kind: str
    examples: int
    embedding: str
    made: str
    figures: dict[str, Any] | None


class ClassifierList(BaseModel):
    classifiers: list[ClassifierInfo]


# -- the routes ------------------------------------------------------------------------------------


def router(tasks: DocumentTasks) -> APIRouter:
    routes = APIRouter(route_class=JsonRoute)
    find_index = tasks.index_files.find_index
    _add_search(routes, tasks)
    _add_reading(routes, tasks)

    @routes.get("/indexes", summary="List indexes", response_model=IndexList)
    async def indexes(request: Request) -> Response:
        """Each with its folders, model and figures, and what could not be read."""
        return await answer(request, _list_indexes(tasks, get_client(request)))

    @routes.get("/indexes/{name}", summary="One index", response_model=IndexInfo,
                responses=problem_responses(404))  # fmt: skip
    async def index(request: Request, name: _Name) -> Response:
        client = get_client(request)
        stored = await to_thread.run_sync(find_index, client, name)
        return await answer(request, _find_index(tasks, client, stored))

    @routes.get("/indexes/{name}/files", summary="The files of an index",
                response_model=IndexedFileList, responses=problem_responses(404))  # fmt: skip
    async def files(
        request: Request,
        name: _Name,
        start: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """In the order of their paths; those that could not be read have the reason."""
        stored = await to_thread.run_sync(find_index, get_client(request), name)
        given = {"index": stored, "start": start, "limit": limit}

        async def list_files() -> dict[str, Any]:
            found = await tasks.ask("index_files", given)
            await to_thread.run_sync(tasks.index_files.add_names, found["files"])
            return {"index": name, **found}

        return await answer(request, list_files())

    @routes.delete("/indexes/{name}", summary="Delete an index permanently",
                   response_model=RemovedFiles, responses=problem_responses(404, 409))  # fmt: skip
    async def delete(
        request: Request,
        name: _Name,
        uploads: Annotated[bool, Query(description="Delete the uploads in it as well.")] = True,
    ) -> Response:
        """With the vectors and pages that are cached of its texts. Files of folders stay."""
        work = _remove(tasks, get_client(request), name, "index_delete", uploads=uploads)
        return await answer(request, work)

    @routes.post("/indexes/{name}/remove", summary="Remove files from an index permanently",
                 response_model=RemovedFiles, responses=problem_responses(404))  # fmt: skip
    async def remove(request: Request, name: _Name, body: RemoveBody) -> Response:
        """From the index, from its file's bytes, and from what is cached of them."""
        files = tasks.index_files.check_names(body.files)
        work = _remove(
            tasks, get_client(request), name, "index_remove", uploads=body.uploads, files=files
        )
        return await answer(request, work)

    @routes.get("/classifiers", summary="List trained classifiers", response_model=ClassifierList)
    async def classifiers(request: Request) -> Response:
        """With their labels and the results of cross-validation."""
        client = get_client(request)

        async def list_classifiers() -> dict[str, Any]:
            found = await tasks.ask("classifiers", {})
            return {"classifiers": [o for o in found if is_shared(tasks.server, client, o["name"])]}

        return await answer(request, list_classifiers())

    return routes


def _add_search(routes: APIRouter, tasks: DocumentTasks) -> None:
    async def search(request: Request, body: Any) -> Response:
        """By meaning and by words; each hit has its place and what to highlight in it."""
        found = _search(tasks, get_client(request), body.question, body)
        return await answer(request, found)

    async def ask(request: Request, body: Any) -> Response:
        """From the passages of an index, with citations."""
        return await answer(request, _ask(tasks, get_client(request), body))

    async def search_batch(request: Request, body: Any) -> Response:
        """The answers in the order of the questions."""
        client = get_client(request)

        async def search_all() -> dict[str, Any]:
            calls = [partial(_search, tasks, client, one, body)
                     for one in body.questions]  # fmt: skip
            return {"results": await run_few(calls, _MAX_SEARCHES)}

        return await answer(request, search_all())

    async def similar(request: Request, body: Any) -> Response:
        """In an index; or among texts and files, if some are given."""
        client = get_client(request)
        (to,) = await tasks.find_sources(
            client, [body.to_text] if body.to_text else [], [body.to_file] if body.to_file else []
        )
        among = await tasks.find_sources(client, body.texts, body.files)
        given = body.read_given()
        given.pop("to_text", None)
        return await answer(request, _find_similar(tasks, client, to, among, given))

    problems = problem_responses(404, 501)
    for path, summary, run, body, result in (
        ("/search", "Search an index", search, SearchBody, SearchAnswer),
        ("/search/batch", "Search an index for several questions", search_batch, SearchBatchBody,
         SearchAnswers),
        ("/ask", "Answer a question from an index", ask, AskBody, AskAnswer),
        ("/similar", "Find what is most similar to a text or a file", similar, SimilarBody,
         SimilarAnswer),
    ):  # fmt: skip
        run.__annotations__["body"] = body
        routes.post(path, summary=summary, response_model=result, responses=problems)(run)
    add_form_route(routes, tasks, TaskRoute(
        "similar", "What is most similar to the first file: among the others, or in an index", "",
        SimilarOptions, SimilarAnswer, _find_similar_to_first, {},
    ))  # fmt: skip


def _add_reading(routes: APIRouter, tasks: DocumentTasks) -> None:
    def find_file(client: Client, name: str, file: str) -> tuple[FilePath, str]:
        stored = tasks.index_files.find_index(client, name)
        return tasks.index_files.find_file(client, stored, file)

    @routes.get(
        "/indexes/{name}/content", summary="Open a file of an index", response_class=FileResponse,
        responses={
            200: {"content": {"application/octet-stream": {"schema": _BYTES}}},
            **problem_responses(404, 416),
        },
    )  # fmt: skip
    async def content(request: Request, name: _Name, file: _File) -> Response:
        """Browsers show PDFs, images and plain text; other files are saved."""
        path, title = await to_thread.run_sync(find_file, get_client(request), name, file)
        return await view_response(request, path, title)

    @routes.get("/indexes/{name}/text", summary="Read a file of an index",
                response_model=FileText, responses=problem_responses(404, 422))  # fmt: skip
    async def text(
        request: Request,
        name: _Name,
        file: _File,
        start: Annotated[int, Query(ge=0, le=10**9, description="`file_start` of a hit.")] = 0,
        words: Annotated[
            str, Query(max_length=1000, description="How the text of the hit begins.")
        ] = "",
        part: Annotated[
            int | None, Query(ge=1, le=10**9, description="Another part than that of the hit.")
        ] = None,
    ) -> Response:
        """The part of its text that has a passage; for files that browsers do not show."""
        path, title = await to_thread.run_sync(find_file, get_client(request), name, file)
        given = {"file": str(path), "start": start, "words": words, "part": part}

        async def read() -> dict[str, Any]:
            sources = [Source(title, path=path)]
            found = await tasks.ask("read", given, lane="bulk", sources=sources)
            url = tasks.index_files.build_url(name, file)
            return {"name": title, "url": url, **found}

        return await answer(request, read())


async def _search(tasks: DocumentTasks, client: Client, question: str, body: Any) -> dict[str, Any]:
    stored = await to_thread.run_sync(tasks.index_files.find_index, client, body.index)
    given = {**body.read_given(), "index": stored, "question": question}
    found = await tasks.ask("search", given)
    hits = [*found["hits"], *([found["nearest"]] if found["nearest"] else [])]
    await to_thread.run_sync(_describe_hits, tasks.index_files, client, body.index, hits)
    return {"question": question, "index": body.index, **found}


async def _ask(tasks: DocumentTasks, client: Client, body: Any) -> dict[str, Any]:
    stored = await to_thread.run_sync(tasks.index_files.find_index, client, body.index)
    found = await tasks.ask("ask", {**body.read_given(), "index": stored})
    await to_thread.run_sync(
        _describe_hits, tasks.index_files, client, body.index, found["passages"]
    )
    return {**found, "index": body.index}


def _describe_hits(
    index_files: IndexFiles, client: Client, index: str, hits: Sequence[dict[str, Any]]
) -> None:
    index_files.add_names(hits)
    index_files.add_urls(client, index, hits)


async def _find_similar_to_first(
    tasks: DocumentTasks, client: Client, sources: Sequence[Source], options: Any
) -> dict[str, Any]:
    given = options.read_given()
    return await _find_similar(tasks, client, sources[0], sources[1:], given)


async def _find_similar(
    tasks: DocumentTasks,
    client: Client,
    to: Source,
    among: Sequence[Source],
    given: Mapping[str, Any],
) -> dict[str, Any]:
    if among:
        return await _compare(tasks, to, among, given)
    index = given.get("index", "default")
    stored = await to_thread.run_sync(tasks.index_files.find_index, client, index)
    if to.path is not None:
        to = await _read_text(tasks, to, given)
    found = await tasks.ask("similar", {**given, "index": stored, "to_text": to.text})
    await to_thread.run_sync(_describe_hits, tasks.index_files, client, index, found["hits"])
    return {"to": to.name, "index": index, "hits": found["hits"]}


async def _read_text(tasks: DocumentTasks, file: Source, given: Mapping[str, Any]) -> Source:
    """A file's text, read by the worker for long work: the other one, with the index, is quick.

    Only some of its passages, spread over it, as they stand for a long file as well.
    """
    options = {name: given[name] for name in ("ocr",) if name in given}
    rows = await tasks.run_each("passages", [file], options)
    passages = build_results(rows)["results"][0]["result"]["passages"]
    some = passages[:: 1 + len(passages) // _PASSAGES]
    return Source(file.name, "\n\n".join(passage["text"] for passage in some))


async def _compare(
    tasks: DocumentTasks, to: Source, among: Sequence[Source], given: Mapping[str, Any]
) -> dict[str, Any]:
    if len(among) > MAX_FILES:
        raise LimitExceededError(
            f"{len(among)} sources to compare", hint=f"Send at most {MAX_FILES} at a time."
        )
    subject = {"to_text": to.text} if to.path is None else {"to_file": str(to.path)}
    sources = {
        "texts": [one.text for one in among if one.path is None],
        "files": [str(one.path) for one in among if one.path is not None],
    }
    found = await tasks.ask("similar", {**given, **subject, **sources}, lane="bulk", sources=[to])
    for row in (*found["similar"], *found["failed"]):
        source = among[row.pop("number")]
        row |= {"name": source.name, "file": source.upload or None}
        row |= {key: source.rename(row[key]) for key in ("error", "hint") if key in row}
    return {"to": to.name, **found}


async def _list_indexes(tasks: DocumentTasks, client: Client) -> dict[str, Any]:
    found = await tasks.ask("indexes", {})
    return await to_thread.run_sync(_show_indexes, tasks.index_files, client, found)


def _show_indexes(
    index_files: IndexFiles, client: Client, found: Mapping[str, Any]
) -> dict[str, Any]:
    """The indexes that a client may see, by its own names for them and for its uploads."""
    indexes = []
    for one in found["indexes"]:
        name = index_files.show_name(client, one.pop("index"))
        if name is not None:
            del one["path"]
            folders = [{"file": row["path"], "files": row["files"]} for row in one["folders"]]
            index_files.add_names([*folders, *one["failed"]])
            folders = [{"path": row.pop("file"), **row} for row in folders]
            indexes.append({**one, "name": name, "folders": folders})
    failed = [{**one, "name": index_files.show_name(client, one["name"])}
              for one in found["failed"]]  # fmt: skip
    return {"indexes": indexes, "failed": [one for one in failed if one["name"] is not None]}


async def _find_index(tasks: DocumentTasks, client: Client, stored: str) -> Any:
    name = tasks.index_files.show_name(client, stored)
    for one in (await _list_indexes(tasks, client))["indexes"]:
        if one["name"] == name:
            return one
    raise Problem(422, "the index cannot be read", hint="GET /documents/indexes has the reason.")


async def _remove(
    tasks: DocumentTasks, client: Client, name: str, task: str, *, uploads: bool, **given: Any
) -> dict[str, Any]:
    """Done by a worker of its own, once the one that searches has closed the index."""
    find = partial(tasks.index_files.find_index, client, name, change=True)
    index = {"index": await to_thread.run_sync(find)}
    await tasks.ask("index_close", index)
    found = await tasks.ask(task, {**given, **index})
    if "busy" in found:
        raise Problem(409, found["busy"], hint="Cancel the job that fills it, or wait for it.")
    elsewhere = found.pop("elsewhere")
    paths = found["files"] if uploads else []
    deleted = await to_thread.run_sync(tasks.index_files.delete_uploads, client, paths, elsewhere)
    rows: list[dict[str, Any]] = [{"file": path} for path in found["files"]]
    await to_thread.run_sync(tasks.index_files.add_names, rows)
    return {"index": name, **found, "files": [row["file"] for row in rows], "uploads": deleted}
