"""What the documents page does with files: each panel has a form and a place for the answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nicegui import ui

from anyrig.app.access import UPLOAD_PREFIX
from anyrig.server.page import reader
from anyrig.server.page.api import ENGLISH, ApiError
from anyrig.server.page.charts import Chart, draw_bars
from anyrig.server.page.components import (
    Field,
    FileDrop,
    Tag,
    badge,
    button,
    card,
    empty_state,
    error_box,
    link,
    row,
    show_error,
    show_warnings,
    table,
    tag,
)
from anyrig.server.page.jobs import (
    ACTIVE,
    POLL_INTERVAL_S,
    Job,
    JobCard,
    JobCards,
    JobQuery,
)
from anyrig.server.page.layout import PageContext
from anyrig.server.page.translations import Translator
from anyrig.server.uploads import is_viewable

if TYPE_CHECKING:
    from anyrig.server.page.documents import FilesCard, IndexCard

Json = Mapping[str, Any]
NamePair = tuple[str, float]
"""The names of two files, and their similarity."""
AUDIO_KINDS = ("wav", "flac", "mp3", "ogg", "m4a", "mp4", "webm", "aac", "aiff", "amr")
_SEARCH_MODES = ("hybrid", "vectors", "keywords")
_IMAGE_KINDS = ("png", "jpg", "tiff", "webp", "gif", "bmp", "jp2", "avif")
_MAX_PASSAGE_CHARS = 700
_CHARS_BEFORE_MATCH = 120
_MAX_COMPARED_FILES, _MAX_PAIRS, _MAX_HITS_PER_FILE = 12, 20, 3
_MAX_ENTITIES = 300
_ADDRESS_WORDS = 6
_MAX_REPORT_ITEMS = 12
_MAX_TRANSCRIPT_CHARS = 100_000
_TRANSCRIPT_FORMATS = "txt,srt"
_SAVE_PDF = "(event) => anyrig.save(event.currentTarget, '/documents/ocr', {body}, {name})"


async def request_answer(
    page: PageContext, place: Tag, pressed: Tag, request: Callable[[], Awaitable[Any]],
    show: Callable[[Any], None],
) -> None:  # fmt: skip
    """Send a request with its button disabled, and show the answer or the error in its place."""
    pressed.attributes(disabled=True)
    place.clear()
    with place:
        tag("p", page.t("documents.working"), classes="soft", role="status")
    try:
        answer, error = await request(), None
    except ApiError as problem:
        answer, error = None, problem
    if place.is_deleted:
        return  # the page was left meanwhile
    pressed.attributes(disabled=False)
    if error is not None:
        show_error(place, error)
        return
    place.clear()
    with place:
        show(answer)


class Panel:
    """A request about a text or files. Subclasses build its form, send it and show the answer."""

    key = ""
    """Of its texts."""

    def __init__(self, page: PageContext, files: FilesCard, index: IndexCard) -> None:
        self.page, self.files, self.index, self.t = page, files, index, page.t
        tag("p", self.t(f"documents.{self.key}.what"), classes="soft")
        self.text: Field | None = None
        self.build_form()
        self._button = button(
            self.t(f"documents.{self.key}.do"), self.run, kind="primary", icon_name="search",
            data_do=self.key,
        )  # fmt: skip
        self._answer = tag("div", classes="stack answer", aria_live="polite", data_answer=self.key)

    def build_form(self) -> None:
        self.build_text()

    def build_text(self) -> None:
        """A text instead of files."""
        self.text = Field(
            "area", self.t("documents.text"), "", rows=3, live=True,
            hint=self.t("documents.text.hint"), name=f"{self.key}-text",
        )  # fmt: skip

    def build_sources(self) -> dict[str, Any]:
        return self.files.build_sources(str(self.text.value) if self.text else "")

    async def request(self) -> Any:
        raise NotImplementedError

    def show(self, answer: Any) -> None:
        """Called inside the place of the answer."""
        raise NotImplementedError

    async def run(self) -> None:
        await request_answer(
            self.page, self._answer, self._button, self._request, self._show_answer
        )

    async def _request(self) -> Any:
        try:
            return await self.request()
        except ApiError as error:
            if not error.results:
                raise
            return {"results": error.results}

    def _show_answer(self, answer: Any) -> None:
        results = answer.get("results") or ()
        if results and all(one.get("error") for one in results):
            self.show_failures(results)
            return
        warnings = [*(answer.get("warnings") or ())]
        for one in results:
            warnings += (one.get("result") or {}).get("warnings") or ()
        show_warnings(warnings)
        self.show(answer)

    def show_failures(self, results: Sequence[Json]) -> None:
        """Show the errors among the results of several sources, and mark their files."""
        unreadable = []
        for one in results:
            if error := one.get("error"):
                upload = str(one.get("file") or "").partition(":")[2]
                self.show_failure(str(one["name"]), upload, str(error["title"]),
                                  str(error.get("hint") or ""))  # fmt: skip
                unreadable += [upload] if upload else []
        self.files.mark_unreadable(unreadable)

    def show_failure(self, name: str, upload: str, message: str, hint: str) -> None:
        """Show why a file could not be read, with a button that deletes it."""
        title = message if name in message else f"{name}: {message}"
        with error_box(title, hint, lang=ENGLISH):
            if upload:
                button(self.t("documents.forget", name=name),
                       lambda: self.files.confirm_delete(upload), kind="quiet", icon_name="bin",
                       data_rid=upload)  # fmt: skip

    def build_chart(
        self, title: str, rows: Sequence[tuple[str, float, str]], top: float | None = None
    ) -> None:
        values = ", ".join(f"{name} {text}" for name, _, text in rows)
        Chart(f"{title}: {values}", draw_bars(rows, top=top))


# -- search ----------------------------------------------------------------------------------------


class SearchPanel:
    def __init__(self, page: PageContext, files: FilesCard, index: IndexCard) -> None:
        self._page, self._index, t = page, index, page.t
        self._empty = empty_state(
            t("documents.index.empty"), t("documents.index.empty.do"), "search"
        )
        with tag("div", classes="stack") as self._form:
            with tag("div", classes="search", role="search"):
                self._question = Field("search", t("documents.ask"), "", live=True, name="question")
                self._button = button(t("documents.ask.do"), self._run, kind="primary",
                                      icon_name="search", data_do="search")  # fmt: skip
            with tag("div", classes="search-more"):
                self._index_name = Field("select", t("documents.index"), index.selected,
                                         on_change=self._select, name="search-index")  # fmt: skip
                modes = [(mode, t(f"documents.mode.{mode}")) for mode in _SEARCH_MODES]
                self._mode = Field("select", t("documents.mode"), "hybrid", name="mode",
                                   options=modes)  # fmt: skip
            self._answer = tag("div", classes="stack", aria_live="polite", data_answer="search")
        self._question.on("enter", self._run_entered)
        index.listen(self._show_indexes)

    def _show_indexes(self) -> None:
        names = self._index.names
        self._empty.set_visibility(not names)
        self._form.set_visibility(bool(names))
        self._index_name.set_options([(name, name) for name in names], self._index.selected)

    def _select(self, name: str) -> None:
        self._index.selected = name

    async def _run_entered(self, event: Any) -> None:
        self._question.value = event.args
        await self._run()

    async def _run(self) -> None:
        await request_answer(self._page, self._answer, self._button, self._request, self._show)

    async def _request(self) -> Any:
        t = self._page.t
        if not self._question.text:
            raise ApiError(400, t("documents.ask.nothing"), t("documents.ask.nothing.do"))
        return await self._page.api.post("/documents/search", {
            "index": self._index.selected, "question": str(self._question.value),
            "mode": str(self._mode.value),
        })  # fmt: skip

    def _show(self, answer: Json) -> None:
        t, hits = self._page.t, answer["hits"]
        show_warnings(answer.get("notes") or ())
        if not hits:
            empty_state(t("documents.found.none"), t("documents.found.none.do"), "search")
            if answer.get("nearest"):
                show_hit(t, answer["nearest"], answer["index"])
            return
        one = len(hits) == 1
        tag("p", t("documents.found.one") if one else t("documents.found", count=len(hits)),
            classes="soft")  # fmt: skip
        for hit in hits:
            show_hit(t, hit, answer["index"])


def show_hit(t: Translator, hit: Json, index: str) -> None:
    """A passage with its file, page and similarity; the name opens the file there.

    A file that the page may not open is shown with its path, and why.
    """
    name = str(hit["name"])
    with tag("article", classes="hit", data_hit=name):
        with tag("div", classes="hit-head"):
            with tag("h3"):
                if hit["url"]:
                    link(name, build_address(hit, index), target="_blank", rel="noopener",
                         title=t("documents.open"))  # fmt: skip
                else:
                    tag("span", name)
            if hit.get("page"):
                badge(t("documents.page", number=hit["page"]))
            if isinstance(hit.get("similarity"), int | float):
                badge(t("documents.alike", share=t.percent(max(0.0, hit["similarity"]))))
        if not hit["url"]:
            is_upload = str(hit["file"]).startswith(UPLOAD_PREFIX)
            if not is_upload:
                tag("p", str(hit["file"]), classes="soft")
            tag(
                "p",
                t("documents.closed.upload" if is_upload else "documents.closed"),
                classes="soft",
            )
        passage = mark_matches(str(hit["text"]), hit.get("matches") or ())
        ui.html(passage, sanitize=False, tag="p").classes("passage")
        others = {str(one.get("name") or one.get("file")) for one in hit.get("also") or ()} - {name}
        if others:
            tag("p", t("documents.also", names=", ".join(sorted(others)[:5])), classes="soft")


def build_address(hit: Json, index: str) -> str:
    """Where a hit is opened: a PDF at its page, a text at the passage, another file as its text."""
    is_upload = str(hit["file"]).startswith(UPLOAD_PREFIX)  # stored with the suffix of its type
    suffixes = [f".{hit['type']}", *([] if is_upload else [PurePosixPath(str(hit["name"])).suffix])]
    if not all(map(is_viewable, suffixes)):
        return reader.build_address(index, hit)
    if hit.get("page") and str(hit.get("type") or "") == "pdf":
        return f"{hit['url']}#page={hit['page']}"
    words = str(hit["text"]).split()[:_ADDRESS_WORDS]
    return f"{hit['url']}#:~:text={quote(' '.join(words), safe='')}"


def mark_matches(text: str, spans: Sequence[Sequence[int]]) -> str:
    """A passage as HTML with its matches marked, cut to the part around the first one."""
    first = spans[0][0] if spans else 0
    start = 0
    if first > 2 * _CHARS_BEFORE_MATCH:
        start = text.find(" ", first - _CHARS_BEFORE_MATCH) + 1
    end = min(len(text), start + _MAX_PASSAGE_CHARS)
    parts, position = ["… " if start else ""], start
    for begin, stop in spans:
        if begin < position or stop > end:
            continue
        parts += [escape(text[position:begin]), f"<mark>{escape(text[begin:stop])}</mark>"]
        position = stop
    return "".join([*parts, escape(text[position:end]), " …" if end < len(text) else ""])


class SimilarPanel(Panel):
    """Passages of the index that are similar to a text or to files, and files to each other."""

    key = "similar"

    async def request(self) -> Any:
        text = self.text.text if self.text else ""
        if text and self.index.selected:
            return {"like": [await self._find_passages(to_text=text)], "pairs": []}
        files: list[str] = self.files.build_sources()["files"]
        if len(files) > _MAX_COMPARED_FILES:
            raise ApiError(400, self.t("documents.similar.many", most=_MAX_COMPARED_FILES))
        if text:
            found = await self._post(to_text=text, files=files)
            return {"like": [], "pairs": _list_pairs(self.t("documents.similar.text"), found)}
        if len(files) == 1 and not self.index.selected:
            raise ApiError(400, self.t("documents.similar.alone"))
        return await self._compare_files(files)

    async def _compare_files(self, files: Sequence[str]) -> Json:
        """Each against the index and the files after it; one that cannot be read fails alone."""
        like: list[Json] = []
        pairs: list[NamePair] = []
        failed: dict[str, Json] = {}
        for number, file in enumerate(files):
            others = [other for other in files[number + 1 :] if other not in failed]
            if file in failed:
                continue
            try:
                like += [await self._find_passages(to_file=file)] if self.index.selected else []
                found = await self._post(to_file=file, files=others) if others else {"similar": ()}
            except ApiError as error:
                if error.status != 400:
                    raise
                failed[file] = {"title": error.title, "hint": error.hint}
                continue
            pairs += _list_pairs(self._find_name(file), found)
            for one in found.get("failed") or ():
                failed[str(one["file"])] = {"title": one["error"], "hint": one["hint"]}
        results = [{"name": self._find_name(file), "file": file, "error": error}
                   for file, error in failed.items()]  # fmt: skip
        return {"like": like, "pairs": sorted(pairs, key=lambda pair: -pair[1]), "failed": results}

    async def _find_passages(self, **to: str) -> Json:
        found: Json = await self._post(**to, index=self.index.selected)
        own = self._find_name(to.get("to_file", ""))
        return {**found, "hits": [hit for hit in found["hits"] if hit["name"] != own]}

    async def _post(self, **body: Any) -> Any:
        return await self.page.api.post("/documents/similar", {"limit": _MAX_PAIRS, **body})

    def _find_name(self, upload: str) -> str:
        return next((str(one["name"]) for one in self.files.files
                     if f"upload:{one['id']}" == upload), "")  # fmt: skip

    def show(self, answer: Json) -> None:
        t, like = self.t, answer["like"]
        self.show_failures(answer.get("failed") or ())
        if answer["pairs"]:
            tag("h3", t("documents.similar.pairs"))
            self.build_chart(t("documents.similar.pairs"), [
                (names, share, t.percent(share)) for names, share in answer["pairs"][:_MAX_PAIRS]
            ], top=1.0)  # fmt: skip
        for one in like:
            if len(like) > 1:
                tag("h3", t("documents.similar.to", name=one["to"]), data_like=one["to"])
            if not one["hits"]:
                tag("p", t("documents.found.none"), classes="soft")
            for hit in one["hits"][: _MAX_HITS_PER_FILE if len(like) > 1 else None]:
                show_hit(t, hit, one["index"])


def _list_pairs(name: str, found: Json) -> list[NamePair]:
    return [(f"{name} – {one['name']}", max(0.0, float(one["similarity"])))
            for one in found["similar"]]  # fmt: skip


# -- texts -----------------------------------------------------------------------------------------


class EntitiesPanel(Panel):
    """People, places, dates, amounts."""

    key = "entities"

    async def request(self) -> Any:
        body = {**self.build_sources(), "distinct": True}
        return await self.page.api.post("/documents/entities", body)

    def show(self, answer: Json) -> None:
        t = self.t
        self.show_failures(answer["results"])
        rows = [(one["name"], entity) for one in answer["results"] if one.get("result")
                for entity in one["result"]["entities"]]  # fmt: skip
        if not rows:
            tag("p", t("documents.entities.none"), classes="soft")
            return
        kinds = Counter(str(entity["kind"]) for _, entity in rows)
        self.build_chart(t("documents.kind"), [
            (self._describe_kind(kind), float(count), t.number(count))
            for kind, count in kinds.most_common(8)
        ])  # fmt: skip
        heads = [t(f"documents.{one}") for one in ("kind", "value", "file", "count")]
        with table(heads, t("documents.tab.entities")):
            for name, entity in rows[:_MAX_ENTITIES]:
                with tag("tr", data_entity=entity["kind"]):
                    tag("td", self._describe_kind(str(entity["kind"])))
                    tag("td", str(entity["text"]))
                    tag("td", str(name), classes="soft")
                    tag("td", t.number(entity.get("count") or 1), classes="figures")

    def _describe_kind(self, kind: str) -> str:
        return self.t.find(f"documents.kind.{kind}", kind)


class ClassesPanel(Panel):
    """Which of some classes a text belongs to."""

    key = "classes"

    def build_form(self) -> None:
        t = self.t
        self._labels = Field("text", t("documents.labels"), "", live=True, name="labels",
                             placeholder=t("documents.labels.such"))  # fmt: skip
        self.build_text()

    async def request(self) -> Any:
        words = (word.strip() for word in str(self._labels.value).split(","))
        labels = list(dict.fromkeys(filter(None, words)))
        if len(labels) < 2:
            raise ApiError(400, self.t("documents.labels.none"), self.t("documents.labels.such"))
        body = {**self.build_sources(), "labels": labels}
        return await self.page.api.post("/documents/classify", body)

    def show(self, answer: Json) -> None:
        t = self.t
        self.show_failures(answer["results"])
        done = [(one["name"], one["result"]) for one in answer["results"] if one.get("result")]
        if not done:
            return
        heads = [t(f"documents.{one}") for one in ("file", "class", "sure")]
        with table(heads, t("documents.tab.classes")):
            for name, result in done:
                with tag("tr", data_class=result["label"] or ""):
                    tag("td", str(name))
                    with tag("td"):
                        tag("b", str(result["label"] or "–"))
                    with tag("td"), tag("div", classes="share"):
                        share = float(result["probability"])
                        with tag("div", classes="bar", aria_hidden="true"):
                            tag("div", classes="fill").style(f"width:{100 * share:.1f}%")
                        tag("span", t.percent(share), classes="figures")


class SummaryPanel(Panel):
    """The most important sentences."""

    key = "summary"

    def build_form(self) -> None:
        self._sentences = Field("number", self.t("documents.sentences"), 5, live=True,
                                name="sentences", min=1, max=50)  # fmt: skip
        self.build_text()

    async def request(self) -> Any:
        count = max(1, min(1000, int(self._sentences.value or 5)))
        body = {**self.build_sources(), "sentences": count}
        return await self.page.api.post("/documents/summarise", body)

    def show(self, answer: Json) -> None:
        self.show_failures(answer["results"])
        for one in answer["results"]:
            for summary in (one.get("result") or {}).get("summaries", ()):
                title = " · ".join(filter(None, [str(one["name"]), str(summary["title"] or "")]))
                with card(title, level=3, classes="hit"):
                    tag("p", str(summary["text"]), classes="passage", data_summary=one["name"])


class ReportPanel(Panel):
    """An analysis of the chosen files: figures, phrases, groups and duplicates."""

    key = "report"

    def build_form(self) -> None:
        """Nothing: it compares files, so a single text makes no sense."""

    async def request(self) -> Any:
        return await self.page.api.post("/documents/analyse", self.build_sources())

    def show(self, answer: Json) -> None:
        t, failed = self.t, answer.get("failed") or ()
        for one in failed:
            name = str(one["name"])
            self.show_failure(name, self.files.find_id(name), str(one["error"]), str(one["hint"]))
        self.files.mark_unreadable([str(one["name"]) for one in failed])
        figures = {
            "docs": answer["num_documents"], "words": answer["num_words"],
            "groups": len(answer["clusters"]), "copies": len(answer["duplicates"]),
        }  # fmt: skip
        with tag("div", classes="tiles"):
            for key, value in figures.items():
                with tag("div", classes="tile"):
                    tag("b", t.number(value))
                    tag("span", t(f"documents.report.{key}"), classes="soft")
        tag("h3", t("documents.report.languages"))
        self.build_chart(t("documents.report.languages"), [
            (t.find(f"language.{code}", code), float(share), t.percent(share))
            for code, share in list(answer["languages"].items())[:6]
        ], top=1.0)  # fmt: skip
        tag("h3", t("documents.report.phrases"))
        with tag("ul", classes="tags"):
            for one in answer["phrases"][:_MAX_REPORT_ITEMS]:
                tag("li", str(one["text"]))
        self._show_groups(answer["clusters"])
        self._show_duplicates(answer["duplicates"])
        self._show_documents(answer["documents"])

    def _show_groups(self, groups: Sequence[Json]) -> None:
        tag("h3", self.t("documents.report.groups"))
        if not groups:
            tag("p", self.t("documents.report.groups.none"), classes="soft")
        for group in groups[:_MAX_REPORT_ITEMS]:
            with tag("div", classes="hit"):
                tag("b", str(group["name"]))
                tag("p", ", ".join(map(str, group["files"][:8])), classes="soft")

    def _show_duplicates(self, groups: Sequence[Json]) -> None:
        t = self.t
        tag("h3", t("documents.report.copies"))
        if not groups:
            tag("p", t("documents.report.copies.none"), classes="soft")
        for group in groups[:_MAX_REPORT_ITEMS]:
            name = str(group["file"])
            for copy in group["copies"]:
                share = t.percent(copy["similarity"])
                text = (t("documents.report.same", name=name) if copy["exact"]
                        else t("documents.report.like", share=share, name=name))  # fmt: skip
                tag("p", f"{copy['file']}: {text}", data_copy_of=name)

    def _show_documents(self, documents: Sequence[Json]) -> None:
        t = self.t
        heads = [t("documents.file"), *(
            t(f"documents.report.{one}") for one in ("language", "words", "phrases")
        )]  # fmt: skip
        tag("h3", t("documents.report.docs"))
        with table(heads, t("documents.report.docs")):
            for one in documents:
                with tag("tr", data_document=one["file"]):
                    tag("td", str(one["file"]))
                    language = str(one.get("language") or "")
                    tag("td", t.find(f"language.{language}", language))
                    tag("td", t.number(one.get("num_words") or 0), classes="figures")
                    tag("td", ", ".join(str(p["text"]) for p in one["phrases"][:3]), classes="soft")


# -- scans and recordings --------------------------------------------------------------------------


class ScansPanel(Panel):
    """The text of scans and photographs, or a searchable PDF of them."""

    key = "scans"

    def build_form(self) -> None:
        """Scans that are dropped here are read at once."""
        accept = ",".join(f".{kind}" for kind in ("pdf", "jpeg", "tif", *_IMAGE_KINDS))
        FileDrop(self.t, self._handle_files, kinds=self.t("documents.scans.kinds"), accept=accept)

    async def _handle_files(self, uploads: Sequence[Json]) -> None:
        await self.files.add(uploads, only=True)
        await self.run()

    async def request(self) -> Any:
        scans = self.files.list_chosen("pdf", *_IMAGE_KINDS)
        if not scans:
            raise ApiError(400, self.t("documents.scans.choose"))
        files = [f"upload:{one['id']}" for one in scans]
        return await self.page.api.post("/documents/ocr", {"files": files})

    def show(self, answer: Json) -> None:
        self.show_failures(answer["results"])
        for one in answer["results"]:
            if one.get("result"):
                self._show_scan(str(one["name"]), str(one["file"]), one["result"])

    def _show_scan(self, name: str, file: str, scan: Json) -> None:
        t, text, stem = self.t, str(scan["text"]).strip(), PurePosixPath(name).stem

        def save_text() -> None:
            ui.download.content(f"{text}\n".encode(), f"{stem}.txt", "text/plain; charset=utf-8")

        with card(name, level=3, classes="hit"):
            for page in scan["failed"]:
                number = page.get("number") or page.get("page")
                tag("p", t("documents.scans.page", number=number), classes="soft")
            if not text:
                tag("p", t("documents.scans.nothing"), classes="soft")
                return
            tag("p", text, classes="passage sheet", data_scan=name, tabindex="0",
                role="region", aria_label=name)  # fmt: skip
            with row():
                button(t("documents.scans.text"), save_text, icon_name="download", data_save="text")
                pdf = button(t("documents.scans.pdf"), icon_name="download", data_save="pdf")
                body = json.dumps({"files": [file], "format": "pdf"})
                name = json.dumps(f"{stem}.pdf")
                pdf.on("click", js_handler=_SAVE_PDF.format(body=body, name=name))


class TranscriptCard(JobCard):
    """The job of a transcription, with its text."""

    _has_text = False

    async def refresh(self, job: Job) -> None:
        if job["state"] != "done" or self._has_text:
            return
        self._has_text = True
        await self.show_files()
        files = (await self.page.api.get(f"/jobs/{self.id}/files"))["files"]
        urls = [str(one["url"]) for one in files if str(one["name"]).endswith(".txt")]
        text = str(await self.page.api.get(urls[0])).strip() if urls else ""
        with self.body:
            if not text:
                tag("p", self.page.t("documents.recordings.nothing"), classes="soft")
                return
            tag("p", text[:_MAX_TRANSCRIPT_CHARS], classes="passage sheet", data_transcript=self.id,
                tabindex="0", role="region", aria_label=self.name)  # fmt: skip


class RecordingsPanel:
    """Transcriptions: a job each, so that a long one goes on while the page is closed."""

    def __init__(self, page: PageContext, files: FilesCard, index: IndexCard) -> None:
        self._page, self._files, t = page, files, page.t
        self._query = JobQuery(page.api, "transcribe")
        accept = ",".join(["audio/*", "video/*", *(f".{kind}" for kind in AUDIO_KINDS)])
        tag("p", t("documents.recordings.what"), classes="soft")
        FileDrop(t, files.add, kinds=t("documents.recordings.kinds"), accept=accept)
        button(t("documents.recordings.do"), self._start, kind="primary", icon_name="letters",
               data_do="recordings")  # fmt: skip
        with tag("div", classes="stack", data_answer="recordings"):
            self._cards = JobCards(t, lambda job: TranscriptCard(page, job, self.refresh, level=3))
        page.run_every(POLL_INTERVAL_S, self.refresh)

    async def _start(self) -> None:
        t, recordings = self._page.t, self._files.list_chosen(*AUDIO_KINDS)
        if not recordings:
            raise ApiError(400, t("documents.recordings.choose"), t("documents.recordings.kinds"))
        found = await self._query.fetch(self._cards.limit)
        active = {str((job.get("arguments") or {}).get("file") or "")
                  for job in found.jobs if job["state"] in ACTIVE}  # fmt: skip
        new = [file for one in recordings if (file := f"upload:{one['id']}") not in active]
        if not new:
            raise ApiError(409, t("documents.recordings.active"))
        for file in new:
            arguments = {"file": file, "format": _TRANSCRIPT_FORMATS}
            await self._page.api.post("/jobs", {"kind": "transcribe", "arguments": arguments})
        await self.refresh()

    async def refresh(self) -> None:
        found = await self._query.fetch(self._cards.limit)
        for transcript, job in self._cards.show(found.jobs, found.total):
            await transcript.refresh(job)


PANELS: dict[str, Callable[[PageContext, FilesCard, IndexCard], object]] = {
    "search": SearchPanel, "similar": SimilarPanel, "entities": EntitiesPanel,
    "classes": ClassesPanel, "summary": SummaryPanel, "report": ReportPanel, "scans": ScansPanel,
    "recordings": RecordingsPanel,
}  # fmt: skip
