"""Documents: vectors, labels, entities, summaries, OCR, an analysis; as JSON and as a form.

The form of a task takes files with the request and deletes them once it is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import time
import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    cast,
    get_args,
    get_origin,
)

import anyio
from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field, ValidationError, create_model, model_validator
from starlette.types import Receive, Scope, Send

from anyrig.app.access import Client, current_client, is_shared
from anyrig.app.analyse import AnalyseRequest
from anyrig.app.classify import ClassifyRequest
from anyrig.app.documents import list_features
from anyrig.app.embedding import EmbedRequest
from anyrig.app.entities import EntitiesRequest
from anyrig.app.ocr import OcrRequest
from anyrig.app.summarise import SummariseRequest
from anyrig.errors import AnyrigError, OverloadedError
from anyrig.server.auth import get_client
from anyrig.server.documents import (
    DocumentTasks,
    Source,
    build_results,
    build_success,
    build_timeout,
    run_while_connected,
    to_problem,
)
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute, dump
from anyrig.server.request_models import (
    EXAMPLE_UPLOAD,
    MAX_FILES,
    RequestModel,
    Texts,
    Upload,
    build_model,
)
from anyrig.server.state import ServerState
from anyrig.server.uploads import receive_form
from anyrig.server.waiting import wait_for_all
from anyrig.storage.files import make_folder

if TYPE_CHECKING:
    from concurrent.futures import Future

    from anyrig.app.uploads import Upload as StoredUpload
    from anyrig.documents.protocol import Use
    from anyrig.work.live import Lane

R = TypeVar("R")
_EMBED_SLICE, _EMBED_LIVE = 512, 64
"""Texts that are submitted to be embedded at a time; up to so many in all are in the live lane."""
_RETRY_S = 0.5
"""How often it is tried whether the queue has room again."""
_OLD_FILE_S = 3600.0
_MADE = "made"
"""Folder of the files that are sent and deleted."""


# -- what is asked ---------------------------------------------------------------------------------


class SourceFields(RequestModel):
    """Texts, files, or both: each has an outcome of its own."""

    texts: Texts = Field([], description="Each is answered on its own.")
    files: list[Upload] = Field(
        [], max_length=MAX_FILES, description="Files that were uploaded, as `upload:ID`."
    )

    @model_validator(mode="after")
    def _check_some(self) -> SourceFields:
        if not self.texts and not self.files:
            raise ValueError("there are neither texts nor files")
        return self


EmbedOptions = build_model(
    "EmbedOptions", EmbedRequest, "ocr model", help={"model": "as GET /v1/models lists it"},
    use=(Literal["passage", "query"], Field("passage", description="what the vectors are for")),
)  # fmt: skip
ClassifyOptions = build_model(
    "ClassifyOptions", ClassifyRequest,
    "ocr labels classifier multi other threshold pool templates=template model",
    one_of=("labels", "classifier"),
    help={"classifier": "a trained classifier, `bills` or `bills@2`, instead of labels"},
)  # fmt: skip
EntitiesOptions = build_model(
    "EntitiesOptions", EntitiesRequest, "ocr kinds language engine unchecked filter distinct",
    choices={"engine": ("auto", "grammar", "spacy")},
)  # fmt: skip
SummariseOptions = build_model(
    "SummariseOptions", SummariseRequest,
    "ocr sentences words share by_chapter language vectors model",
)  # fmt: skip
AnalyseOptions = build_model(
    "AnalyseOptions", AnalyseRequest, "ocr title model seed",
    vectors=(bool, Field(True, description="compare by an embedding model, not by words only")),
    format=(
        Literal["json", "html"],
        Field("json", description="html is a page with plots that needs no network"),
    ),
)  # fmt: skip
OcrOptions = build_model(
    "OcrOptions", OcrRequest, "language engine pages dpi always",
    format=(
        Literal["text", "json", "pdf"],
        Field("text", description="json has the boxes of lines and words; pdf is the file itself"
              " with its words, to be searched: one file per request"),
    ),
)  # fmt: skip


# -- what is answered ------------------------------------------------------------------------------


class TaskFailure(BaseModel):
    """Why one source could not be done."""

    status: int = Field(description="What the request would have been answered with, were it all.")
    title: str = Field(description="What went wrong.")
    hint: str = Field(description="What to do next.")


class TaskOutcome(BaseModel, Generic[R]):
    """What came of one text or file."""

    name: str = Field(description="`text 1`, or the name of the client's file.")
    file: str | None = Field(None, description="`upload:ID` where it was one.")
    result: R | None = None
    error: TaskFailure | None = None


class TaskResults(BaseModel, Generic[R]):
    """An outcome for each source, texts first, in their order.

    If all of them failed, the answer is the first one's problem instead.
    """

    results: list[TaskOutcome[R]]
    num_failed: int = 0


class EmbeddedPassage(BaseModel):
    """A passage and its vector."""

    text: str
    page: int = Field(description="From 1; 0 in a file without pages.")
    start: int = Field(description="In its page, in characters.")
    file_start: int = Field(description="In the text of the file.")
    title: str = ""
    vector: list[float]


class EmbeddedSource(BaseModel):
    """A text's vector, or a file's passages with theirs."""

    vector: list[float] | None = Field(None, description="Of a text.")
    passages: list[EmbeddedPassage] | None = Field(None, description="Of a file.")
    warnings: list[str] = []


class Classification(BaseModel):
    """The labels of a text."""

    label: str | None
    labels: list[str]
    probability: float
    probabilities: dict[str, float]
    calibrated: bool = Field(description="Whether probabilities were fitted to examples.")
    unknown_language: str | None = Field(
        None,
        description="Of the text, where the model was not trained on it: the label is a guess.",
    )
    passages: int
    reason: dict[str, Any] | None = Field(description="The passage that supports it most.")
    warnings: list[str]


class EntityRow(BaseModel):
    """An entity; further fields say what it means."""

    kind: str
    text: str
    start: int
    end: int
    source: str
    score: float
    page: int | None = None
    page_start: int | None = None
    count: int | None = Field(None, description="How often it stands there; with distinct.")
    pages: list[int] | None = Field(None, description="Where it stands; with distinct.")


class EntityRows(BaseModel):
    """The entities of a text."""

    entities: list[EntityRow]
    languages: list[str]
    warnings: list[str]


class OcrPage(BaseModel):
    """A page; with format=json also its lines and words with their boxes."""

    number: int
    source: str = Field(description="ocr, text (the file's own), or none.")
    text: str


class OcrText(BaseModel):
    """The text of a file."""

    format: str
    text: str
    pages: list[OcrPage]
    failed: list[dict[str, Any]]
    engine: str


class Summaries(BaseModel):
    """Summaries of a text, or of its chapters."""

    summaries: list[dict[str, Any]]
    warnings: list[str]


class AnalysisReport(BaseModel):
    """Analyse documents, each and together."""

    title: str
    model: str | None
    num_documents: int
    num_words: int
    languages: dict[str, float]
    phrases: list[dict[str, Any]]
    clusters: list[dict[str, Any]]
    duplicates: list[dict[str, Any]]
    documents: list[dict[str, Any]]
    failed: list[dict[str, Any]]


class FeatureRow(BaseModel):
    """Something that the work with documents needs."""

    name: Literal["ocr", "transcription", "names"]
    installed: bool
    reason: str = Field(description="What is missing; empty if it is installed.")
    fix: str = Field(description="The command that installs it.")


class FeatureList(BaseModel):
    features: list[FeatureRow]


# -- the routes ------------------------------------------------------------------------------------


Work = Callable[[DocumentTasks, Client, Sequence[Source], Any], Awaitable[Any]]
"""Who asks, sources and options to the answer: a response, or what is written as JSON."""


@dataclass(frozen=True)
class TaskRoute:
    """A task in its two forms: `/name` takes JSON, `/name/upload` a form with files."""

    name: str
    summary: str
    description: str
    options: type[RequestModel]
    result: Any
    work: Work
    example: Mapping[str, Any]
    """A body of the JSON form."""
    files_only: bool = False
    media_types: Mapping[str, Any] | None = None
    """Other ones of a good answer."""


def router(server: ServerState) -> APIRouter:
    from anyrig.server.routes import indexes

    _delete_old_files(server.data_folder / _MADE)
    routes = APIRouter(prefix="/documents", tags=["documents"], route_class=JsonRoute)
    tasks = DocumentTasks(server)
    for task in _list_tasks():
        add_json_route(routes, tasks, task)
        add_form_route(routes, tasks, task)
    routes.include_router(indexes.router(tasks))

    @routes.get("/features", summary="What is installed", response_model=FeatureList)
    async def features(
        language: Annotated[str, Query(pattern="^[a-z]{2,3}$", description="ISO 639-1.")] = "en",
    ) -> dict[str, Any]:
        """OCR, transcription, and the finding of names in a language; how to install the others."""
        found = await to_thread.run_sync(list_features, server.rig.environment, language)
        return {"features": [asdict(one) for one in found]}

    return routes


def _list_tasks() -> list[TaskRoute]:
    return [
        TaskRoute(
            "embed", "Vectors of texts and files",
            "A text has a vector; a file has one for each passage, with its place.",
            EmbedOptions, TaskResults[EmbeddedSource], _embed,
            {"texts": ["The rent is due on Monday."]},
        ),
        TaskRoute(
            "classify", "Labels of texts and files",
            "By the names of labels, which need no examples, or by a trained classifier.",
            ClassifyOptions, TaskResults[Classification], _classify,
            {"texts": ["Please pay 120 euros by the end of the month."],
             "labels": ["invoice: a bill to pay", "letter", "recipe"]},
        ),
        TaskRoute(
            "entities", "Entities in texts and files",
            "People, places, dates, amounts, and numbers that pass their check, with their places.",
            EntitiesOptions, TaskResults[EntityRows], partial(_run_each, "entities"),
            {"texts": ["John Brown paid 1,200 euros on 4 May 2026."]},
        ),
        TaskRoute(
            "summarise", "Summaries of texts and files",
            "Sentences of the text itself, with their places, or those of a model that writes.",
            SummariseOptions, TaskResults[Summaries], partial(_run_each, "summarise"),
            {"texts": ["The meeting was long. Nobody agreed. In the end the roof will be fixed."],
             "sentences": 1},
        ),
        TaskRoute(
            "analyse", "Analyse documents, each and together",
            "Languages, key phrases, near-duplicates, clusters.",
            AnalyseOptions, AnalysisReport, _analyse,
            {"texts": ["The first of two texts.", "The second of two texts."]},
            media_types={"text/html": {"schema": {"type": "string"}}},
        ),
        TaskRoute(
            "ocr", "The text of images and scanned PDFs",
            "Text, boxes of lines and words, or with format=pdf a PDF that can be searched.",
            OcrOptions, TaskResults[OcrText], _run_ocr,
            {"files": [EXAMPLE_UPLOAD], "format": "json", "language": "en"}, files_only=True,
            media_types={"application/pdf": {"schema": {"type": "string", "format": "binary"}}},
        ),
    ]  # fmt: skip


# -- the work of each ------------------------------------------------------------------------------


async def _run_each(
    name: str, tasks: DocumentTasks, client: Client, sources: Sequence[Source], options: Any
) -> Any:
    return build_results(await tasks.run_each(name, sources, options.read_given()))


async def _classify(
    tasks: DocumentTasks, client: Client, sources: Sequence[Source], options: Any
) -> Any:
    name = (options.classifier or "").partition("@")[0]
    if name and not is_shared(tasks.server, client, name):  # the answer is that of an unknown one
        raise Problem(400, f"classifier {name[:80]!r} not found",
                      hint="GET /documents/classifiers lists them.")  # fmt: skip
    return await _run_each("classify", tasks, client, sources, options)


async def _analyse(
    tasks: DocumentTasks, client: Client, sources: Sequence[Source], options: Any
) -> Any:
    texts = [one for one in sources if one.path is None]
    files = [one for one in sources if one.path is not None]
    is_html = options.format == "html"
    given = {
        **options.read_given(), "no_vectors": not options.vectors, "html": is_html,
        "texts": [one.text for one in texts], "names": [one.name for one in texts],
        "files": [str(one.path) for one in files], "file_names": [one.name for one in files],
    }  # fmt: skip
    found = await tasks.ask("analyse", given, lane="bulk", sources=files)
    return Response(found["html"], media_type="text/html") if is_html else found


async def _embed(
    tasks: DocumentTasks, client: Client, sources: Sequence[Source], options: Any
) -> dict[str, Any]:
    """Texts as they are, files by their passages; all go to the one embedder, with those of other
    clients.
    """
    given = options.read_given()
    model = given.pop("model", "")
    max_s = tasks.server.settings.work_s
    files = [one for one in sources if one.path is not None]
    rows, texts = [], []
    targets: list[dict[str, Any]] = []  # what gets a vector
    for source in sources:
        if source.path is None:
            targets.append({"vector": None, "passages": None, "warnings": []})
            texts.append(source.text)
            rows.append(build_success(source, targets[-1]))
    for row in await tasks.run_each("passages", files, given):
        rows.append(row)
        targets += row["result"]["passages"] if row["result"] else []
    texts += [target["text"] for target in targets[len(texts) :]]
    try:
        async with asyncio.timeout(max_s) as scope:
            vectors = await _embed_texts(tasks, texts, model, options.use)
    except AnyrigError as error:
        raise to_problem(error) from error
    except TimeoutError:
        if not scope.expired():
            raise
        raise build_timeout("embed", max_s) from None
    lists = await to_thread.run_sync(lambda: [vector.tolist() for vector in vectors])
    for target, vector in zip(targets, lists, strict=True):
        target["vector"] = vector
    return build_results(rows)


async def _embed_texts(
    tasks: DocumentTasks, texts: Sequence[str], model: str, use: Use
) -> list[Any]:
    """Any number of texts: as many at a time as may wait, so that others come in between."""
    limits, embedding = tasks.server.settings, tasks.server.embedding
    size = min(_EMBED_SLICE, limits.texts)
    lane: Lane = "live" if len(texts) <= _EMBED_LIVE else "bulk"
    found: list[Any] = []
    for start in range(0, len(texts), size):
        some = texts[start : start + size]
        submit = partial(embedding.submit, some, model=model, use=use, lane=lane,
                         client=current_client.get().id)  # fmt: skip
        futures = await submit_patiently(
            partial(tasks.embed, submit), limits.deadline_s if start else 0
        )
        for block in await wait_for_all(futures, deadline_s=limits.deadline_s):
            found.extend(block)
    return found


async def submit_patiently(
    submit: Callable[[], Awaitable[Sequence[Future[Any]]]], patience_s: float
) -> Sequence[Future[Any]]:
    """Work that has begun is not refused halfway: if the queue is full, it waits."""
    end = time.monotonic() + patience_s
    while True:
        try:
            return await submit()
        except OverloadedError:
            if time.monotonic() >= end:
                raise
        await asyncio.sleep(_RETRY_S)


# -- OCR -------------------------------------------------------------------------------------------


async def _run_ocr(
    tasks: DocumentTasks, client: Client, sources: Sequence[Source], options: Any
) -> Any:
    given = options.read_given()
    if options.format != "pdf":
        given["format"] = "json" if options.format == "json" else "txt"
        return build_results(await tasks.run_each("ocr", sources, given))
    if len(sources) != 1:
        raise Problem(400, "a PDF is made of one file", hint="Send a request for each.")
    return await _make_pdf(tasks, sources[0], given)


async def _make_pdf(tasks: DocumentTasks, source: Source, given: Mapping[str, Any]) -> Response:
    """The file with its words, deleted once it was sent."""
    folder = tasks.server.data_folder / _MADE / secrets.token_hex(16)
    path = folder / "made.pdf"
    try:
        await to_thread.run_sync(partial(folder.mkdir, parents=True))
        rows = await tasks.run_each(
            "ocr", [source], {**given, "format": "pdf", "output": str(path)}
        )
        build_results(rows)  # raises what went wrong
    except BaseException:
        await _delete_folder(folder)
        raise
    name = f"{source.name.rpartition('.')[0] or source.name}.pdf"
    return _TemporaryFileResponse(path, media_type="application/pdf", filename=name)


async def _delete_folder(folder: Path) -> None:
    """Also if the client has left. A worker that is not done then cannot write into it."""
    with anyio.CancelScope(shield=True):
        await to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))


class _TemporaryFileResponse(FileResponse):
    """A file that is deleted with its folder, whether it was sent or the client has left."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await _delete_folder(Path(self.path).parent)


def _delete_old_files(folder: Path) -> None:
    """What an earlier server left when it was killed."""
    make_folder(folder)
    before = time.time() - _OLD_FILE_S
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < before:
                shutil.rmtree(path)


# -- the two forms of a task -----------------------------------------------------------------------


def add_json_route(routes: APIRouter, tasks: DocumentTasks, task: TaskRoute) -> None:
    body_model = build_body(task)

    async def run(request: Request, body: Any) -> Response:
        client = get_client(request)
        texts, files = getattr(body, "texts", []), body.files
        sources = await tasks.find_sources(client, texts, files)
        return await answer(request, task.work(tasks, client, sources, body))

    run.__annotations__["body"] = body_model
    routes.post(f"/{task.name}", name=task.name, **_describe(task))(run)


def build_body(task: TaskRoute) -> type[RequestModel]:
    """The model of the JSON form: sources and options."""
    name = f"{task.options.__name__.removesuffix('Options')}Body"
    base: Any = (task.options,) if task.files_only else (SourceFields, task.options)
    files: Any = {"files": (list[Upload], Field(min_length=1, max_length=MAX_FILES))}
    model: type[RequestModel] = create_model(
        name, __base__=base, __doc__=task.summary,
        __cls_kwargs__={"json_schema_extra": {"examples": [dict(task.example)]}},
        **(files if task.files_only else {}),
    )  # fmt: skip
    model.option_names, model.one_of = task.options.option_names, task.options.one_of
    return model


def add_form_route(routes: APIRouter, tasks: DocumentTasks, task: TaskRoute) -> None:
    uploads = tasks.server.uploads

    def list_sources(files: Sequence[StoredUpload]) -> list[Source]:
        return [Source(one.name, path=uploads.path(one.id)) for one in files]

    def delete(files: Sequence[StoredUpload]) -> None:
        for one in files:
            with contextlib.suppress(AnyrigError):  # deleted by another request
                uploads.delete(one.id)

    async def run(request: Request) -> Response:
        form = await receive_form(request, uploads, max_files=MAX_FILES)
        try:
            if not form.files:
                raise Problem(400, "no file was sent", hint="curl -F files=@letter.pdf")
            options = read_form(task.options, form.fields)
            sources = await to_thread.run_sync(list_sources, form.files)
            return await answer(request, task.work(tasks, get_client(request), sources, options))
        finally:
            with anyio.CancelScope(shield=True):  # also if the client has left
                await to_thread.run_sync(delete, form.files)

    routes.post(
        f"/{task.name}/upload", openapi_extra=_describe_form(task.options),
        name=f"{task.name}_upload", **_describe(task, form=True),
    )(run)  # fmt: skip


def _describe(task: TaskRoute, *, form: bool = False) -> dict[str, Any]:
    problems = problem_responses(404, 501) | (problem_responses(415, 507) if form else {})
    good: dict[int | str, dict[str, Any]] = {}
    if task.media_types:
        good = {200: {"content": dict(task.media_types)}}
    about_form = "Files are deleted once they are done. Lists are repeated fields, or commas."
    return {
        "summary": task.summary + (", sent with the request" if form else ""),
        "description": about_form if form else task.description,
        "response_model": task.result, "responses": problems | good,
    }  # fmt: skip


def _describe_form(options: type[BaseModel]) -> dict[str, Any]:
    schema = options.model_json_schema()
    files = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": {
        "type": "object", "required": ["files", *schema.get("required", ())],
        "properties": {"files": files, **schema["properties"]},
    }}}}}  # fmt: skip


def read_form(model: type[RequestModel], fields: Mapping[str, Sequence[str]]) -> RequestModel:
    """The options in the fields of a form; an empty field gives nothing."""
    given: dict[str, Any] = {}
    for name, values in fields.items():
        field = model.model_fields.get(name)
        if field is not None and _is_list(field.annotation):
            several = values if len(values) > 1 else values[0].split(",")
            given[name] = [value.strip() for value in several if value.strip()]
        elif values[-1] != "":
            given[name] = values[-1]
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]
        raise RequestValidationError(cast("Sequence[Any]", found)) from None


def _is_list(annotation: Any) -> bool:
    if get_origin(annotation) is types.UnionType:
        return any(map(_is_list, get_args(annotation)))
    return get_origin(annotation) is list


async def answer(request: Request, work: Awaitable[Any]) -> Response:
    """The answer of some work, as long as its client waits for it."""
    found = await run_while_connected(request, work)
    if isinstance(found, Response):
        return found
    # Boxes of words and long vectors make megabytes: not written on the event loop.
    body = await to_thread.run_sync(dump, found)
    return Response(body, media_type="application/json")
