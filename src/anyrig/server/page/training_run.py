"""One training run: its state, four curves, and what was out of order."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from anyrig.server.page import jobs_facts, training_charts
from anyrig.server.page.frame import Here
from anyrig.server.page.pieces import Tag, badge, card, copyable, link, row, tag, trouble
from anyrig.server.page.training_facts import name_of, steps_of
from anyrig.units import MIB

_CURVES = ("loss", "rate", "memory", "speed")


class RunView:
    """A run on the screen, kept as it stands."""

    def __init__(self, here: Here, id: str) -> None:
        self.id, self._here = id, here
        self._seen: Any = None
        self._charts: dict[str, ui.echart] = {}
        self._values: dict[str, Tag] = {}
        t = here.t
        with card(classes="run") as sheet:
            with row("ends"):
                self._name = tag("h2")
                self._state = badge("")
            self._facts = tag("p", classes="soft figures")
            self._trouble = tag("div")
            sheet.attributes(aria_labelledby=self._name.html_id, data_view=id)
            with tag("div", classes="curves"):
                for name in _CURVES:
                    self._curve(name)
        with card(t("training.alerts")):
            self._alerts = tag("div", classes="alerts")

    def _curve(self, name: str) -> None:
        t = self._here.t
        with tag("div", classes="curve", data_curve=name):
            with tag("div", classes="curve-head"):
                tag("h3", t(f"training.{name}"))
                self._values[name] = tag("b", classes="figures")
            label = t("training.chart", name=t(f"training.{name}"))
            chart = ui.echart(training_charts.lines({}), renderer="svg")
            chart.props["role"], chart.props["aria-label"] = "img", label
            self._charts[name] = chart

    async def look(self, run: Mapping[str, Any]) -> None:
        """Bring it up to date; curves only where a step was added."""
        mark = (run.get("step"), run.get("state"))
        if mark == self._seen:
            return
        summary = await self._here.api.get(f"/runs/{self.id}")
        history = await self._here.api.get(f"/runs/{self.id}/history")
        self._seen = mark
        self._head({**run, **summary})
        self._draw(history)

    def _head(self, run: Mapping[str, Any]) -> None:
        t, state = self._here.t, str(run["state"])
        self._name.text = name_of(run)
        self._state.text = t(f"state.{state}")
        self._state.classes(replace=f"badge {jobs_facts.MOODS.get(state, 'plain')}")
        more = [steps_of(self._here, run), jobs_facts.since(run.get("created"))]
        self._facts.text = " · ".join(dict.fromkeys(one for one in more if one))
        self._trouble.clear()
        with self._trouble:
            if run.get("error"):
                trouble(str(run["error"]))
            if state in ("stopped", "failed"):
                self._go_on(run)

    def _go_on(self, run: Mapping[str, Any]) -> None:
        """What to do with a run that ended early: a queued one is resumed among the jobs."""
        t = self._here.t
        if run.get("job"):
            link(t("training.job"), "/jobs", classes="button plain")
            return
        tag("p", t("training.resume"), classes="soft")
        copyable(t, f"anyrig train --resume {shlex.quote(name_of(run))}")

    def _draw(self, history: Mapping[str, Any]) -> None:
        t, steps, others = self._here.t, history["rows"], history["others"]
        held = [row for row in others if row.get("kind") == "validation"]
        loss = training_charts.points(steps, "loss")
        rate = training_charts.points(steps, "rate")
        memory = training_charts.memory(steps)
        speed = training_charts.points(steps, "step_s")
        put = self._put
        validation = training_charts.validation(held)
        put("loss", {t("training.loss"): loss, t("training.validation"): validation},
            f"{loss[-1][1]:.4g}" if loss else "")  # fmt: skip
        put("rate", {t("training.rate"): rate}, f"{rate[-1][1]:.2g}" if rate else "")
        put("memory", {t("training.memory"): memory},
            t.bytes(memory[-1][1] * MIB) if memory else "")  # fmt: skip
        put("speed", {t("training.speed"): speed},
            f"{t.number(1000 * speed[-1][1], 1)} ms" if speed else "")  # fmt: skip
        self._warn([row for row in others if row.get("kind") == "alert"])

    def _put(self, name: str, series: Mapping[str, Sequence[Any]], value: str) -> None:
        t = self._here.t
        there = any(series.values())
        missing = "training.unknown" if self._seen[0] else "training.waiting"
        self._values[name].text = value if there else ""
        chart = self._charts[name]
        chart.options.clear()
        chart.options.update(training_charts.lines(series, none="" if there else t(missing)))
        chart.props["aria-label"] = " ".join(
            filter(None, [t("training.chart", name=t(f"training.{name}")), value])
        )
        chart.update()

    def _warn(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        t = self._here.t
        self._alerts.clear()
        with self._alerts:
            if not alerts:
                tag("p", t("training.alerts.none"), classes="soft")
            for alert in alerts[-20:][::-1]:
                with tag("div", classes="note"):
                    where = t("training.at", step=t.number(alert.get("step") or 0))
                    tag("p", f"{alert.get('text', '')} ({where})")
                    if alert.get("hint"):
                        tag("p", alert["hint"], classes="soft")
