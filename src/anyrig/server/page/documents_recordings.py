"""Recordings written down: a job each, so that a long one can be left and found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyrig.server.page.api import Refused
from anyrig.server.page.documents_desk import SOUNDS, Desk
from anyrig.server.page.jobs import Cards
from anyrig.server.page.jobs_asked import Looking
from anyrig.server.page.jobs_card import JobCard
from anyrig.server.page.jobs_facts import ACTIVE
from anyrig.server.page.pieces import Drop, button, tag

Told = Mapping[str, Any]
ACCEPT = "audio/*,video/*," + ",".join(f".{kind}" for kind in SOUNDS)
_FORMS = "txt,srt"
_MOST_SHOWN = 100_000


class TranscriptCard(JobCard):
    """A job that writes a recording down, with its text once it is there."""

    _read = False

    async def look(self, job: Told) -> None:
        """Its text and files."""
        if job["state"] != "done" or self._read:
            return
        self._read = True
        await self.offer()
        told = await self.here.api.get(f"/jobs/{self.id}/files")
        found = [one for one in told["files"] if str(one["name"]).endswith(".txt")]
        text = str(await self.here.api.get(str(found[0]["url"]))).strip() if found else ""
        with self.body:
            if not text:
                tag("p", self.here.t("documents.recordings.nothing"), classes="soft")
                return
            tag("p", text[:_MOST_SHOWN], classes="passage sheet", data_transcript=self.id,
                tabindex="0", role="region", aria_label=self._name)  # fmt: skip


class Recordings:
    """Where recordings are dropped, and what was said in them."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._here, t = desk, desk.here, desk.here.t
        self._looking = Looking(desk.here.api, "transcribe")
        tag("p", t("documents.recordings.what"), classes="soft")
        Drop(t, self._dropped, what=t("documents.recordings.kinds"), accept=ACCEPT)
        button(t("documents.recordings.do"), self._chosen, kind="primary", icon_name="letters",
               data_do="recordings")  # fmt: skip
        with tag("div", classes="stack", data_answer="recordings"):
            self._cards = Cards(desk.here, lambda job: TranscriptCard(
                desk.here, desk.ask, job, self.refresh, level=3))  # fmt: skip
        desk.followers.append(self.refresh)

    async def _dropped(self, files: Sequence[Told]) -> None:
        await self._desk.take(files)  # chosen, and not begun: that is what the button is for

    async def _chosen(self) -> None:
        await self._begin(self._desk.picked(*SOUNDS))

    async def _begin(self, files: Sequence[Told]) -> None:
        if not files:
            t = self._here.t
            raise Refused(400, t("documents.recordings.choose"), t("documents.recordings.kinds"))
        found = await self._looking.look(self._cards.most)
        active = {str((job.get("arguments") or {}).get("file") or "")
                  for job in found.jobs if job["state"] in ACTIVE}  # fmt: skip
        new = [name for one in files if (name := f"upload:{one['id']}") not in active]
        if not new:
            raise Refused(409, self._here.t("documents.recordings.active"))
        for name in new:
            asked = {"file": name, "format": _FORMS}
            await self._here.api.post("/jobs", {"kind": "transcribe", "arguments": asked})
        await self.refresh()

    async def refresh(self) -> None:
        """Bring the cards up to date."""
        found = await self._looking.look(self._cards.most)
        self._cards.show(found.jobs, found.num)
        for job in found.jobs:
            one = self._cards.cards[str(job["id"])]
            assert isinstance(one, TranscriptCard)
            await one.look(job)
