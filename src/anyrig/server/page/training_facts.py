"""A training run in a person's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyrig.server.page import jobs_facts
from anyrig.server.page.frame import Here


def name_of(run: Mapping[str, Any]) -> str:
    """What a run is called."""
    return str(run["name"] or run["id"])


def steps_of(here: Here, run: Mapping[str, Any]) -> str:
    """How far a run is, and what its loss is."""
    t, step, steps, loss = here.t, run.get("step"), run.get("steps"), run.get("loss")
    parts = []
    if step and steps:
        parts.append(t("training.steps", number=t.number(step), all=t.number(steps)))
    elif step:
        parts.append(t("training.of", number=t.number(step)))
    if isinstance(loss, int | float):
        parts.append(t("jobs.tell.loss", loss=f"{loss:.4g}"))
    return " · ".join(parts) or jobs_facts.since(run.get("created"))
