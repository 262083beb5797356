"""The training page: ready-made runs to start, and the runs of this machine with live curves."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from nicegui import ui

from anyrig.server.page.api import ENGLISH, ApiError
from anyrig.server.page.components import (
    Field,
    FileDrop,
    Tag,
    badge,
    button,
    card,
    catch_errors,
    command_box,
    empty_state,
    error_box,
    heading,
    link,
    row,
    set_badge,
    show_error,
    show_toast,
    tag,
)
from anyrig.server.page.jobs import STATE_MOODS, describe_loss, format_time
from anyrig.server.page.layout import PageContext
from anyrig.server.page.theme import LIGHT
from anyrig.server.page.translations import NBSP, Translator
from anyrig.training.config_file import READY_NAMES, READY_RUNS, ReadyName
from anyrig.units import MIB

Json = Mapping[str, Any]
Points = Sequence[Sequence[float]]
_POLL_INTERVAL_S = 2.0
_CURVES = ("loss", "rate", "memory", "speed")
_MAX_ALERTS = 20
_UNITS = {"memory": "MiB", "speed": "ms"}
_DATA_KINDS = ("txt", "md", "json", "jsonl", "csv", "text")
_NO_FILE = (("", "–"),)


async def build(page: PageContext) -> None:
    training_page = TrainingPage(page)
    page.run_every(_POLL_INTERVAL_S, training_page.refresh)


class TrainingPage:
    def __init__(self, page: PageContext) -> None:
        self._page, t = page, page.t
        self._selected = page.query.get("run", "")
        self._rows: dict[str, _ListedRun] = {}
        self._view: RunView | None = None
        heading(t("page.training"), t("training.lead"))
        ReadyCard(page)
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

    def _build_row(self, id: str, run: Json) -> _ListedRun:
        with tag("li"), tag("button", type="button", data_run=id) as element:
            with tag("span", classes="row"):
                tag("b", _get_name(run))
                state = badge()
            description = tag("span", classes="soft figures")
        element.on("click", catch_errors(partial(self._select, id)), args=[])
        return _ListedRun(element, state, description)

    def _show_row(self, id: str, run: Json) -> None:
        item = self._rows[id]
        item.button.attributes(aria_current="true" if id == self._selected else None)
        _set_state(self._page.t, item.state, run)
        item.description.text = _describe_run(self._page.t, run)

    async def _select(self, id: str) -> None:
        self._selected = id
        self._page.set_query("run", id)
        await self.refresh()


class ReadyCard:
    """Starts a run that needs nothing but a file."""

    def __init__(self, page: PageContext) -> None:
        self._page, t = page, page.t
        with card(t("training.ready"), note=t("training.ready.note")) as element:
            element.attributes(data_ready="card")
            with tag("div", classes="two"):
                with tag("div", classes="stack"):
                    self._ready = Field(
                        "select", t("training.ready.what"), READY_NAMES[0], name="ready",
                        options=[(name, t(f"training.ready.{name}")) for name in READY_NAMES],
                        on_change=self._show_steps,
                    )  # fmt: skip
                    self._file = Field("select", t("training.ready.file"), "", name="train-file",
                                       options=_NO_FILE)  # fmt: skip
                    self._steps = Field("number", t("training.ready.steps"), "", name="steps",
                                        min=1, max=1_000_000, live=True)  # fmt: skip
                FileDrop(t, self._add, kinds=t("training.ready.kinds"), any_kind=True,
                         multiple=False, accept=".txt,.md,.jsonl,.json")  # fmt: skip
            with row():
                self._button = button(t("training.ready.do"), self._start, kind="primary",
                                      icon_name="train", data_do="train")  # fmt: skip
            self._missing = tag("div", data_missing="torch")
            self._error = tag("div")
        self._show_steps(READY_NAMES[0])
        page.run_soon(lambda: self._load())

    def _show_steps(self, name: ReadyName) -> None:
        self._steps.set_value(READY_RUNS[name].steps)

    async def _add(self, uploads: Sequence[Json]) -> None:
        await self._load(str(uploads[-1]["id"]))

    async def _load(self, chosen: str = "") -> None:
        install = (await self._page.api.get("/runs/ready"))["install"]
        self._button.attributes(disabled=bool(install))
        self._missing.clear()
        with self._missing:
            if install:
                tag("p", self._page.t("training.ready.torch"), classes="note")
                command_box(self._page.t, str(install))
        files = [one for one in (await self._page.api.get("/uploads"))["files"]
                 if one["kind"] in _DATA_KINDS]  # fmt: skip
        options = [(str(one["id"]), str(one["name"])) for one in files]
        before = chosen or str(self._file.value)
        value = before if before in dict(options) else options[0][0] if options else ""
        self._file.set_options(options or _NO_FILE, value)

    async def _start(self) -> None:
        t = self._page.t
        self._error.clear()
        body = {"ready": self._ready.value, "file": f"upload:{self._file.value}",
                "steps": int(self._steps.value or 0) or None}  # fmt: skip
        try:
            if not self._file.value:
                raise ApiError(400, t("training.ready.no_file"), t("training.ready.no_file.do"))
            await self._page.api.post("/runs", body)
        except ApiError as error:
            show_error(self._error, error)
            return
        show_toast(t("training.started"), "good")


class _ListedRun(NamedTuple):
    button: Tag
    state: Tag
    description: Tag


class RunView:
    """A training run: its state, four curves, a sample of its text, and its alerts."""

    def __init__(self, page: PageContext, id: str) -> None:
        self.id, self._page, t = id, page, page.t
        self._shown: tuple[Any, Any] = (None, None)
        self._run: Json = {}
        self._charts: dict[str, ui.echart] = {}
        self._values: dict[str, Tag] = {}
        with card(classes="run") as element:
            with row("ends"):
                self._name = tag("h2")
                self._state = badge()
            self._description = tag("p", classes="soft figures")
            with row():
                self._stop = button(t("training.stop"), self._confirm_stop, icon_name="stop",
                                    data_do="stop")  # fmt: skip
                self._resume = button(t("training.resume.do"), partial(self._post, "resume"),
                                      icon_name="play", data_do="resume")  # fmt: skip
                self._report = link(t("training.report"), f"/runs/{id}/report", target="_blank",
                                    classes="button plain", data_do="report")  # fmt: skip
            self._stop_hint = tag("p", t("training.stop.terminal"), classes="soft")
            self._error = tag("div")
            element.attributes(aria_labelledby=self._name.html_id, data_view=id)
            with tag("div", classes="curves"):
                for name in _CURVES:
                    self._build_curve(name)
        with card(t("training.sample")) as self._sample_card:
            self._sample = tag("p", classes="passage sheet", tabindex="0", role="region",
                               aria_label=t("training.sample"), data_sample=id)  # fmt: skip
        self._sample_card.set_visibility(False)
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
        rows = history["rows"]
        left_s = rows[-1].get("eta_s") if rows and run["state"] == "running" else None
        self._show_summary({**run, **summary, "left_s": left_s})
        self._show_curves(history["rows"], history["others"])
        self._show_alerts([one for one in history["others"] if one.get("kind") == "alert"])

    def _show_summary(self, run: Json) -> None:
        t = self._page.t
        self._run = run
        self._name.text = _get_name(run)
        _set_state(t, self._state, run)
        left_s = run["left_s"]
        left = t("frame.left", time=t.duration(left_s)) if left_s else ""
        parts = [_describe_run(t, run), left, format_time(run.get("created"))]
        self._description.text = " · ".join(dict.fromkeys(filter(None, parts)))
        self._show_actions(run)
        sample = str(((run.get("result") or {}).get("made") or {}).get("sample") or "")
        self._sample.text = sample
        self._sample_card.set_visibility(bool(sample.strip()))
        self._error.clear()
        with self._error:
            if run.get("error"):
                error_box(str(run["error"]), lang=ENGLISH)
            if run["state"] in ("stopped", "failed") and not run.get("job"):
                tag("p", t("training.resume"), classes="soft")
                command_box(t, f"anyrig train --resume {shlex.quote(_get_name(run))}")

    def _show_actions(self, run: Json) -> None:
        is_running, job = run["state"] == "running", run.get("job")
        self._stop.set_visibility(is_running and bool(job))
        self._stop_hint.set_visibility(is_running and not job)
        self._resume.set_visibility(run["state"] in ("stopped", "failed") and bool(job))
        self._report.set_visibility(bool(run.get("step")))

    def _confirm_stop(self) -> None:
        self._page.confirm_stop("train", _get_name(self._run), partial(self._post, "cancel"))

    async def _post(self, action: str) -> None:
        await self._page.api.post(f"/jobs/{self._run['job']}/{action}")

    def _show_curves(self, steps: Sequence[Json], others: Sequence[Json]) -> None:
        t = self._page.t
        loss, rate = _list_points(steps, "loss"), _list_points(steps, "rate")
        memory = _list_points(steps, "memory_bytes", 1 / MIB)
        speed = _list_points(steps, "step_s", 1000.0)
        validation = [[one["step"], one["figures"]["loss"]] for one in others
                      if one.get("kind") == "validation"
                      and (one.get("figures") or {}).get("loss") is not None]  # fmt: skip
        series = {t("training.loss"): loss, t("training.validation"): validation}
        self._show_curve("loss", series, f"{loss[-1][1]:.4g}" if loss else "")
        for name, points, text in (
            ("rate", rate, f"{rate[-1][1]:.2g}" if rate else ""),
            ("memory", memory, t.bytes(memory[-1][1] * MIB) if memory else ""),
            ("speed", speed, f"{t.number(speed[-1][1], 1)}{NBSP}ms" if speed else ""),
        ):
            self._show_curve(name, {t(f"training.{name}"): points}, text)

    def _show_curve(self, name: str, series: Mapping[str, Points], value: str) -> None:
        t, chart = self._page.t, self._charts[name]
        has_points = any(series.values())
        missing = t("training.unknown" if self._shown[0] else "training.waiting")
        self._values[name].text = value if has_points else ""
        chart.options.clear()
        chart.options.update(_build_chart(
            series, placeholder="" if has_points else missing, x_name=t("training.axis"),
            y_name=_UNITS.get(name, ""),
        ))  # fmt: skip
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


def _build_chart(
    series: Mapping[str, Points], *, placeholder: str = "", x_name: str = "", y_name: str = ""
) -> dict[str, Any]:
    """ECharts options of one or two curves; `placeholder` is shown if there is none.

    `x_name` and `y_name` are what the axes measure.

    The colours are those of the light theme. In the SVG, the style sheet replaces each with its
    variable, so that charts follow the theme.
    """
    shown = {name: points for name, points in series.items() if points}
    name_style = {"color": LIGHT["soft"], "fontSize": 11}
    return {
        "animation": False,
        "color": [LIGHT["accent"], LIGHT["warn"]],
        "textStyle": {"fontFamily": "inherit"},
        "title": {"show": bool(placeholder), "text": placeholder, "left": "center", "top": "middle",
                  "textStyle": {"fontSize": 13, "fontWeight": "normal", "color": LIGHT["soft"]}},
        "grid": {"left": 4, "right": 18, "bottom": 18,
                 "top": (32 if len(shown) > 1 else 12) + (14 if y_name else 0),
                 "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True},
        "legend": {"show": len(shown) > 1, "top": 0, "left": 0, "icon": "roundRect",
                   "itemHeight": 3, "itemWidth": 14, "textStyle": {"color": LIGHT["soft"]}},
        "xAxis": {"type": "value", "min": "dataMin", "max": "dataMax", "show": bool(shown),
                  "name": x_name, "nameLocation": "middle", "nameGap": 22,
                  "nameTextStyle": name_style,
                  "axisLine": {"lineStyle": {"color": LIGHT["line"]}}, "axisTick": {"show": False},
                  "axisLabel": {"color": LIGHT["soft"], "hideOverlap": True},
                  "splitLine": {"show": False}},
        "yAxis": {"type": "value", "scale": True, "splitNumber": 3, "show": bool(shown),
                  "name": y_name, "nameGap": 8, "nameTextStyle": {**name_style, "align": "left"},
                  "axisLabel": {"color": LIGHT["soft"]},
                  "splitLine": {"lineStyle": {"color": LIGHT["line"]}}},
        "series": [
            {"name": name, "type": "line", "data": list(points), "showSymbol": len(points) < 3,
             "symbolSize": 6, "lineStyle": {"width": 2},
             **({"areaStyle": {"opacity": 0.1}} if len(shown) == 1 else {})}
            for name, points in shown.items()
        ],
    }  # fmt: skip
