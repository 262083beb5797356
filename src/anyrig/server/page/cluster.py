"""The cluster page: the machines that speech and books are distributed over, live."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any
from urllib.parse import quote

from anyrig.server.page.api import ENGLISH, ApiError, explain_forbidden
from anyrig.server.page.components import (
    Mood,
    badge,
    button,
    card,
    command_box,
    empty_state,
    heading,
    link,
    set_badge,
    show_toast,
    table,
    tag,
)
from anyrig.server.page.layout import PageContext
from anyrig.units import MIB

Json = Mapping[str, Any]
_POLL_INTERVAL_S = 2.0
_MOODS: Mapping[str, Mood] = {
    "ready": "good", "busy": "good", "loading": "plain", "draining": "warn", "lost": "bad",
}  # fmt: skip
_COLUMNS = ("worker", "state", "device", "models", "speed", "segments", "version", "sign", "do")
_NONE = "–"


async def build(page: PageContext) -> None:
    t = page.t
    heading(t("page.cluster"), t("cluster.lead"))
    cluster = await page.api.get("/cluster")
    if cluster["joined"]:
        cluster_page = ClusterPage(page, cluster)
        page.run_every(_POLL_INTERVAL_S, cluster_page.refresh)
        return
    with empty_state(t("cluster.empty"), t("cluster.empty.do"), "cluster"):
        command_box(t, "anyrig coordinator")
        command_box(t, "anyrig serve --cluster URL")
        link(t("cluster.rig"), "/rig", classes="button primary")


class ClusterPage:
    def __init__(self, page: PageContext, cluster: Json) -> None:
        """`cluster` is the response of `/cluster`."""
        self._page, t = page, page.t
        with card():
            self._broker = tag("p", classes="soft", data_cluster="broker")
            self._warnings = tag("div", role="status")
            self._empty = empty_state(t("cluster.nobody"), t("cluster.nobody.do"), "cluster")
            with self._empty:
                command_box(t, "anyrig worker --join TOKEN")
            with tag("div") as self._table:
                self._body = table([t(f"cluster.{one}") for one in _COLUMNS], t("page.cluster"))
        self._workers: dict[str, WorkerLine] = {}
        self._shown: object = None
        self._show(cluster)

    async def refresh(self) -> None:
        self._show(await self._page.api.get("/cluster"))

    def _show(self, cluster: Json) -> None:
        self._show_broker(cluster)
        workers = {str(one["name"]): one for one in cluster["workers"]}
        for name in [name for name in self._workers if name not in workers]:
            self._body.remove(self._workers.pop(name).element)
        for name, worker in workers.items():
            if name not in self._workers:
                with self._body:
                    self._workers[name] = WorkerLine(self._page, self, name)
            self._workers[name].show(worker)
        self._table.set_visibility(bool(workers))
        self._empty.set_visibility(not workers)

    def _show_broker(self, cluster: Json) -> None:
        """Show the broker and the warnings; only if they have changed."""
        coordinator, warnings = cluster["coordinator"], tuple(cluster["warnings"])
        shown = (cluster["state"], cluster["error"], warnings, coordinator)
        if shown == self._shown:
            return
        self._shown, t = shown, self._page.t
        key = "cluster.broker" if coordinator else "cluster.broker.alone"
        host = coordinator["host"] if coordinator else ""
        self._broker.text = t(key, url=cluster["broker"], host=host)
        self._warnings.clear()
        with self._warnings:
            if cluster["state"] == "away":
                with tag("div", classes="trouble"):
                    tag("p", t("cluster.away"), classes="trouble-title")
                    tag("p", cluster["error"], lang=ENGLISH)
            for text in warnings:
                tag("p", text, classes="soft", lang=ENGLISH)

    async def drain(self, name: str, drain: bool) -> None:
        """Let a worker finish and leave, or take work again."""
        path = f"/cluster/workers/{quote(name, safe='')}"
        await self._change(self._page.api.put(path, {"drain": drain}))
        key = "cluster.drained" if drain else "cluster.undrained"
        show_toast(self._page.t(key, name=name), "good")

    def forget(self, name: str) -> None:
        """Remove a lost worker from the list, after a confirmation."""

        async def delete() -> None:
            await self._change(self._page.api.delete(f"/cluster/workers/{quote(name, safe='')}"))

        self._page.confirm("cluster.forget", name, delete, "cluster.forget")

    async def _change(self, request: Awaitable[Json]) -> None:
        try:
            self._show(await request)
        except ApiError as error:
            raise explain_forbidden(self._page.t, error) from error


class WorkerLine:
    """A worker. Its cells are changed in place, so that nothing moves."""

    def __init__(self, page: PageContext, cluster: ClusterPage, name: str) -> None:
        t = self._t = page.t
        with tag("tr", data_worker=name) as self.element:
            with tag("td"):
                tag("strong", name)
                self._host = tag("div", classes="soft")
            with tag("td"):
                self._state = badge()
                self._reason = tag("div", classes="soft", lang=ENGLISH)
            self._cells = {column: tag("td") for column in _COLUMNS[2:-1]}
            handlers = {
                "drain": lambda: cluster.drain(name, True),
                "undrain": lambda: cluster.drain(name, False),
                "forget": lambda: cluster.forget(name),
            }
            with tag("td"):
                self._buttons = {
                    action: button(
                        t(f"cluster.{action}"), handler, data_do=action,
                        kind="danger" if action == "forget" else "plain",
                        label=f"{t(f'cluster.{action}')}: {name}",
                    )
                    for action, handler in handlers.items()
                }  # fmt: skip

    def show(self, worker: Json) -> None:
        t, status = self._t, str(worker["status"])
        set_badge(self._state, t.find(f"cluster.is.{status}", status), _MOODS.get(status, "plain"))
        self._host.text = str(worker["host"])
        # Of these two, the state says the same in the page's language.
        self._reason.text = "" if status in ("lost", "draining") else str(worker["trouble"])
        for column, text in self._describe(worker).items():
            self._cells[column].text = text
        action = {"lost": "forget", "draining": "undrain"}.get(status, "drain")
        for name, element in self._buttons.items():
            element.set_visibility(name == action)

    def _describe(self, worker: Json) -> dict[str, str]:
        t, free_mb = self._t, worker["gpu_memory_free_mb"]
        is_known = bool(worker["device"])  # not if it was lost while no coordinator was running
        device = f"{worker['device']} ({worker['device_type']})" if is_known else _NONE
        if worker["gpu_available"] and free_mb is not None:
            device += f", {t('cluster.free', amount=t.bytes(free_mb * MIB))}"
        speeds = [
            t("cluster.rate", engine=name, rate=t.number(round(rate)))
            for name, rate in worker["speed"].items()
        ]
        age_s = worker["last_sign_s"]
        return {
            "device": device,
            "models": ", ".join(worker["cached_models"]) or _NONE,
            "speed": ", ".join(speeds) or _NONE,
            "segments": t.number(worker["segments_done"]) if is_known else _NONE,
            "version": str(worker["versions"].get("anyrig", "")) or _NONE,
            "sign": _NONE if age_s is None else t("frame.ago", time=t.duration(age_s)),
        }
