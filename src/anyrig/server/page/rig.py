"""The page of the rig: devices, how they are doing, which one is used, how fast they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyrig.server.page import rig_reasons
from anyrig.server.page.api import Refused, for_admins
from anyrig.server.page.frame import Here
from anyrig.server.page.pieces import Field, card, copyable, empty, heading, tag, toast
from anyrig.server.page.rig_bench import BenchCard
from anyrig.server.page.rig_device import DeviceCard

_EVERY_S = 2.0


async def build(here: Here) -> None:
    """Fill the page."""
    heading(here.t("page.rig"), here.t("rig.lead"))
    await RigPage(here).show()


class RigPage:
    """One visitor's view of the machine."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._cards: dict[str, DeviceCard] = {}
        self._said: Mapping[str, Any] = {}

    async def show(self) -> None:
        """Draw it, and keep it up to date."""
        here, t = self._here, self._here.t
        told = await here.api.get("/devices")
        with card(), tag("div", classes="chooser"):
            self._use = Field(
                "select", t("rig.use"), _word(told), options=self._options(told),
                hint=t("rig.use.hint"), on_change=self._choose, name="device",
            )  # fmt: skip
            with tag("div", role="status"):
                self._reason = tag("p", classes="reason")
                self._warnings = tag("div", classes="soft")
                self._say(told)
        if not told["devices"]:
            with empty(t("rig.none"), t("rig.none.hint"), icon_name="chip"):
                copyable(t, "anyrig doctor")
        with tag("div", classes="grid"):
            for row in told["devices"]:
                self._cards[row["id"]] = DeviceCard(t, row)
        await BenchCard(here).show()
        here.every(_EVERY_S, self._refresh)

    async def _refresh(self) -> None:
        self._tell(await self._here.api.get("/devices"))
        history = (await self._here.api.get("/metrics/gpu"))["history"]
        for device, shown in self._cards.items():
            shown.draw(device, history)

    def _tell(self, told: Mapping[str, Any]) -> None:
        self._say(told)
        for row in told["devices"]:
            if row["id"] in self._cards:
                self._cards[row["id"]].tell(row)

    def _say(self, told: Mapping[str, Any]) -> None:
        """What is used, why, and what is to be minded."""
        said = {key: told[key] for key in ("reason", "warnings")}
        if said == self._said:
            return
        self._said, t = said, self._here.t
        used, why = rig_reasons.choice(t, told)
        self._reason.clear()
        with self._reason:
            tag("span", t("rig.now", reason=f"{used} ("[: None if used else 0]))
            rig_reasons.write(why)
            if used:
                tag("span", ")")
        self._warnings.clear()
        for one in told["warnings"]:
            with self._warnings, tag("p"):
                rig_reasons.write(rig_reasons.reason(t, str(one)))

    async def _choose(self, device: str) -> None:
        api = self._here.api
        try:
            told = await api.put("/devices/chosen", {"device": device})
        except Refused as refused:
            self._use.show(_word(await api.get("/devices")))  # what holds, not what was wished for
            raise for_admins(self._here.t, refused) from refused
        self._tell(told)
        name = dict(self._options(told))[_word(told)]
        said = [piece.text for one in told["warnings"]
                for piece in rig_reasons.reason(self._here.t, str(one))]  # fmt: skip
        toast(self._here.t("rig.used", name=name), "good", "; ".join(said))

    def _options(self, told: Mapping[str, Any]) -> list[tuple[str, str]]:
        t = self._here.t
        rows = [(row["id"], row["name"]) for row in told["devices"]]
        known = [("auto", t("rig.use.auto")), ("all", t("rig.use.all")), *rows]
        word = _word(told)
        return known if any(word == one[0] for one in known) else [*known, (word, word)]


def _word(told: Mapping[str, Any]) -> str:
    """What was asked for; nothing said is `auto`."""
    word = told.get("word") or "auto"
    rows = [row["id"] for row in told["devices"] if word in (row["id"], *row.get("words", ()))]
    return rows[0] if rows and word not in ("auto", "all") else str(word)
