"""A device as a card: what it is, how it is doing, what runs there, why it is not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyrig.server.page import rig_reasons
from anyrig.server.page.charts import Chart, Series, lines
from anyrig.server.page.pieces import Bar, badge, card, copyable, icon, row, tag
from anyrig.server.page.words import Words

_NEARLY_FULL = 0.9


class DeviceCard:
    """One device; `tell` and `draw` bring it up to date."""

    def __init__(self, t: Words, device: Mapping[str, Any]) -> None:
        self._t = t
        self._why_told: tuple[str, str] | None = None
        self._running_told: list[tuple[str, int | None, bool | None]] | None = None
        with card(classes="device") as self.sheet:
            self.sheet.attributes(data_device=device["id"])
            with tag("div", classes="device-head"):
                with tag("span", classes="device-icon"):
                    icon("chip" if device["kind"] == "gpu" else "gauge")
                with tag("div", classes="grow"):
                    tag("h2", device["name"])
                    tag("p", t.known(f"rig.kind.{device['kind']}"), classes="soft")
                self._state = badge("")
            self._why = tag("div", classes="stack")
            self._memory = Bar(t("rig.memory"))
            with tag("dl", classes="stats"):
                self._stats = {key: self._stat(key) for key in ("load", "temperature", "power")}
            with tag("div", classes="charts"):
                self._charts = {}
                for key in ("load", "memory"):
                    with tag("figure"):
                        tag("figcaption", t(f"rig.{key}"), classes="soft")
                        self._charts[key] = Chart(t(f"rig.{key}"), lines([], write_y=_nothing))
            with tag("div"):
                tag("h3", t("rig.running"))
                self._running = tag("ul", classes="plain-list")
        self.tell(device)

    def _stat(self, key: str) -> Any:
        with tag("div"):
            tag("dt", self._t(f"rig.{key}"))
            return tag("dd", classes="figures")

    def tell(self, device: Mapping[str, Any]) -> None:
        """Show what it is like now."""
        t = self._t
        word, mood = ("in_use", "good") if device["chosen"] else ("ready", "plain")
        if not device["usable"]:
            word, mood = "not_usable", "bad"
        self._state.text = t(f"rig.{word}")
        self._state.classes(replace=f"badge {mood}")
        self._tell_memory(device)
        said = {
            "load": _or(device["load"], lambda x: t.percent(x / 100)),
            "temperature": _or(device["temperature_c"], lambda x: f"{t.number(x)}\u00a0°C"),
            "power": _or(device["power_w"], lambda x: _watts(t, x, device.get("power_limit_w"))),
        }
        for key, stat in self._stats.items():
            stat.text = said[key] or t("rig.unknown")
            stat.classes(remove="soft") if said[key] else stat.classes("soft")
        self._tell_why(device)
        self._tell_running(device["running"])

    def _tell_memory(self, device: Mapping[str, Any]) -> None:
        total, free = device["memory_total_bytes"], device["memory_free_bytes"]
        if not total or free is None:
            self._memory.show(0, self._t("rig.unknown") if not total else self._t.bytes(total))
            return
        used = self._t(
            "rig.memory.of", used=self._t.bytes(total - free), total=self._t.bytes(total)
        )
        self._memory.show((total - free) / total, used)
        self._memory.warn((total - free) / total > _NEARLY_FULL)

    def _tell_why(self, device: Mapping[str, Any]) -> None:
        why = (device["why"], device["fix"])
        if why == self._why_told:
            return
        self._why_told = why
        self._why.clear()
        if not device["why"]:
            return
        with self._why, tag("div", classes="note"):
            tag("p", self._t("rig.why"), classes="note-title")
            with tag("p"):
                rig_reasons.write(rig_reasons.reason(self._t, str(device["why"])))
            if device["fix"]:
                tag("p", self._t("rig.fix"), classes="soft")
                copyable(self._t, device["fix"])

    def _tell_running(self, running: Sequence[Mapping[str, Any]]) -> None:
        rows = [(one["name"], one["memory_bytes"], one["ours"]) for one in running]
        if rows == self._running_told:
            return
        self._running_told = rows
        self._running.clear()
        with self._running:
            for name, size, ours in rows:
                with tag("li"), row("ends"):
                    tag("span", name if ours else f"{name} ({self._t('rig.running.others')})")
                    tag("span", self._t.bytes(size) if size else "", classes="soft figures")
            if not rows:
                tag("li", self._t("rig.running.none"), classes="soft")

    def draw(self, device: str, history: Sequence[Mapping[str, Any]]) -> None:
        """The charts of the last minutes."""
        t = self._t
        rows = [
            (one["time"], one["devices"][device]) for one in history if device in one["devices"]
        ]
        if not rows:
            return
        last = rows[-1][0]
        load = [(when, one["compute_percent"]) for when, one in rows
                if one["compute_percent"] is not None]  # fmt: skip
        memory = [(when, one["memory_used_bytes"]) for when, one in rows
                  if one["memory_used_bytes"] is not None]  # fmt: skip

        def moment(when: float) -> str:
            return t("rig.ago", span=t.span(last - when)) if last - when > 1 else t("rig.just_now")

        if load:
            self._charts["load"].draw(
                lines([Series("", load)], top=100, write_x=moment,
                      write_y=lambda y: t.percent(y / 100)),
                t("rig.chart.load", now=t.percent(load[-1][1] / 100)),
            )  # fmt: skip
        if memory:
            total = rows[-1][1]["memory_total_bytes"]
            self._charts["memory"].draw(
                lines([Series("", memory)], top=total, write_x=moment, write_y=t.bytes),
                t("rig.chart.memory", now=t.bytes(memory[-1][1])),
            )


def _or(value: Any, write: Any) -> str:
    return write(value) if value is not None else ""


def _watts(t: Words, power: float, limit: float | None) -> str:
    unit = "\u00a0W"
    return f"{t.number(power)} / {t.number(limit)}{unit}" if limit else f"{t.number(power)}{unit}"


def _nothing(value: float) -> str:
    return ""
