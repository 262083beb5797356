"""How a training run looks: a live line or JSON lines while it goes, a table at its end."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli.context import Context
from anyrig.cli.escape import esc
from anyrig.cli.show import Progress, paint, print_warning, table
from anyrig.services.train_runs import plain
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.errors import AnyrigError
    from anyrig.placement import Placement
    from anyrig.services.train_runs import Run
    from anyrig.training.watch.sinks import Sink, Told

_JSON_S = 1.0
_MOST_NAMED = 10
_SAMPLE = 300
_READABLE = 0.9
"""The share of a sample's characters that a terminal can show, from which on it is shown."""


def put(event: str, **facts: Any) -> None:
    """One line for programs."""
    print(json.dumps({"event": event, **plain(facts)}, allow_nan=False), flush=True)


def said(context: Context, event: str, *, path: str) -> None:
    """Something that was written."""
    if context.options.json:
        put(event, path=path)
    else:
        print(f"{event:<{_WIDTH}}  {short(path)}")


def begin(context: Context, run: Run, num: int) -> None:
    """Where the run is kept, before anything long."""
    if context.options.json:
        put("begin", run=str(run.folder), task=run.task.get("kind"), processes=num)
        return
    together = f" with {num} processes" if num > 1 else ""
    print(f"{paint(str(run.task.get('kind', '')), 'bold')}{together}, in {short(run.folder)}")
    sys.stdout.flush()


def file_changed(run: Run) -> str:
    """A word where the file that a run came from is another by now."""
    from anyrig.services.train_runs import COPY

    try:
        now = Path(run.config).read_text(encoding="utf-8-sig")
        then = (run.folder / COPY).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    if now == then:
        return ""
    return f"{short(run.config)} has changed since; the run goes on with what it began with"


class Shown(AbstractContextManager["Shown"]):
    """What happens, as it happens: on a terminal, in a log, or as JSON lines."""

    def __init__(self, context: Context, *, quiet: bool = False) -> None:
        self._json, self._quiet = context.options.json, quiet
        self._progress = Progress(1, "train") if not (self._json or quiet) else None

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    def where(self, placement: Placement) -> None:
        """The device."""
        if self._quiet:
            return
        if self._json:
            put("device", device=placement.device.name, precision=placement.precision)
            return
        assert self._progress is not None
        self._progress.clear()
        print(f"on {placement.title}", flush=True)
        self._progress.step("loading torch")

    def step(self, text: str) -> None:
        """What is done before the first step."""
        if self._quiet:
            return
        if self._json:
            put("progress", stage=text, done=0.0)
        elif self._progress is not None:
            self._progress.step(text)

    def sinks(self, steps: int | None, unit: str) -> Sequence[Sink]:
        """Where figures go; the line so far is taken away when the first ones come."""
        if self._quiet:
            return []
        if self._json:
            return [JsonLines(steps, unit)]
        from anyrig.training.watch.sinks.console import Console

        live = sys.stderr.isatty()

        def write(text: str) -> None:
            self._stop()
            sys.stderr.write(text.replace("\r\x1b[K", f"\r{esc(sys.stderr)}[K"))
            sys.stderr.flush()

        return [Console(write, tty=live, total_steps=steps, unit=unit)]


class JsonLines:
    """A sink that prints JSON lines, figures at most once a second."""

    name = "JSON lines"

    def __init__(self, steps: int | None, unit: str) -> None:
        self._steps, self._unit = steps, unit
        self._next = 0.0

    def take(self, told: Told) -> None:
        """Print it."""
        from anyrig.training.watch.alerts import Alert
        from anyrig.training.watch.figures import Figures, Validation

        if isinstance(told, Figures):
            now = time.monotonic()
            if now >= self._next or told.step == self._steps:
                self._next = now + _JSON_S
                self._figures(told)
        elif isinstance(told, Validation):
            put("validation", step=told.step, figures=told.figures)
        elif isinstance(told, Alert):
            put("alert", kind=told.kind, step=told.step, text=told.text, hint=told.hint)
        else:
            put("said", kind=told.kind, step=told.step, text=told.text)

    def _figures(self, now: Any) -> None:
        steps = self._steps
        of = f"/{steps}" if steps else ""
        put(
            "progress", stage="training", step=now.step, steps=steps, loss=now.loss,
            done=now.step / steps if steps else None, left_s=now.eta_s, elapsed_s=now.elapsed_s,
            epoch=now.epoch, rate=now.rate, step_s=now.step_s, unit=self._unit,
            units_per_s=now.units_per_s, memory_peak_bytes=now.memory_peak_bytes,
            title=f"step {now.step}{of}, loss {now.loss:.4g}",
        )  # fmt: skip

    def close(self) -> None:
        """Nothing to end."""


# -- what came of it -------------------------------------------------------------------------------

_WIDTH = 11


def end(context: Context, result: dict[str, Any]) -> None:
    """The summary of a run that is done."""
    if context.options.json:
        put("done", files=files(result), **result)
    else:
        print(summary(result))
    _left_out(result)


def already(context: Context, result: dict[str, Any]) -> None:
    """The summary of a run that was done before."""
    if context.options.json:
        put("done", already=True, files=files(result), **result)
        return
    print(f"{short(result['run'])} is finished already; nothing was trained.")
    print(summary(result))
    print("To go on further, name more steps: --steps N.")
    print("To begin anew: anyrig train CONFIG.toml --folder FOLDER --fresh")


def interrupted(run: Run) -> None:
    """How to go on with a run that ended at once; its last checkpoint counts, where it has one."""
    print(f"\nGo on with: {_resume(run.folder)}", file=sys.stderr)


def _resume(folder: str | Path) -> str:
    return f"anyrig train --resume {quoted(short(folder))}"


def stopped(context: Context, result: dict[str, Any]) -> None:
    """How to go on with a run that was asked to end."""
    how = _resume(result["run"])
    if context.options.json:
        put("stopped", resume=how, **result)
    steps = f" of {result['total_steps']}" if result.get("total_steps") else ""
    loss = f", loss {result['loss']:.4f}" if result.get("loss") is not None else ""
    stream = sys.stderr if context.options.json else sys.stdout
    print(f"Stopped after step {result['steps']}{steps}{loss}; all so far is kept.", file=stream)
    print(f"Go on with: {how}", file=stream)


def _left_out(result: dict[str, Any]) -> None:
    left = dict(result.get("left_out") or {})
    for place, why in list(left.items())[:_MOST_NAMED]:
        print_warning(f"{place} was left out: {why}")
    if len(left) > _MOST_NAMED:
        print_warning(f"and {len(left) - _MOST_NAMED} more left out; --json has all")


def summary(result: dict[str, Any]) -> str:
    """A table of what a run came to."""
    return table([[name, text] for name, text in _rows(result)])


def _rows(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    resumed = result.get("resumed_from")
    since = f", resumed at {resumed}" if resumed is not None else ""
    yield "steps", f"{result['steps']} ({result['epochs']:.2f} epochs{since})"
    if result.get("loss") is not None:
        yield "loss", f"{result['loss']:.4f}"
    if result.get("validation"):
        figures = result["validation"].items()
        yield "validation", ", ".join(f"{name} {number(value)}" for name, value in figures)
    yield "time", _time(result)
    if result.get("peak_bytes"):
        yield "peak memory", format_bytes(result["peak_bytes"])
    yield "precision", result["precision"]
    why = f": {result['micro_batch_why']}" if result.get("micro_batch_why") else ""
    yield "micro batch", why.removeprefix(": ") or f"{result['micro_batch']}, as set"
    troubles = _troubles(result)
    if troubles:
        yield "survived", troubles
    yield from _files(result)


def number(value: float | None) -> str:
    """A figure in few digits."""
    return "not finite" if value is None else f"{value:.4g}"


def _time(result: dict[str, Any]) -> str:
    text = format_duration(result["seconds"])
    unit, units, samples = result["unit"], result.get("units_per_s"), result.get("samples_per_s")
    if units and unit != "samples":
        text += f", {units:,.0f} {unit}/s"
    if samples:
        text += f", {samples:,.1f} samples/s"
    return text


def _troubles(result: dict[str, Any]) -> str:
    parts = []
    if result.get("num_retries"):
        parts.append(f"memory ran out {pluralize(result['num_retries'], 'time')}")
    if result.get("num_skipped"):
        parts.append(f"{pluralize(result['num_skipped'], 'step')} without finite gradients")
    return ", ".join(parts)


def _files(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if result.get("checkpoint"):
        yield "checkpoint", short(result["checkpoint"])
    for name, value in (result.get("made") or {}).items():
        if isinstance(value, str):
            if _is_path(value):
                yield name, short(value)
            elif value:
                yield name, _quoted(name, value, result)
    if result.get("report"):
        yield "report", short(result["report"])


def _quoted(name: str, text: str, result: dict[str, Any]) -> str:
    """The beginning of a text that a model wrote; where it is, if it is not readable yet."""
    readable = sum(sign.isprintable() or sign.isspace() for sign in text) - text.count("\ufffd")
    if readable >= _READABLE * len(text):
        quoted = json.dumps(text[:_SAMPLE], ensure_ascii=False)
        return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in quoted)
    where = Path(result.get("run") or "") / f"{name}.txt"
    told = f"; {short(where)} has all of it" if where.is_file() else ""
    return f"not readable text yet{told}"


def files(result: dict[str, Any]) -> list[str]:
    """What was made, as paths."""
    texts = [*(result.get("made") or {}).values(), result.get("report")]
    return [text for text in texts if isinstance(text, str) and _is_path(text)]


def _is_path(text: str) -> bool:
    """Whether a text is a file's whole path; a sample of a model's words may be anything."""
    try:
        return os.path.isabs(text) and os.path.exists(text)
    except ValueError:  # with a null in it
        return False


def failed(error: AnyrigError) -> None:
    """The last event of a run that failed."""
    put("failed", error=error.message, hint=error.hint)


def short(path: str | Path) -> str:
    """A path as a person would write it here."""
    whole = str(path)
    try:
        near = os.path.relpath(whole)
    except ValueError:  # another drive of Windows
        return whole
    return near if not near.startswith("..") and len(near) < len(whole) else whole


def quoted(text: str) -> str:
    """One word of a command line."""
    import shlex

    return f'"{text}"' if sys.platform == "win32" and " " in text else shlex.quote(text)
