"""The rig page: the devices, how they are doing, which one is used, and how fast they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anyrig.devices.reasons import ReasonCode
from anyrig.server.page.api import ENGLISH, ApiError, explain_forbidden
from anyrig.server.page.charts import Chart, draw_bars, draw_line
from anyrig.server.page.components import (
    Field,
    ProgressBar,
    Tag,
    badge,
    button,
    card,
    command_box,
    empty_state,
    error_box,
    heading,
    icon,
    link,
    row,
    set_badge,
    show_toast,
    tag,
)
from anyrig.server.page.jobs import ACTIVE, describe_time_left
from anyrig.server.page.layout import PageContext
from anyrig.server.page.translations import NBSP, Translator

Json = Mapping[str, Any]
_DEVICES_INTERVAL_S = 2.0
_BENCH_INTERVAL_S = 1.0
_NEARLY_FULL = 0.9


def show_machine_line(page: PageContext) -> Tag:
    """What this machine is and how fast it makes books, in one line."""
    t = page.t
    with tag("p", classes="soft machine-line", data_machine="line") as element:
        text = tag("span")
        link(t("rig.line.more"), "/rig")

    async def load() -> None:
        devices, bench = await page.api.get("/devices"), await page.api.get("/bench")
        names = ", ".join(one["name"] for one in devices["devices"] if one["chosen"])
        speeds = list(bench["books"].values())
        key, speed = (
            ("rig.line.books", _format_speed(t, speeds[-1])) if speeds else ("rig.line", "")
        )
        text.text = t(key, device=names or t("rig.the_cpu"), speed=speed)

    page.run_soon(load)
    return element


def _format_speed(t: Translator, times_real_time: float) -> str:
    return t.number(times_real_time, 0 if times_real_time >= 3 else 1)


async def build(page: PageContext) -> None:
    heading(page.t("page.rig"), page.t("rig.lead"))
    rig_page = RigPage(page, await page.api.get("/devices"))
    bench = BenchCard(page)
    await bench.load()
    page.run_every(_BENCH_INTERVAL_S, bench.refresh)
    page.run_every(_DEVICES_INTERVAL_S, rig_page.refresh)


class RigPage:
    def __init__(self, page: PageContext, devices: Json) -> None:
        """`devices` is the response of `/devices`."""
        self._page, t = page, page.t
        self._shown: object = None
        with card(), tag("div", classes="chooser"):
            self._device = Field(
                "select", t("rig.use"), _find_selection(devices), hint=t("rig.use.hint"),
                options=self._list_options(devices), on_change=self._choose, name="device",
            )  # fmt: skip
            with tag("div", role="status"):
                self._reason = tag("p", classes="reason")
                self._warnings = tag("div", classes="soft")
        if not devices["devices"]:
            with empty_state(t("rig.none"), t("rig.none.hint"), "chip"):
                command_box(t, "anyrig doctor")
        with tag("div", classes="grid"):
            self._cards = {one["id"]: DeviceCard(t, one) for one in devices["devices"]}
        self._show(devices)

    async def refresh(self) -> None:
        self._show(await self._page.api.get("/devices"))
        history = (await self._page.api.get("/metrics/gpu"))["history"]
        for id, device_card in self._cards.items():
            device_card.draw_history(id, history)

    def _show(self, devices: Json) -> None:
        self._show_choice(devices)
        for device in devices["devices"]:
            if device["id"] in self._cards:
                self._cards[device["id"]].show(device, devices["devices"])

    def _show_choice(self, devices: Json) -> None:
        """Show which device is used and why; only if that has changed."""
        shown = (devices["reason"], devices["warnings"])
        if shown == self._shown:
            return
        self._shown, t = shown, self._page.t
        choice, before, after = devices["choice"], "", ""
        if choice:
            names = {one["id"]: t("rig.the_cpu") if one["kind"] == "cpu" else one["name"]
                     for one in devices["devices"]}  # fmt: skip
            used = ", ".join(names.get(id, str(id)) for id in choice["devices"])
            before, after = f"{used} (", ")"
        self._reason.clear()
        with self._reason:
            tag("span", t("rig.now", reason=before))
            _write(explain_choice(t, devices))
            tag("span", after)
        self._warnings.clear()
        with self._warnings:
            for text in devices["warnings"]:
                tag("p", text, lang=ENGLISH)

    async def _choose(self, device: str) -> None:
        t, api = self._page.t, self._page.api
        try:
            devices = await api.put("/devices/chosen", {"device": device})
        except ApiError as error:
            self._device.set_value(_find_selection(await api.get("/devices")))
            raise explain_forbidden(t, error) from error
        self._show(devices)
        name = dict(self._list_options(devices))[_find_selection(devices)]
        show_toast(t("rig.used", name=name), "good", "; ".join(devices["warnings"]))

    def _list_options(self, devices: Json) -> list[tuple[str, str]]:
        t, selection = self._page.t, _find_selection(devices)
        options = {"auto": t("rig.use.auto"), "all": t("rig.use.all")}
        options |= {one["id"]: one["name"] for one in devices["devices"]}
        options.setdefault(selection, selection)
        return list(options.items())


def _find_selection(devices: Json) -> str:
    """The id of the requested device, `auto` or `all`, or a selector that matches none."""
    selector = str(devices.get("selector") or "auto")
    if selector in ("auto", "all"):
        return selector
    ids = [str(one["id"]) for one in devices["devices"]
           if selector in (one["id"], *one.get("selectors", ()))]  # fmt: skip
    return ids[0] if ids else selector


class DeviceCard:
    """A device: what it is, how it is doing, what runs there, why it is not used."""

    def __init__(self, t: Translator, device: Json) -> None:
        self._t = t
        self._shown_reason: object = ("", "")
        self._shown_processes: object = None
        with card(classes="device") as element:
            element.attributes(data_device=device["id"])
            with tag("div", classes="device-head"):
                with tag("span", classes="device-icon"):
                    icon("chip" if device["kind"] == "gpu" else "gauge")
                with tag("div", classes="grow"):
                    tag("h2", device["name"])
                    tag("p", t.find(f"rig.kind.{device['kind']}"), classes="soft")
                self._state = badge()
            self._reason = tag("div", classes="stack")
            self._memory = ProgressBar(t("rig.memory"))
            with tag("dl", classes="stats"):
                self._stats = {
                    key: self._build_stat(key) for key in ("load", "temperature", "power")
                }
            with tag("div", classes="charts"):
                self._charts = {key: self._build_chart(key) for key in ("load", "memory")}
            with tag("div"):
                tag("h3", t("rig.running"))
                self._processes = tag("ul", classes="plain-list")

    def _build_stat(self, key: str) -> Tag:
        with tag("div"):
            tag("dt", self._t(f"rig.{key}"))
            return tag("dd", classes="figures")

    def _build_chart(self, key: str) -> Chart:
        with tag("figure"):
            tag("figcaption", self._t(f"rig.{key}"), classes="soft")
            return Chart(self._t(f"rig.{key}"), draw_line([]))

    def show(self, device: Json, devices: Sequence[Json]) -> None:
        t = self._t
        if not device["usable"]:
            set_badge(self._state, t("rig.not_usable"), "bad")
        elif device["chosen"]:
            set_badge(self._state, t("rig.in_use"), "good")
        else:
            set_badge(self._state, t("rig.ready"), "plain")
        self._show_memory(device)
        load, degrees = device["load"], device["temperature_c"]
        texts = {
            "load": "" if load is None else t.percent(load / 100),
            "temperature": "" if degrees is None else f"{t.number(degrees)}{NBSP}°C",
            "power": _format_power(t, device["power_w"], device.get("power_limit_w")),
        }
        for key, stat in self._stats.items():
            stat.text = texts[key] or t("rig.unknown")
            stat.classes(remove="soft") if texts[key] else stat.classes("soft")
        self._show_reason(device, devices)
        self._show_processes(device["running"])

    def _show_memory(self, device: Json) -> None:
        t, total, free = self._t, device["memory_total_bytes"], device["memory_free_bytes"]
        if not total or free is None:
            self._memory.set(0, t.bytes(total) if total else t("rig.unknown"))
            return
        used = total - free
        text = t("rig.memory.of", used=t.bytes(used), total=t.bytes(total))
        self._memory.set(used / total, text)
        self._memory.set_warning(used / total > _NEARLY_FULL)

    def _show_reason(self, device: Json, devices: Sequence[Json]) -> None:
        if (device["reason"], device["fix"]) == self._shown_reason:
            return
        self._shown_reason = (device["reason"], device["fix"])
        self._reason.clear()
        if not device["reason"]:
            return
        with self._reason, tag("div", classes="note"):
            tag("p", self._t("rig.why"), classes="note-title")
            with tag("p"):
                _write(explain_device(self._t, device, devices))
            if device["fix"]:
                tag("p", self._t("rig.fix"), classes="soft")
                command_box(self._t, device["fix"])

    def _show_processes(self, processes: Sequence[Json]) -> None:
        rows = [(one["name"], one["memory_bytes"], one["ours"]) for one in processes]
        if rows == self._shown_processes:
            return
        self._shown_processes, t = rows, self._t
        self._processes.clear()
        with self._processes:
            for name, size, ours in rows:
                with tag("li"), row("ends"):
                    tag("span", name if ours else f"{name} ({t('rig.running.others')})")
                    tag("span", t.bytes(size) if size else "", classes="soft figures")
            if not rows:
                tag("li", t("rig.running.none"), classes="soft")

    def draw_history(self, id: str, history: Sequence[Json]) -> None:
        """Draw the last minutes."""
        t = self._t
        samples = [(one["time"], one["devices"][id]) for one in history if id in one["devices"]]
        if not samples:
            return
        now, last = samples[-1]

        def format_age(moment: float) -> str:
            age_s = now - moment
            return t("frame.ago", time=t.duration(age_s)) if age_s > 1 else t("rig.just_now")

        def draw(key: str, field: str, scale: float, top: Any, write: Any) -> None:
            points = [(moment, scale * sample[field]) for moment, sample in samples
                      if sample[field] is not None]  # fmt: skip
            if points:
                label = t(f"rig.chart.{key}", now=write(points[-1][1]))
                drawing = draw_line(points, top=top, format_x=format_age, format_y=write)
                self._charts[key].replace(drawing, label)

        draw("load", "compute_percent", 0.01, 1.0, t.percent)
        draw("memory", "memory_used_bytes", 1, last["memory_total_bytes"], t.bytes)


def _format_power(t: Translator, power: float | None, limit: float | None) -> str:
    if power is None:
        return ""
    return t.number(power) + (f" / {t.number(limit)}" if limit else "") + f"{NBSP}W"


# -- reasons ---------------------------------------------------------------------------------------


class TranslatedText(NamedTuple):
    """A part of a reason, and its language if that is not the page's."""

    text: str
    lang: str = ""


def explain_choice(t: Translator, devices: Json) -> list[TranslatedText]:
    """Why the device in use was chosen, of the response of `/devices`."""
    choice, rows = devices["choice"], devices["devices"]
    if not choice:
        return [TranslatedText(str(devices["reason"]), ENGLISH)]
    if choice["code"] == ReasonCode.UNUSABLE and t.language != "en":
        name = choice["values"]["name"]
        unusable = [one for one in rows if one["name"] == name and one["reason"]]
        if unusable:
            start = TranslatedText(t("rig.cannot_be_used", name=name))
            return [start, *explain_device(t, unusable[0], rows)]
    return [_translate_reason(t, choice["reason"], choice, rows, selector=devices["selector"])]


def explain_device(t: Translator, device: Json, devices: Sequence[Json]) -> list[TranslatedText]:
    """Why a device is not used: one phrase for each backend if none can use it."""
    backends = [one for one in device["backends"] if not one["usable"]]
    if device["code"] == ReasonCode.NO_BACKEND and backends and t.language != "en":
        phrases = [_translate_reason(t, one["reason"], one, devices) for one in backends]
        return list(dict.fromkeys(phrases))
    return [_translate_reason(t, device["reason"], device, devices)]


def _translate_reason(
    t: Translator, message: str, reason: Json, devices: Sequence[Json], **more: str
) -> TranslatedText:
    """A reason by its `code` and `values`; the English message for one without translation."""
    if t.language == "en":
        return TranslatedText(message)
    text = t.find(f"reason.{reason['code']}")
    if not text:
        return TranslatedText(message, ENGLISH)
    values = {**reason["values"], **more}
    if "name" in values and values["name"] not in [one["name"] for one in devices]:
        values["name"] = t("rig.the_cpu")  # the one device that reasons do not call by its name
    return TranslatedText(text.format_map(values))


def _write(phrases: Sequence[TranslatedText]) -> None:
    for number, phrase in enumerate(phrases, 1):
        ending = " " if phrase.text.endswith(":") else "; "
        text = phrase.text + (ending if number < len(phrases) else "")
        tag("span", text, lang=phrase.lang or None)


# -- benchmark -------------------------------------------------------------------------------------


class BenchCard:
    """The measurements of every device, and a button that starts a benchmark."""

    def __init__(self, page: PageContext) -> None:
        self._page, self._job, t = page, "", page.t
        with card(t("bench.title"), note=t("bench.note")) as element:
            element.attributes(id="bench")
            with row():
                self._run = button(t("bench.run"), self._start, kind="primary", icon_name="gauge")
                self._stop = button(t("bench.stop"), self._cancel, icon_name="stop")
                self._quick = Field("check", t("bench.quick"), True)
            with tag("div", role="status"):
                self._bar = ProgressBar(t("bench.running"))
            self._error = tag("div")
            self._books = tag("div", data_bench="books")
            self._figures = tag("div", classes="stack")

    async def load(self) -> None:
        """Show the measurements, and a benchmark that is running."""
        await self._show_figures()
        found = await self._page.api.get("/jobs", kind="bench", state=list(ACTIVE))
        self._set_job(str(found["jobs"][0]["id"]) if found["jobs"] else "")

    async def _start(self) -> None:
        self._error.clear()
        arguments = {"quick": True} if self._quick.value else {}
        job = await self._page.api.post("/jobs", {"kind": "bench", "arguments": arguments})
        self._bar.set(0, "", self._page.t("bench.waiting"))
        self._set_job(str(job["id"]))

    async def _cancel(self) -> None:
        if self._job:
            await self._page.api.post(f"/jobs/{self._job}/cancel")

    def _set_job(self, id: str) -> None:
        self._job = id
        self._bar.element.set_visibility(bool(id))
        self._stop.set_visibility(bool(id))
        self._run.attributes(disabled=bool(id))

    async def refresh(self) -> None:
        if not self._job:
            return
        t, job = self._page.t, await self._page.api.get(f"/jobs/{self._job}")
        if job["state"] in ACTIVE:
            progress = job.get("progress") or {}
            label = "bench.running" if job["state"] == "running" else "bench.waiting"
            stage = t.find(f"jobs.stage.{progress.get('stage')}")
            text = describe_time_left(t, progress) or stage
            self._bar.set(float(progress.get("done") or 0), text, t(label))
            return
        self._set_job("")
        await self._show_figures()
        if job["state"] == "done":
            show_toast(t("bench.done"), "good")
        elif job["state"] == "cancelled":
            show_toast(t("bench.stopped"))
        else:
            error = job["error"] or {"message": "", "hint": ""}
            with self._error:
                error_box(t("bench.failed"), f"{error['message']} {error['hint']}".strip())

    async def _show_figures(self) -> None:
        t = self._page.t
        by_device: dict[str, list[Json]] = {}
        bench = await self._page.api.get("/bench")
        self._show_books(bench["books"])
        for figure in bench["figures"]:
            by_device.setdefault(figure["name"], []).append(figure)
        self._figures.clear()
        with self._figures:
            if not by_device:
                empty_state(t("bench.none"), t("bench.none.hint"), "gauge")
            for name, figures in by_device.items():
                tag("h3", name)
                for unit in dict.fromkeys(one["unit"] for one in figures):  # each has its own scale
                    self._build_chart(name, [one for one in figures if one["unit"] == unit])
                if when := str(figures[0].get("when") or ""):
                    tag("p", t("bench.when", when=when[:16].replace("T", " ")), classes="soft")

    def _show_books(self, speeds: Mapping[str, float]) -> None:
        """The figure that people ask for: how long a book takes."""
        t = self._page.t
        self._books.clear()
        with self._books:
            if not speeds:
                tag("p", t("rig.books.none"), classes="soft")
                return
            voice, speed = list(speeds.items())[-1]
            time = t.duration(3600 / speed)
            tag("p", t("rig.books", speed=_format_speed(t, speed), time=time), classes="reason")
            tag("p", t("rig.books.voice", voice=voice), classes="soft")

    def _build_chart(self, name: str, figures: Sequence[Json]) -> None:
        t = self._page.t
        rows = []
        for one in figures:
            details = [] if one["kernel"] == "bandwidth" else [one["precision"], f"{one['size']}²"]
            kernel = t.find(f"bench.kernel.{one['kernel']}", one["kernel"])
            label = " · ".join(filter(None, [kernel, *details]))
            rows.append((label, one["value"], t.quantity(one["value"], one["unit"])))
        text = "; ".join(f"{label} {value}" for label, _, value in rows)
        Chart(t("bench.chart", name=name, figures=text), draw_bars(rows))
