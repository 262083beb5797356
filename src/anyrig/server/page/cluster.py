"""The cluster page: the machines that speech and books are spread over, live."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from anyrig.server.page.api import ENGLISH, Refused, for_admins
from anyrig.server.page.frame import Here
from anyrig.server.page.jobs_ask import Ask
from anyrig.server.page.pieces import (
    Mood,
    badge,
    button,
    card,
    copyable,
    empty,
    heading,
    link,
    table,
    tag,
    toast,
)

_LOOK_S = 2.0
_MOODS: Mapping[str, Mood] = {
    "ready": "good", "busy": "good", "loading": "plain", "draining": "warn", "lost": "bad",
}  # fmt: skip
_HEADS = ("worker", "state", "device", "models", "speed", "segments", "version", "sign", "do")
Told = Mapping[str, Any]


async def build(here: Here) -> None:
    """The page."""
    t = here.t
    heading(t("page.cluster"), t("cluster.lead"))
    told = await here.api.get("/cluster")
    if not told["joined"]:
        with empty(t("cluster.empty"), t("cluster.empty.do"), icon_name="cluster"):
            copyable(t, "anyrig coordinator")
            copyable(t, "anyrig serve --cluster URL")
            link(t("cluster.rig"), "/", classes="button primary")
        return
    ClusterPage(here, told)


class ClusterPage:
    """One visitor's view of the cluster."""

    def __init__(self, here: Here, told: Told) -> None:
        self._here, self._ask = here, Ask(here.t)
        t = here.t
        with card():
            self._broker = tag("p", classes="soft", data_cluster="broker")
            self._trouble = tag("div", role="status")
            self._nobody = tag("div")
            heads = [t(f"cluster.{name}") for name in _HEADS]
            self._table = tag("div")
            with self._table:
                self._body = table(heads, label=t("page.cluster"))
        self._rows: dict[str, _Row] = {}
        self._said: object = None
        self.show(told)
        here.every(_LOOK_S, self._refresh)

    async def _refresh(self) -> None:
        self.show(await self._here.api.get("/cluster"))

    def show(self, told: Told) -> None:
        """Bring all up to date."""
        self._say(told)
        workers: Sequence[Told] = told["workers"]
        there = {str(one["name"]) for one in workers}
        for name in [name for name in self._rows if name not in there]:
            self._body.remove(self._rows.pop(name).element)
        for one in workers:
            name = str(one["name"])
            if name not in self._rows:
                with self._body:
                    self._rows[name] = _Row(self._here, self, name)
            self._rows[name].show(one)
        self._table.set_visibility(bool(workers))
        self._nobody.set_visibility(not workers)

    def _say(self, told: Told) -> None:
        """The broker, and what is to be minded; drawn anew only when it is something else."""
        said = (told["state"], told["error"], tuple(told["warnings"]), told["coordinator"])
        if said == self._said:
            return
        self._said, t = said, self._here.t
        led = told["coordinator"]
        key = "cluster.broker" if led else "cluster.broker.alone"
        self._broker.text = t(key, url=told["broker"], host=led["host"] if led else "")
        self._trouble.clear()
        with self._trouble:
            if told["state"] == "away":
                with tag("div", classes="trouble"):
                    tag("p", t("cluster.away"), classes="trouble-title")
                    tag("p", told["error"], lang=ENGLISH)
            for one in told["warnings"]:
                tag("p", one, classes="soft", lang=ENGLISH)
        self._nobody.clear()
        with self._nobody, empty(t("cluster.nobody"), t("cluster.nobody.do"), icon_name="cluster"):
            copyable(t, "anyrig worker --join TOKEN")

    async def drain(self, name: str, on: bool) -> None:
        """Let a worker leave, or stay."""
        path = f"/cluster/workers/{quote(name, safe='')}"
        await self._change(self._here.api.put(path, {"drain": on}))
        toast(self._here.t("cluster.drained" if on else "cluster.undrained", name=name), "good")

    def forget(self, name: str) -> None:
        """Take a lost one off the list, after a question."""
        t = self._here.t

        async def gone() -> None:
            await self._change(self._here.api.delete(f"/cluster/workers/{quote(name, safe='')}"))

        self._ask.open(
            t("cluster.forget.ask", name=name), t("cluster.forget.what"), t("cluster.forget"), gone
        )

    async def _change(self, asked: Awaitable[Told]) -> None:
        try:
            self.show(await asked)
        except Refused as refused:
            raise for_admins(self._here.t, refused) from refused


class _Row:
    """One worker; its cells are changed, not drawn anew, so that nothing jumps."""

    def __init__(self, here: Here, page: ClusterPage, name: str) -> None:
        t = self._t = here.t
        with tag("tr", data_worker=name) as self.element:
            with tag("td"):
                tag("strong", name)
                self._host = tag("div", classes="soft")
            with tag("td"):
                self._state = badge("")
                self._why = tag("div", classes="soft", lang=ENGLISH)
            self._cells = {one: tag("td") for one in _HEADS[2:-1]}
            with tag("td"):
                self._buttons = {
                    "drain": button(
                        t("cluster.drain"), lambda: page.drain(name, True), data_do="drain",
                        label=f"{t('cluster.drain')}: {name}",
                    ),
                    "undrain": button(
                        t("cluster.undrain"), lambda: page.drain(name, False), data_do="undrain",
                        label=f"{t('cluster.undrain')}: {name}",
                    ),
                    "forget": button(
                        t("cluster.forget"), lambda: page.forget(name), kind="danger",
                        data_do="forget", label=f"{t('cluster.forget')}: {name}",
                    ),
                }  # fmt: skip

    def show(self, told: Told) -> None:
        """Bring it up to date."""
        t, status = self._t, str(told["status"])
        self._state.text = t(f"cluster.is.{status}") if status in _MOODS else status
        self._state.classes(replace=f"badge {_MOODS.get(status, 'plain')}")
        self._host.text = str(told["host"])
        # A state says it already, in the page's own language.
        self._why.text = "" if status in ("lost", "draining") else str(told["trouble"])
        for name, text in self._texts(told).items():
            self._cells[name].text = text
        shown = {"lost": "forget", "draining": "undrain"}.get(status, "drain")
        for name, one in self._buttons.items():
            one.set_visibility(name == shown)

    def _texts(self, told: Told) -> dict[str, str]:
        t = self._t
        free = told["gpu_memory_free_mb"]
        known = bool(told["device"])  # nobody remembers one that was lost with no coordinator there
        device = f"{told['device']} ({told['device_type']})" if known else "–"
        if told["gpu_available"] and free is not None:
            device += f", {t('cluster.free', amount=t.bytes(free * (1 << 20)))}"
        speeds = [
            t("cluster.rate", engine=name, rate=t.number(round(rate)))
            for name, rate in told["speed"].items()
        ]
        sign = told["last_sign_s"]
        return {
            "device": device, "models": ", ".join(told["cached_models"]) or "–",
            "speed": ", ".join(speeds) or "–",
            "segments": t.number(told["segments_done"]) if known else "–",
            "version": str(told["versions"].get("anyrig", "")) or "–",
            "sign": "–" if sign is None else t("cluster.ago", time=t.span(sign)),
        }  # fmt: skip
