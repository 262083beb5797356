"""The reading page: the text of a document that browsers do not show, at a passage that was found.

The passage is in the address: index, file, where it begins and ends, and its first words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from anyrig.server.page.api import ApiError
from anyrig.server.page.components import Tag, badge, icon, link, row, show_error, tag
from anyrig.server.page.layout import PageContext
from anyrig.server.uploads import IndexFiles

Json = Mapping[str, Any]
PATH = "/read"
_WORDS_CHARACTERS = 80
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
_SHOW_PASSAGE = """
const passage = document.querySelector(".reading mark");
passage?.scrollIntoView({ block: "center" });
passage?.focus({ preventScroll: true });
"""


def build_address(index: str, hit: Json) -> str:
    """Where the text of a hit's file is read."""
    words = str(hit["text"])[:_WORDS_CHARACTERS]
    place = {"start": hit["file_start"], "end": hit["file_end"], "words": words}
    return f"{PATH}?{urlencode({'index': index, 'file': hit['file'], **place})}"


async def build(page: PageContext) -> None:
    title = tag("h1", page.t("page.read"))
    place = tag("div", classes="stack")
    with place:
        tag("p", page.t("read.reading"), classes="soft", role="status")
    page.run_soon(lambda: _load(page, title, place))


async def _load(page: PageContext, title: Tag, place: Tag) -> None:
    query = page.query
    index, file = query.get("index", ""), query.get("file", "")
    given = {name: query[name] for name in ("start", "words", "part") if query.get(name)}
    path = f"/documents/indexes/{quote(index, safe='')}/text"
    error = None
    try:
        found = await page.api.get(path, file=file, **given)
    except ApiError as problem:
        error = problem
    if place.is_deleted:
        return  # the page was left meanwhile
    if error is not None:
        with show_error(place, error), row():
            if error.status != 404:  # there is a file, but it cannot be read
                _build_download(page, IndexFiles.build_url(index, file))
        return
    title.text = str(found["name"])
    ui.page_title(f"{found['name']} · anyrig")
    place.clear()
    with place:
        _show(page, found)
    ui.run_javascript(_SHOW_PASSAGE)


def _show(page: PageContext, found: Json) -> None:
    t, query = page.t, page.query
    with row():
        if found["page"]:
            badge(t("documents.page", number=found["page"]))
        if found["num_parts"] > 1:
            badge(t("read.part", number=found["part"], all=found["num_parts"]))
        _build_download(page, str(found["url"]))
    tag("p", t("read.note"), classes="soft")
    if query.get("words") and found["start"] is None:
        tag("p", t("read.missing"), classes="note", role="note")
    language = str(found["language"])
    with tag("article", classes="card reading",
             lang=language if _LANGUAGE.fullmatch(language) else None):  # fmt: skip
        if found["title"] and not any(one["heading"] for one in found["blocks"][:1]):
            tag("h2", found["title"])
        ui.html(render_blocks(found["blocks"], _get_passage(query, found)), sanitize=False)
    if found["num_parts"] > 1:
        _build_parts(page, found)


def _get_passage(query: Mapping[str, str], found: Json) -> tuple[int, int]:
    """Where the passage begins and ends in the text of the file; it may have moved."""
    start, end = query.get("start", ""), query.get("end", "")
    if found["start"] is None or not (start.isdecimal() and end.isdecimal()):
        return 0, 0
    return found["start"], found["start"] + int(end) - int(start)


def render_blocks(blocks: Sequence[Json], passage: tuple[int, int]) -> str:
    """Paragraphs and headings as HTML, with the passage marked, which may span several."""
    rendered = []
    for block in blocks:
        text, offset = str(block["text"]), int(block["start"])
        begin, end = max(0, passage[0] - offset), min(len(text), passage[1] - offset)
        content = escape(text)
        if begin < end:
            before, marked, after = map(escape, (text[:begin], text[begin:end], text[end:]))
            content = f'{before}<mark tabindex="-1">{marked}</mark>{after}'
        name = "h2" if block["heading"] else "p"
        rendered.append(f"<{name}>{content}</{name}>")
    return "".join(rendered)


def _build_download(page: PageContext, url: str) -> None:
    with link("", url, classes="button plain", download=True, data_do="download"):
        icon("download")
        tag("span", page.t("read.download"))


def _build_parts(page: PageContext, found: Json) -> None:
    """Links to the parts before and after this one."""
    t, part = page.t, int(found["part"])
    with tag("nav", classes="row ends", aria_label=t("read.parts")):
        for name, number in (("previous", part - 1), ("next", part + 1)):
            if 1 <= number <= found["num_parts"]:
                place = {"index": page.query["index"], "file": page.query["file"], "part": number}
                link(t(f"read.{name}"), f"{PATH}?{urlencode(place)}", classes="button plain",
                     data_do=name)  # fmt: skip
