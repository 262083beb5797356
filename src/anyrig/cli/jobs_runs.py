"""Training runs in the list of jobs: those that `anyrig train` began by itself, without a queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from anyrig.app import runs as training_runs
from anyrig.app.runs import RegisteredRun, RunState
from anyrig.cli.context import Context
from anyrig.cli.show import print_json
from anyrig.cli.training_output import format_resume, format_summary, shorten
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.jobs import Job

_FEWEST_LETTERS = 3


def runs(context: Context, jobs: Iterable[Job] = ()) -> list[RegisteredRun]:
    """The runs of this user that are no queued job's."""
    queued = {str(job.arguments.get("run")) for job in jobs if job.kind == "train"}
    found = training_runs.list_registered(context.folders.runs)
    return [one for one in found if str(one.folder) not in queued]


def named(context: Context, words: Sequence[str]) -> list[RegisteredRun]:
    """The runs that ids or their first letters name; empty where one of them names a job."""
    known, chosen = runs(context), []
    for word in words:
        alike = [one for one in known if one.id.startswith(word.lower())]
        if len(word) < _FEWEST_LETTERS or len(alike) != 1:
            return []
        chosen.append(alike[0])
    return chosen


def plain(one: RegisteredRun) -> dict[str, Any]:
    """A run for programs, beside jobs."""
    state = one.state
    return {
        "id": one.id, "kind": "train", "run": str(one.folder), "state": state.status,
        "step": state.step, "steps": state.steps, "loss": state.loss, "error": state.error or None,
        "created": one.created, "since": state.since,
    }  # fmt: skip


def row(one: RegisteredRun) -> tuple[list[str], float]:
    """A run as a line of the list, without its time; and that."""
    state = one.state
    return [one.id, "train", shorten(one.folder), state_text(state)], state.since or one.created


def state_text(state: RunState) -> str:
    """`running, step 120/600, loss 2.31`."""
    parts: list[str] = [state.status]
    if state.step:
        parts.append(f"step {state.step}" + (f"/{state.steps}" if state.steps else ""))
    if state.loss is not None:
        parts.append(f"loss {state.loss:.4g}")
    return ", ".join(parts)


def act(context: Context, action: str, chosen: Sequence[RegisteredRun]) -> int:
    """Show or forget runs; what else can be done with one, `anyrig train` does."""
    if action == "delete":
        for one in chosen:
            training_runs.check_not_running(one.folder)
            training_runs.unregister_run(context.folders.runs, one.id)
            if not context.options.json:
                print(f"{one.id}: forgotten; {shorten(one.folder)} stays")
        if context.options.json:
            print_json([{**plain(one), "deleted": True} for one in chosen])
        return 0
    if action == "show":
        return _show(context, chosen)
    ended = "Press Ctrl-C where it runs: it keeps what it has."
    raise InvalidInputError(
        f"{chosen[0].id} is a run that was begun without a queue",
        hint=f"`{format_resume(chosen[0].folder)}` continues it." if action == "resume" else ended,
    )


def _show(context: Context, chosen: Sequence[RegisteredRun]) -> int:
    if context.options.json:
        found = [{**plain(one), "result": _result(one)} for one in chosen]
        print_json(found[0] if len(found) == 1 else found)
        return 0
    print("\n\n".join(_report(one) for one in chosen))
    return 0


def _result(one: RegisteredRun) -> dict[str, Any] | None:
    result = one.result
    return result.to_json() if result is not None else None


def _report(one: RegisteredRun) -> str:
    state, result = one.state, one.result
    lines = [f"{one.id}: train in {shorten(one.folder)}, {state_text(state)}"]
    if state.error:
        lines.append(f"error: {state.error}")
    if result is not None:
        lines.append(format_summary(result))
    if state.status in ("stopped", "failed"):
        lines.append(f"to continue: {format_resume(one.folder)}")
    return "\n".join(lines)
