"""Answers to questions from an index, with the passages cited."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anyrig.app.embedding import EmbeddingOptions, borrow_embedder
from anyrig.app.index import IndexOptions, find_index_file, find_index_model
from anyrig.app.search import FilterOptions, SearchRequest, hit_to_json, search
from anyrig.errors import AnyrigError, InvalidInputError, Message, OptionRef
from anyrig.events import OnEvent, WarningEvent
from anyrig.options import option

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.answers import Method, WrittenAnswer
    from anyrig.documents.index.search import Hit

_SENTENCE_CHARACTERS = 8_000
"""Of the passages that an extractive answer compares, about."""


@dataclass(frozen=True, kw_only=True)
class AskRequest(FilterOptions, IndexOptions, EmbeddingOptions):
    """Questions."""

    question: str = option(help="what to answer", flag=False)
    passages: int = option(6, "answer from so many passages", ge=1, le=50, metavar="N")
    llm: str = option(
        "", "answer with the language model of this server, which needs OpenAI's interface;"
        " default: quote the sentences that answer best", http=False, setting="documents.llm",
        restricted=True, metavar="URL",
    )  # fmt: skip
    llm_model: str = option(
        "", "model of that server; default: the first that it lists", http=False,
        setting="documents.llm_model", metavar="NAME",
    )  # fmt: skip
    llm_seconds: float = option(
        120.0, "time limit for its answer", gt=0, le=86_400, unit="seconds", http=False,
        setting="documents.llm_seconds",
    )  # fmt: skip
    model: str = option("", "embedding model; default: the index's own", metavar="NAME")


@dataclass(frozen=True)
class AskResult:
    """An answer, and the passages it is from."""

    question: str
    text: str
    """With citations, such as [2]; empty where no passage answers the question."""
    method: Method
    """`llm`, `extract` for sentences as they stand, or `none`."""
    model: str
    """That has written or chosen the answer."""
    passages: tuple[Hit, ...]
    """Those that were read: citation [1] is the first."""
    cited: tuple[int, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "question": self.question, "answer": self.text, "method": self.method,
            "model": self.model, "cited": list(self.cited),
            "passages": [hit_to_json(hit) for hit in self.passages], "notes": list(self.notes),
        }  # fmt: skip


def ask(rig: Rig, request: AskRequest, on_event: OnEvent) -> AskResult:
    """Answer a question from the passages of an index."""
    from anyrig.documents.answers import ChatModel

    if not request.question.strip():
        raise InvalidInputError("nothing to answer", hint="Ask a question.")
    llm = None
    if request.llm:
        llm = ChatModel(request.llm, request.llm_model, request.llm_seconds)
    notes: list[str] = []
    hits = _find_passages(rig, request, notes, on_event)
    if not hits:
        return AskResult(request.question, "", "none", "", (), (), tuple(notes))
    if llm is not None:
        answer = llm.answer(request.question, hits)
    else:
        answer = _quote(rig, request, hits, by_words=bool(notes), on_event=on_event)
    for note in answer.notes:
        on_event(WarningEvent(note))
    return AskResult(
        request.question, answer.text, answer.method, answer.model, tuple(hits), answer.cited,
        (*notes, *answer.notes),
    )  # fmt: skip


def _find_passages(
    rig: Rig, request: AskRequest, notes: list[str], on_event: OnEvent
) -> tuple[Hit, ...]:
    """The passages to answer from: by words alone where the model of the index cannot be used."""
    names = ("folder", "type", "language", "after", "before", "index", "device", "model")
    given = {name: getattr(request, name) for name in names}
    query = SearchRequest(question=request.question, limit=request.passages, **given)
    path = find_index_file(rig, request.index)
    try:
        find_index_model(rig, query, path, on_event)
    except AnyrigError as error:
        note = Message(
            "searched by words alone, as there is no embedding model ({problem}). With {llm} a"
            " language model answers", problem=error.message, llm=OptionRef("llm", "URL"),
        )  # fmt: skip
        notes.append(note)
        on_event(WarningEvent(note))
        query = replace(query, mode="keywords")
    return search(rig, query, on_event).hits


def _quote(
    rig: Rig, request: AskRequest, hits: tuple[Hit, ...], *, by_words: bool, on_event: OnEvent
) -> WrittenAnswer:
    from anyrig.documents.answers import quote_answer

    if by_words:
        return quote_answer(request.question, hits, None)
    with ExitStack() as stack:
        options = replace(request, device=request.device or "cpu")
        model = find_index_model(rig, options, find_index_file(rig, request.index), on_event)
        embedder = stack.enter_context(
            borrow_embedder(rig, options, model, on_event, num_characters=_SENTENCE_CHARACTERS)
        )
        return quote_answer(request.question, hits, embedder)
