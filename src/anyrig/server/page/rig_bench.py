"""The benchmark on the page of the rig: run as a job, seen as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyrig.server.page.charts import Chart, bars
from anyrig.server.page.frame import Here
from anyrig.server.page.pieces import Bar, Field, button, card, empty, row, tag, toast, trouble

_EVERY_S = 1.0
_ACTIVE = ("queued", "running", "paused")


class BenchCard:
    """Figures of every device, and a button that measures anew."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._job: str = ""

    async def show(self) -> None:
        """Draw it; a benchmark that already runs is found again."""
        t = self._here.t
        with card(t("bench.title"), note=t("bench.note")) as sheet:
            sheet.attributes(id="bench")
            with row():
                self._run = button(t("bench.run"), self._start, kind="primary", icon_name="gauge")
                self._stop = button(t("bench.stop"), self._cancel, icon_name="stop")
                self._quick = Field("check", t("bench.quick"), True)
            with tag("div", role="status"):
                self._bar = Bar(t("bench.running"))
            self._trouble = tag("div")
            self._figures = tag("div", classes="stack")
        await self._draw()
        self._busy(False)
        await self._find()
        self._here.every(_EVERY_S, self._watch)

    async def _find(self) -> None:
        told = await self._here.api.get("/jobs", kind="bench", state=list(_ACTIVE))
        running = told["jobs"]
        if running:
            self._job = str(running[0]["id"])
            self._busy(True)

    async def _start(self) -> None:
        self._trouble.clear()
        arguments = {"quick": True} if self._quick.value else {}
        job = await self._here.api.post("/jobs", {"kind": "bench", "arguments": arguments})
        self._job = str(job["id"])
        self._bar.show(0, "", self._here.t("bench.waiting"))
        self._busy(True)

    async def _cancel(self) -> None:
        if self._job:
            await self._here.api.post(f"/jobs/{self._job}/cancel")

    async def _watch(self) -> None:
        if not self._job:
            return
        t, job = self._here.t, await self._here.api.get(f"/jobs/{self._job}")
        if job["state"] in _ACTIVE:
            progress = job.get("progress") or {}
            word = "bench.running" if job["state"] == "running" else "bench.waiting"
            left = progress.get("left_s")
            said = t("frame.left", span=t.span(left)) if left else str(progress.get("stage") or "")
            self._bar.show(float(progress.get("done") or 0), said, t(word))
            return
        self._job = ""
        self._busy(False)
        await self._draw()
        if job["state"] == "done":
            toast(t("bench.done"), "good")
        elif job["state"] == "cancelled":
            toast(t("bench.stopped"))
        else:
            error = job["error"] or {"message": "", "hint": ""}
            with self._trouble:
                trouble(t("bench.failed"), f"{error['message']} {error['hint']}".strip())

    def _busy(self, busy: bool) -> None:
        self._bar.element.set_visibility(busy)
        self._stop.set_visibility(busy)
        self._run.attributes(disabled=busy)

    async def _draw(self) -> None:
        t = self._here.t
        figures: Sequence[Mapping[str, Any]] = (await self._here.api.get("/bench"))["figures"]
        self._figures.clear()
        with self._figures:
            if not figures:
                empty(t("bench.none"), t("bench.none.hint"), icon_name="gauge")
            by_device: dict[str, list[Mapping[str, Any]]] = {}
            for figure in figures:
                by_device.setdefault(figure["name"], []).append(figure)
            for name, mine in by_device.items():
                tag("h3", name)
                self._chart(name, mine)

    def _chart(self, name: str, figures: Sequence[Mapping[str, Any]]) -> None:
        """Speeds and bandwidths each have a scale of their own, and so a chart."""
        t = self._here.t
        for unit in dict.fromkeys(figure["unit"] for figure in figures):
            rows = []
            for figure in (one for one in figures if one["unit"] == unit):
                kernel = t.known(f"bench.kernel.{figure['kernel']}", figure["kernel"])
                said = t.scaled(figure["value"], unit)
                size = f"{figure['size']}²" if figure["kernel"] != "bandwidth" else ""
                words = [kernel, figure["precision"] if size else "", size]
                rows.append((" · ".join(word for word in words if word), figure["value"], said))
            told = "; ".join(f"{row[0]} {row[2]}" for row in rows)
            colour = [2 if "bandwidth" in figures[0]["kernel"] else 0] * len(rows)
            Chart(t("bench.chart", name=name, figures=told), bars(rows, colours=colour))
        when = str(figures[0].get("when") or "")
        if when:
            tag("p", t("bench.when", when=when[:16].replace("T", " ")), classes="soft")
