"""What the parts of the documents page share: the files that are chosen, and the index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from anyrig.server.page.api import Refused
from anyrig.server.page.frame import Here
from anyrig.server.page.jobs_ask import Ask
from anyrig.server.page.pieces import Field, Tag, button, tag, trouble

Told = Mapping[str, Any]
Listener = Callable[[], None]


class Desk:
    """Files that were sent, which of them are chosen, and the indexes there are."""

    def __init__(self, here: Here, ask: Ask) -> None:
        self.here, self.ask = here, ask
        self.files: list[Told] = []
        self.chosen: list[str] = []
        """Ids of uploads."""
        self.indexes: list[Told] = []
        self.index = here.query.get("index", "")
        """The one that is asked."""
        self._heard: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call it whenever the indexes are others."""
        self._heard.append(listener)

    def offer(self, indexes: Sequence[Told]) -> None:
        """The indexes there are now."""
        self.indexes = list(indexes)
        names = [str(one["name"]) for one in indexes]
        if self.index not in names:
            self.index = names[0] if names else ""
        for listener in self._heard:
            listener()

    def sources(self, text: str) -> dict[str, Any]:
        """The text that was typed, or else the files that are chosen."""
        if text.strip():
            return {"texts": [text]}
        if not self.chosen:
            raise Refused(400, self.here.t("documents.choose"), self.here.t("documents.text.hint"))
        return {"files": [f"upload:{id}" for id in self.chosen]}


class Asking:
    """A question to the API with its own place for the answer: each panel is one.

    A subclass makes its fields in `fields`, asks in `ask` and shows in `show`.
    """

    key = ""
    """Of its words."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.here, self.t = desk, desk.here, desk.here.t
        tag("p", self.t(f"documents.{self.key}.what"), classes="soft")
        self.text: Field | None = None
        self.fields()
        self._button = button(
            self.t(f"documents.{self.key}.do"), self.run, kind="primary", icon_name="search",
            data_do=self.key,
        )  # fmt: skip
        self.answer = tag("div", classes="stack answer", aria_live="polite", data_answer=self.key)

    def typed(self) -> str:
        """What stands in the box of text."""
        return str(self.text.value) if self.text is not None else ""

    def box(self) -> None:
        """A box for a text instead of files."""
        self.text = Field(
            "area", self.t("documents.text"), "", rows=3, live=True,
            hint=self.t("documents.text.hint"), name=f"{self.key}-text",
        )  # fmt: skip

    def fields(self) -> None:
        """What can be said with the question."""
        self.box()

    async def ask(self) -> Any:
        """The API's answer."""
        raise NotImplementedError

    def show(self, told: Any) -> None:
        """Draw it; called inside the place for the answer."""
        raise NotImplementedError

    async def run(self) -> None:
        """Ask, and show what comes of it."""
        await answered(self.here, self.answer, self._button, self.ask, self.show)


async def answered(
    here: Here, place: Tag, pressed: Tag, ask: Callable[[], Awaitable[Any]],
    show: Callable[[Any], None],
) -> None:  # fmt: skip
    """Ask with the button off, and draw the answer or what is wrong where the answer goes."""
    with _once(pressed):
        place.clear()
        with place:
            tag("p", here.t("documents.working"), classes="soft", role="status")
        try:
            told = await ask()
        except Refused as refused:
            place.clear()
            with place:
                trouble(refused.title, refused.hint)
            return
    place.clear()
    with place:
        show(told)


@contextmanager
def _once(pressed: Tag) -> Any:
    pressed.attributes(disabled=True)
    try:
        yield
    finally:
        pressed.attributes(disabled=False)


def failures(results: Sequence[Told]) -> None:
    """Say which sources could not be done, each with what to do."""
    for one in results:
        if one.get("error"):
            trouble(f"{one['name']}: {one['error']['title']}", str(one["error"].get("hint") or ""))
