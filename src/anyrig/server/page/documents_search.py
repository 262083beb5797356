"""Search in an index, and what is like something: passages with what matters marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nicegui import ui

from anyrig.server.page.api import Refused
from anyrig.server.page.charts import Chart, bars
from anyrig.server.page.documents_desk import Asking, Desk, answered, failures
from anyrig.server.page.pieces import Field, badge, button, empty, tag
from anyrig.server.page.words import Words

MODES = ("hybrid", "vectors", "keywords")
_LONGEST = 700
_BEFORE = 120
_MOST_ALIKE, _MOST_PAIRS, _FEW = 12, 20, 3
Told = Mapping[str, Any]
Pair = tuple[str, float]
"""Two names, and how alike they are."""


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
        await answered(self._desk.here, self._answer, self._go, self._ask, self._show)

    async def _ask(self) -> Any:
        if not str(self._question.value).strip():
            raise Refused(
                400, self._t("documents.ask.nothing"), self._t("documents.ask.nothing.do")
            )
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
    """What is like a text or like files: in the index, and the files among each other."""

    key = "similar"

    async def ask(self) -> Any:
        """For a text what is like it; for files, for each of them, and how alike they are."""
        text = self.typed().strip()
        if text and self.desk.index:
            return {"like": [await self._like(to_text=text)], "pairs": []}
        files: list[str] = self.desk.sources("")["files"]
        if len(files) > _MOST_ALIKE:
            raise Refused(400, self.t("documents.similar.many", most=_MOST_ALIKE))
        if text:
            found = await self._ask(to_text=text, files=files)
            return {"like": [], "pairs": self._pairs(self.t("documents.similar.text"), found)}
        if len(files) == 1 and not self.desk.index:
            raise Refused(400, self.t("documents.similar.alone"))
        return await self._files(files)

    async def _files(self, files: Sequence[str]) -> Told:
        """Each against the index and those after it; one that cannot be read fails alone."""
        like: list[Told] = []
        pairs: list[Pair] = []
        wrong: dict[str, Told] = {}
        for number, one in enumerate(files):
            rest = [other for other in files[number + 1 :] if other not in wrong]
            if one in wrong:
                continue
            try:
                like += [await self._like(to_file=one)] if self.desk.index else []
                found = await self._ask(to_file=one, files=rest) if rest else {"similar": ()}
            except Refused as refused:
                if refused.status != 400:
                    raise
                wrong[one] = {"title": refused.title, "hint": refused.hint}
                continue
            pairs += self._pairs(self._name(one), found)
            for row in found.get("failed") or ():
                wrong[str(row["file"])] = {"title": row["error"], "hint": row["hint"]}
        results = [{"name": self._name(file), "file": file, "error": error}
                   for file, error in wrong.items()]  # fmt: skip
        return {"like": like, "pairs": sorted(pairs, key=lambda pair: -pair[1]), "failed": results}

    def _pairs(self, one: str, found: Told) -> list[Pair]:
        return [(f"{one} – {row['name']}", max(0.0, float(row["similarity"])))
                for row in found["similar"]]  # fmt: skip

    async def _like(self, **to: str) -> Told:
        index = {"index": self.desk.index} if self.desk.index else {}
        found: Told = await self._ask(**to, **index)
        own = self._name(to.get("to_file", ""))
        return {**found, "hits": [one for one in found["hits"] if one["name"] != own]}

    async def _ask(self, **asked: Any) -> Any:
        return await self.here.api.post("/documents/similar", {"limit": _MOST_PAIRS, **asked})

    def _name(self, upload: str) -> str:
        return next((str(one["name"]) for one in self.desk.files
                     if f"upload:{one['id']}" == upload), "")  # fmt: skip

    def show(self, told: Told) -> None:
        """How alike the files are; then for each the passages that are most like it."""
        t = self.t
        failures(self.desk, told.get("failed") or ())
        if told["pairs"]:
            tag("h3", t("documents.similar.pairs"))
            rows = [(pair, share, t.percent(share)) for pair, share in told["pairs"][:_MOST_PAIRS]]
            said = "; ".join(f"{pair} {words}" for pair, _, words in rows)
            Chart(f"{t('documents.similar.pairs')}: {said}", bars(rows))
        for one in told["like"]:
            if len(told["like"]) > 1:
                tag("h3", t("documents.similar.to", name=one["to"]), data_like=one["to"])
            if not one["hits"]:
                tag("p", t("documents.found.none"), classes="soft")
            for found in one["hits"][: _FEW if len(told["like"]) > 1 else None]:
                hit(t, found)


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
