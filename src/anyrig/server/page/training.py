"""The training page: runs of this machine, with live curves."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from nicegui import ui

from anyrig.server.page.components import (
    Tag,
    badge,
    card,
    catch_errors,
    command_box,
    empty_state,
    error_box,
    heading,
    link,
    row,
    set_badge,
    tag,
)
from anyrig.server.page.jobs import STATE_MOODS, describe_loss, format_time
from anyrig.server.page.layout import PageContext
from anyrig.server.page.theme import LIGHT
from anyrig.server.page.translations import NBSP, Translator
from anyrig.units import MIB

Json = Mapping[str, Any]
Points = Sequence[Sequence[float]]
_POLL_INTERVAL_S = 2.0
_CURVES = ("loss", "rate", "memory", "speed")
_MAX_ALERTS = 20


async def build(page: PageContext) -> None:
    training_page = TrainingPage(page)
    page.run_every(_POLL_INTERVAL_S, training_page.refresh)


class TrainingPage:
    def __init__(self, page: PageContext) -> None:
        self._page, t = page, page.t
        self._selected = page.query.get("run", "")
        self._rows: dict[str, _RunRow] = {}
        self._view: RunView | None = None
        heading(t("page.training"), t("training.lead"))
        self._empty = empty_state(t("training.empty"), t("training.empty.do"), "train")
        with self._empty:
            command_box(t, "anyrig train config.toml")
        self._empty.set_visibility(False)
        with tag("div", classes="columns") as self._columns:
            with card(t("training.runs")):
                self._list = tag("ul", classes="runs")
            self._place = tag("div", classes="stack")
        self._columns.set_visibility(False)

    async def refresh(self) -> None:
        """Update the list of runs, and the curves of the selected one."""
        runs = list((await self._page.api.get("/runs"))["runs"])
        runs.sort(key=lambda run: float(run.get("created") or 0), reverse=True)
        self._empty.set_visibility(not runs)
        self._columns.set_visibility(bool(runs))
        if not runs:
            return
        by_id = {str(run["id"]): run for run in runs}
        if self._selected not in by_id:
            self._selected = next(iter(by_id))
        if list(by_id) != list(self._rows):  # otherwise the rows stay, and with them the focus
            self._list.clear()
            with self._list:
                self._rows = {id: self._build_row(id, run) for id, run in by_id.items()}
        for id, run in by_id.items():
            self._show_row(id, run)
        if self._view is None or self._view.id != self._selected:
            self._place.clear()
            with self._place:
                self._view = RunView(self._page, self._selected)
        await self._view.refresh(by_id[self._selected])

    def _build_row(self, id: str, run: Json) -> _RunRow:
        with tag("li"), tag("button", type="button", data_run=id) as element:
            with tag("span", classes="row"):
                tag("b", _get_name(run))
                state = badge()
            description = tag("span", classes="soft figures")
        element.on("click", catch_errors(partial(self._select, id)), args=[])
        return _RunRow(element, state, description)

    def _show_row(self, id: str, run: Json) -> None:
        item = self._rows[id]
        item.button.attributes(aria_current="true" if id == self._selected else None)
        _set_state(self._page.t, item.state, run)
        item.description.text = _describe_run(self._page.t, run)

    async def _select(self, id: str) -> None:
        self._selected = id
        await self.refresh()


class _RunRow(NamedTuple):
    button: Tag
    state: Tag
    description: Tag


class RunView:
    """A training run: its state, four curves, and its alerts."""

    def __init__(self, page: PageContext, id: str) -> None:
        self.id, self._page, t = id, page, page.t
        self._shown: tuple[Any, Any] = (None, None)
        self._charts: dict[str, ui.echart] = {}
        self._values: dict[str, Tag] = {}
        with card(classes="run") as element:
            with row("ends"):
                self._name = tag("h2")
                self._state = badge()
            self._description = tag("p", classes="soft figures")
            self._error = tag("div")
            element.attributes(aria_labelledby=self._name.html_id, data_view=id)
            with tag("div", classes="curves"):
                for name in _CURVES:
                    self._build_curve(name)
        with card(t("training.alerts")):
            self._alerts = tag("div", classes="alerts")

    def _build_curve(self, name: str) -> None:
        t = self._page.t
        with tag("div", classes="curve", data_curve=name):
            with tag("div", classes="curve-head"):
                tag("h3", t(f"training.{name}"))
                self._values[name] = tag("b", classes="figures")
            chart = self._charts[name] = ui.echart(_build_chart({}), renderer="svg")
            chart.props["role"] = "img"
            chart.props["aria-label"] = t("training.chart", name=t(f"training.{name}"))

    async def refresh(self, run: Json) -> None:
        """Update it if the run has made a step."""
        shown = (run.get("step"), run.get("state"))
        if shown == self._shown:
            return
        summary = await self._page.api.get(f"/runs/{self.id}")
        history = await self._page.api.get(f"/runs/{self.id}/history")
        self._shown = shown
        self._show_summary({**run, **summary})
        self._show_curves(history["rows"], history["others"])
        self._show_alerts([one for one in history["others"] if one.get("kind") == "alert"])

    def _show_summary(self, run: Json) -> None:
        t = self._page.t
        self._name.text = _get_name(run)
        _set_state(t, self._state, run)
        parts = [_describe_run(t, run), format_time(run.get("created"))]
        self._description.text = " · ".join(dict.fromkeys(filter(None, parts)))
        self._error.clear()
        with self._error:
            if run.get("error"):
                error_box(str(run["error"]))
            if run["state"] in ("stopped", "failed") and run.get("job"):
                link(t("training.job"), "/jobs", classes="button plain")
            elif run["state"] in ("stopped", "failed"):
                tag("p", t("training.resume"), classes="soft")
                command_box(t, f"anyrig train --resume {shlex.quote(_get_name(run))}")

    def _show_curves(self, steps: Sequence[Json], others: Sequence[Json]) -> None:
        t = self._page.t
        loss, rate = _list_points(steps, "loss"), _list_points(steps, "rate")
        memory = _list_points(steps, "memory_bytes", 1 / MIB)
        speed = _list_points(steps, "step_s")
        validation = [[one["step"], one["figures"]["loss"]] for one in others
                      if one.get("kind") == "validation"
                      and (one.get("figures") or {}).get("loss") is not None]  # fmt: skip
        series = {t("training.loss"): loss, t("training.validation"): validation}
        self._show_curve("loss", series, f"{loss[-1][1]:.4g}" if loss else "")
        for name, points, text in (
            ("rate", rate, f"{rate[-1][1]:.2g}" if rate else ""),
            ("memory", memory, t.bytes(memory[-1][1] * MIB) if memory else ""),
            ("speed", speed, f"{t.number(1000 * speed[-1][1], 1)}{NBSP}ms" if speed else ""),
        ):
            self._show_curve(name, {t(f"training.{name}"): points}, text)

    def _show_curve(self, name: str, series: Mapping[str, Points], value: str) -> None:
        t, chart = self._page.t, self._charts[name]
        has_points = any(series.values())
        missing = t("training.unknown" if self._shown[0] else "training.waiting")
        self._values[name].text = value if has_points else ""
        chart.options.clear()
        chart.options.update(_build_chart(series, placeholder="" if has_points else missing))
        label = t("training.chart", name=t(f"training.{name}"))
        chart.props["aria-label"] = f"{label} {value}".strip()
        chart.update()

    def _show_alerts(self, alerts: Sequence[Json]) -> None:
        t = self._page.t
        self._alerts.clear()
        with self._alerts:
            if not alerts:
                tag("p", t("training.alerts.none"), classes="soft")
            for alert in alerts[-_MAX_ALERTS:][::-1]:
                with tag("div", classes="note"):
                    step = t("training.step", number=t.number(alert.get("step") or 0))
                    tag("p", f"{alert.get('text', '')} ({step})")
                    if alert.get("hint"):
                        tag("p", alert["hint"], classes="soft")


def _get_name(run: Json) -> str:
    return str(run["name"] or run["id"])


def _set_state(t: Translator, element: Tag, run: Json) -> None:
    state = str(run["state"])
    set_badge(element, t(f"state.{state}"), STATE_MOODS.get(state, "plain"))


def _describe_run(t: Translator, run: Json) -> str:
    """Its step and loss, or its time before the first."""
    step, steps, loss = run.get("step"), run.get("steps"), run.get("loss")
    parts = []
    if step and steps:
        parts.append(t("training.steps", number=t.number(step), all=t.number(steps)))
    elif step:
        parts.append(t("training.step", number=t.number(step)))
    if isinstance(loss, int | float):
        parts.append(describe_loss(t, loss))
    return " · ".join(parts) or format_time(run.get("created"))


def _list_points(steps: Sequence[Json], name: str, scale: float = 1.0) -> list[list[float]]:
    """(step, value) of one figure."""
    return [[one["step"], one[name] * scale] for one in steps if one.get(name) is not None]


def _build_chart(series: Mapping[str, Points], *, placeholder: str = "") -> dict[str, Any]:
    """ECharts options of one or two curves; `placeholder` is shown if there is none.

    The colours are those of the light theme. In the SVG, the style sheet replaces each with its
    variable, so that charts follow the theme.
    """
    shown = {name: points for name, points in series.items() if points}
    return {
        "animation": False,
        "color": [LIGHT["accent"], LIGHT["warn"]],
        "textStyle": {"fontFamily": "inherit"},
        "title": {"show": bool(placeholder), "text": placeholder, "left": "center", "top": "middle",
                  "textStyle": {"fontSize": 13, "fontWeight": "normal", "color": LIGHT["soft"]}},
        "grid": {"left": 4, "right": 18, "top": 32 if len(shown) > 1 else 12, "bottom": 4,
                 "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True},
        "legend": {"show": len(shown) > 1, "top": 0, "left": 0, "icon": "roundRect",
                   "itemHeight": 3, "itemWidth": 14, "textStyle": {"color": LIGHT["soft"]}},
        "xAxis": {"type": "value", "min": "dataMin", "max": "dataMax", "show": bool(shown),
                  "axisLine": {"lineStyle": {"color": LIGHT["line"]}}, "axisTick": {"show": False},
                  "axisLabel": {"color": LIGHT["soft"], "hideOverlap": True},
                  "splitLine": {"show": False}},
        "yAxis": {"type": "value", "scale": True, "splitNumber": 3, "show": bool(shown),
                  "axisLabel": {"color": LIGHT["soft"]},
                  "splitLine": {"lineStyle": {"color": LIGHT["line"]}}},
        "series": [
            {"name": name, "type": "line", "data": list(points), "showSymbol": len(points) < 3,
             "symbolSize": 6, "lineStyle": {"width": 2},
             **({"areaStyle": {"opacity": 0.1}} if len(shown) == 1 else {})}
            for name, points in shown.items()
        ],
    }  # fmt: skip
