"""Scans and photographs of pages to text, or to a PDF that can be searched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from nicegui import ui

from anyrig.server.page.api import Refused
from anyrig.server.page.documents_desk import PICTURES, Asking, failures
from anyrig.server.page.pieces import Drop, button, card, row, tag

Told = Mapping[str, Any]
ACCEPT = ".pdf,.png,.jpg,.jpeg,.tif,.tiff,.webp,.gif,.bmp,.jp2,.avif"
_SAVE = "(event) => anyrig.save(event.currentTarget, '/documents/ocr', {body}, {name})"


class Scans(Asking):
    """Pictures of pages, read."""

    key = "scans"

    def fields(self) -> None:
        """A place of its own for scans: they are read as soon as they are there."""
        Drop(self.t, self._dropped, what=self.t("documents.scans.kinds"), accept=ACCEPT)

    async def _dropped(self, files: Sequence[Told]) -> None:
        self.desk.chosen = []
        await self.desk.take(files)
        await self.run()

    async def ask(self) -> Any:
        """All that are chosen and have pages."""
        scans = self.desk.picked("pdf", *PICTURES)
        if not scans:
            raise Refused(400, self.t("documents.scans.choose"))
        files = [f"upload:{one['id']}" for one in scans]
        return await self.here.api.post("/documents/ocr", {"files": files})

    def show(self, told: Told) -> None:
        """The text of each, and two ways to keep it."""
        failures(self.desk, told["results"])
        for one in told["results"]:
            if one.get("result"):
                self._read(str(one["name"]), str(one["file"]), one["result"])

    def _read(self, name: str, file: str, read: Told) -> None:
        t, text = self.t, str(read["text"]).strip()
        stem = PurePosixPath(name).stem
        with card(name, level=3, classes="hit"):
            for page in read["failed"]:
                tag("p", t("documents.scans.page", number=page.get("number") or page.get("page")),
                    classes="soft")  # fmt: skip
            if not text:
                tag("p", t("documents.scans.nothing"), classes="soft")
                return
            tag("p", text, classes="passage sheet", data_scan=name, tabindex="0",
                role="region", aria_label=name)  # fmt: skip
            with row():
                button(t("documents.scans.text"), lambda: _save(text, f"{stem}.txt"),
                       icon_name="download", data_save="text")  # fmt: skip
                pdf = button(t("documents.scans.pdf"), icon_name="download", data_save="pdf")
                body = json.dumps({"files": [file], "format": "pdf"})
                pdf.on("click", js_handler=_SAVE.format(body=body, name=json.dumps(f"{stem}.pdf")))


def _save(text: str, name: str) -> None:
    ui.download.content(f"{text}\n".encode(), name, "text/plain; charset=utf-8")
