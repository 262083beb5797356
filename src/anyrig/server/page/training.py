"""The training page: runs of this machine, with their curves as they come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anyrig.server.page import jobs_facts
from anyrig.server.page.frame import Here
from anyrig.server.page.pieces import Tag, badge, card, copyable, empty, heading, safely, tag
from anyrig.server.page.training_facts import name_of, steps_of
from anyrig.server.page.training_run import RunView

LOOK_S = 2.0
COMMAND = "anyrig train config.toml"


async def build(here: Here) -> None:
    """The page."""
    page = _Page(here)
    here.every(LOOK_S, page.refresh)


class _Row(NamedTuple):
    """A run in the list."""

    button: Tag
    state: Tag
    about: Tag


class _Page:
    def __init__(self, here: Here) -> None:
        self._here = here
        self._shown = here.query.get("run", "")
        self._rows: dict[str, _Row] = {}
        self._view: RunView | None = None
        t = here.t
        heading(t("page.training"), t("training.lead"))
        with tag("div") as self._nothing, empty(
            t("training.empty"), t("training.empty.do"), icon_name="train"
        ):  # fmt: skip
            copyable(t, COMMAND)
        self._nothing.set_visibility(False)
        with tag("div", classes="desk") as self._desk:
            with card(t("training.runs")):
                self._list = tag("ul", classes="runs")
            self._place = tag("div", classes="stack")
        self._desk.set_visibility(False)

    async def refresh(self) -> None:
        """Runs as they stand, and the curves of the one that is looked at."""
        runs = list((await self._here.api.get("/runs"))["runs"])
        runs.sort(key=lambda run: float(run.get("created") or 0), reverse=True)
        self._nothing.set_visibility(not runs)
        self._desk.set_visibility(bool(runs))
        if not runs:
            return
        known = {str(run["id"]): run for run in runs}
        if self._shown not in known:
            self._shown = str(runs[0]["id"])
        if list(known) != list(self._rows):
            self._draw(runs)
        for run in runs:
            self._tell(run)
        await self._look(known[self._shown])

    async def _look(self, run: Mapping[str, Any]) -> None:
        if self._view is None or self._view.id != run["id"]:
            self._place.clear()
            with self._place:
                self._view = RunView(self._here, str(run["id"]))
        await self._view.look(run)

    def _draw(self, runs: Sequence[Mapping[str, Any]]) -> None:
        """Rows for these; drawn anew only when there are others, so that a focus stays."""
        self._list.clear()
        self._rows.clear()
        with self._list:
            for run in runs:
                id = str(run["id"])
                with tag("li"), tag("button", type="button", data_run=id) as one:
                    with tag("span", classes="row"):
                        tag("b", name_of(run))
                        state = badge("")
                    about = tag("span", classes="soft figures")
                one.on("click", safely(self._choose(id)), args=[])
                self._rows[id] = _Row(one, state, about)

    def _tell(self, run: Mapping[str, Any]) -> None:
        t, row, state = self._here.t, self._rows[str(run["id"])], str(run["state"])
        row.button.attributes(aria_current="true" if run["id"] == self._shown else None)
        row.state.text = t(f"state.{state}")
        row.state.classes(replace=f"badge {jobs_facts.MOODS.get(state, 'plain')}")
        row.about.text = steps_of(self._here, run)

    def _choose(self, id: str) -> Any:
        async def chosen() -> None:
            self._shown = id
            await self.refresh()

        return chosen
