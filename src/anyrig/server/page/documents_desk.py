"""What the parts of the documents page share: the files that are chosen, and the index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from anyrig.server.page.api import ENGLISH, Refused
from anyrig.server.page.frame import Here
from anyrig.server.page.jobs_ask import Ask
from anyrig.server.page.pieces import Field, Tag, button, tag, trouble, warn

Told = Mapping[str, Any]
Listener = Callable[[], None]
Follower = Callable[[], Awaitable[None]]
SOUNDS = ("wav", "flac", "mp3", "ogg", "m4a", "mp4", "webm", "aac", "aiff", "amr")
PICTURES = ("png", "jpg", "tiff", "webp", "gif", "bmp", "jp2", "avif")


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
        self.unread: dict[str, str] = {}
        """Why a file could not be read, by the id of its upload."""
        self.followers: list[Follower] = []
        """Called now and again, to look how jobs stand."""
        self.take: Callable[[Sequence[Told]], Awaitable[None]] = _nothing
        """Adds files that were sent to those that are chosen."""
        self.forget: Callable[[str], None] = _nowhere
        """Asks whether a file shall go for good."""
        self._heard: list[Listener] = []
        self._marked: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call it whenever the indexes are others."""
        self._heard.append(listener)

    def on_unread(self, listener: Listener) -> None:
        """Call it when a file turned out to be none that can be read."""
        self._marked.append(listener)

    def mark(self, failed: Sequence[tuple[str, str]]) -> None:
        """Remember which files could not be read: (id or name, why); not where two share a name."""
        found = {self.id_of(word): why for word, why in failed}
        self.unread |= {id: why for id, why in found.items() if id}
        for listener in self._marked:
            listener()

    def id_of(self, word: str) -> str:
        """The upload that has this id, or is the only one of that name."""
        ids = [str(one["id"]) for one in self.files if word in (one["id"], one["name"])]
        return ids[0] if len(ids) == 1 else ""

    def picked(self, *kinds: str) -> list[Told]:
        """The chosen files, of some kinds or of all."""
        chosen = [one for one in self.files if one["id"] in self.chosen]
        return [one for one in chosen if not kinds or one["kind"] in kinds]

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
        t = self.here.t
        if not self.chosen:
            raise Refused(400, t("documents.choose"))
        texts = [one for one in self.picked() if one["kind"] not in SOUNDS]
        if not texts:
            raise Refused(400, t("documents.sounds_alone"), t("documents.sounds_alone.do"))
        return {"files": [f"upload:{one['id']}" for one in texts]}


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
        await answered(self.here, self.answer, self._button, self._asked, self._shown)

    async def _asked(self) -> Any:
        """Where every source failed, each tells why."""
        try:
            return await self.ask()
        except Refused as refused:
            if not refused.results:
                raise
            return {"results": refused.results}

    def _shown(self, told: Any) -> None:
        results = told.get("results") or ()
        if results and all(one.get("error") for one in results):
            failures(self.desk, results)
        else:
            warn([*(told.get("warnings") or ()), *(
                text for one in results for text in (one.get("result") or {}).get("warnings") or ()
            )])  # fmt: skip
            self.show(told)


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
                trouble(refused.title, refused.hint, lang=refused.lang)
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


def failures(desk: Desk, results: Sequence[Told]) -> None:
    """Say which sources could not be done, each with what to do; their files are marked."""
    wrong = [one for one in results if one.get("error")]
    marked = []
    for one in wrong:
        title, upload = str(one["error"]["title"]), str(one.get("file") or "").partition(":")[2]
        unread(desk, str(one["name"]), upload, title, str(one["error"].get("hint") or ""))
        marked += [(upload, title)] if upload else []
    desk.mark(marked)


def unread(desk: Desk, name: str, upload: str, why: str, hint: str) -> None:
    """A file that could not be read: why, what to do, and a way to be rid of it."""
    title = why if name in why else f"{name}: {why}"
    with trouble(title, hint, lang=ENGLISH):
        if upload:
            button(desk.here.t("documents.forget", name=name), lambda: desk.forget(upload),
                   kind="quiet", icon_name="bin", data_rid=upload)  # fmt: skip


async def _nothing(files: Sequence[Told]) -> None:
    """Until the list of files is there."""


def _nowhere(id: str) -> None:
    """Until the list of files is there."""
