"""Search in an index, and what is like something: passages with what matters marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nicegui import ui

from anyrig.server.page.documents_desk import Asking, Desk, answered
from anyrig.server.page.pieces import Field, badge, button, empty, tag
from anyrig.server.page.words import Words

MODES = ("hybrid", "vectors", "keywords")
_LONGEST = 700
_BEFORE = 120
Told = Mapping[str, Any]


class Search:
    """A box for a question, and what was found."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._t = desk, desk.here.t
        t = self._t
        with tag("div") as self._nothing:
            empty(t("documents.index.empty"), t("documents.index.empty.do"), icon_name="search")
        with tag("div", classes="stack") as self._form:
            with tag("div", classes="search", role="search"):
                self._question = Field("search", t("documents.ask"), "", live=True, name="question")
                self._go = button(t("documents.ask.do"), self._run, kind="primary",
                                  icon_name="search", data_do="search")  # fmt: skip
            with tag("div", classes="search-more"):
                self._index = Field("select", t("documents.index"), desk.index,
                                    on_change=self._chosen, name="search-index")  # fmt: skip
                self._mode = Field("select", t("documents.mode"), "hybrid", name="mode", options=[
                    (one, t(f"documents.mode.{one}")) for one in MODES
                ])  # fmt: skip
            self._answer = tag("div", classes="stack", aria_live="polite", data_answer="search")
        self._question.on("enter", self._entered)
        desk.listen(self._offered)
        self._offered()

    def _offered(self) -> None:
        names = [str(one["name"]) for one in self._desk.indexes]
        self._nothing.set_visibility(not names)
        self._form.set_visibility(bool(names))
        self._index.offer([(one, one) for one in names], self._desk.index)

    def _chosen(self, name: str) -> None:
        self._desk.index = name

    async def _entered(self, event: Any) -> None:
        self._question.value = event.args
        await self._run()

    async def _run(self) -> None:
        if str(self._question.value).strip():
            await answered(self._desk.here, self._answer, self._go, self._ask, self._show)

    async def _ask(self) -> Any:
        return await self._desk.here.api.post("/documents/search", {
            "index": self._desk.index, "question": str(self._question.value),
            "mode": str(self._mode.value),
        })  # fmt: skip

    def _show(self, told: Told) -> None:
        t = self._t
        if not told["hits"]:
            empty(t("documents.found.none"), t("documents.found.none.do"), icon_name="search")
            if told.get("nearest"):
                hit(t, told["nearest"])
            return
        count = len(told["hits"])
        found = t("documents.found.one") if count == 1 else t("documents.found", count=count)
        tag("p", found, classes="soft")
        for one in told["hits"]:
            hit(t, one)


class Similar(Asking):
    """What is like a text or a file, in the index."""

    key = "similar"

    async def ask(self) -> Any:
        """One file at a time: the first that is chosen."""
        asked = self.desk.sources(self.typed())
        to = {"to_text": asked["texts"][0]} if "texts" in asked else {"to_file": asked["files"][0]}
        index = {"index": self.desk.index} if self.desk.index else {}
        return await self.here.api.post("/documents/similar", {**to, **index})

    def show(self, told: Told) -> None:
        """Passages, the nearest first."""
        if not told["hits"]:
            empty(self.t("documents.found.none"), self.t("documents.found.none.do"))
        for one in told["hits"]:
            hit(self.t, one)


def hit(t: Words, found: Told) -> None:
    """A passage with its file, page and how near it is."""
    with tag("article", classes="hit", data_hit=found["name"]):
        with tag("div", classes="hit-head"):
            tag("h3", str(found["name"]))
            if found.get("page"):
                badge(t("documents.page", number=found["page"]))
            if isinstance(found.get("similarity"), int | float):
                badge(t("documents.alike", share=t.percent(max(0.0, found["similarity"]))))
        text = marked(str(found["text"]), found.get("matches") or ())
        ui.html(text, sanitize=False, tag="p").classes("passage")
        names = sorted({str(one.get("name") or one.get("file")) for one in found.get("also") or ()}
                       - {str(found["name"])})  # fmt: skip
        if names:
            tag("p", t("documents.also", names=", ".join(names[:5])), classes="soft")


def marked(text: str, spans: Sequence[Sequence[int]]) -> str:
    """A passage as HTML with its matches marked, cut to what stands around the first of them."""
    first = spans[0][0] if spans else 0
    start = 0 if first <= 2 * _BEFORE else text.find(" ", first - _BEFORE) + 1
    end = len(text) if len(text) - start <= _LONGEST else start + _LONGEST
    parts, at = ["… " if start else ""], start
    for begin, stop in spans:
        if begin < at or stop > end:
            continue
        parts += [escape(text[at:begin]), f"<mark>{escape(text[begin:stop])}</mark>"]
        at = stop
    return "".join([*parts, escape(text[at:end]), " …" if end < len(text) else ""])
