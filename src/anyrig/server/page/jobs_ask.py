"""A question before something goes for good: the browser's own dialog, so that keys work."""

from __future__ import annotations

from nicegui import ui

from anyrig.server.page.pieces import Handler, button, row, safely, tag
from anyrig.server.page.words import Words


class Ask:
    """One dialog of a page, opened with another question each time."""

    def __init__(self, t: Words) -> None:
        self._handler: Handler | None = None
        with tag("dialog", classes="ask") as self._dialog:
            self._title = tag("h2")
            self._what = tag("p", classes="soft")
            self._dialog.attributes(aria_labelledby=self._title.html_id)
            with row("ask-buttons"):
                button(t("jobs.keep"), self.close, autofocus=True)
                self._yes = button("", self._do, kind="danger", data_ask="yes")
                with self._yes:
                    self._word = tag("span")

    def open(self, title: str, what: str, yes: str, handler: Handler) -> None:
        """Ask; the handler is called when the answer is yes."""
        self._handler = handler
        self._title.text, self._what.text, self._word.text = title, what, yes
        ui.run_javascript(f"document.getElementById('{self._dialog.html_id}').showModal()")

    def close(self) -> None:
        """Leave everything as it is."""
        ui.run_javascript(f"document.getElementById('{self._dialog.html_id}').close()")

    async def _do(self) -> None:
        self.close()
        handler, self._handler = self._handler, None
        if handler is not None:
            await safely(handler)()
