"""An index on its way and as it is: a line that moves, lines in a log, or JSON."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from anyrig.cli.escape import esc
from anyrig.cli.show import print_warning, table
from anyrig.errors import AnyrigError
from anyrig.install import localize_install_commands
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.cli.context import Context
    from anyrig.documents.index.progress import Progress
    from anyrig.documents.index.status import Status
    from anyrig.documents.index.update import Failed, Indexed

_LIVE_S, _LOG_S, _JSON_S = 0.2, 15.0, 0.2
_MOST_NAMED = 20
_ENOUGH = 100  # passages that a rate is told by
_STAGES = {
    "indexing": "indexing", "embedding": "embedding anew", "removing": "forgetting what is gone",
    "linking": "linking for fast search",
}  # fmt: skip


class Show:
    """Tells how far an index is."""

    def __init__(
        self, context: Context, name: str, model: str, began: float, advice: str = ""
    ) -> None:
        self._json = bool(context.options.json)
        self._advice = [advice] if advice else []
        self._live = not self._json and sys.stderr.isatty()
        self._name, self._model = name, model
        self._next = time.monotonic() + (_JSON_S if self._json or self._live else _LOG_S)
        self._drawn = False
        self._began: float | None = began
        """When the command began; None once its first round was told."""

    def __enter__(self) -> Show:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def begin(self, roots: list[str]) -> None:
        """What will be looked through."""
        if self._json:
            put({"event": "begin", "index": self._name, "model": self._model, "folders": roots})

    def progress(self, now: Progress) -> None:
        """Called often; tells now and then."""
        clock = time.monotonic()
        if clock < self._next:
            return
        self._next = clock + (_JSON_S if self._json else _LIVE_S if self._live else _LOG_S)
        if self._json:
            put(now.plain())
        elif self._live:
            room = shutil.get_terminal_size().columns - 1
            print(f"\r{esc(sys.stderr)}[2K{line(now, room)}", end="", file=sys.stderr, flush=True)
            self._drawn = True
        else:
            print(line(now, 200), file=sys.stderr, flush=True)

    def end(self, done: Indexed) -> None:
        """What was done."""
        self._clear()
        embed_s = done.wall_s
        if self._began is not None:  # choosing and loading the model are part of it
            done.wall_s, self._began = time.monotonic() - self._began, None
        for warning in done.warnings[:_MOST_NAMED]:
            print_warning(warning)
        if len(done.warnings) > _MOST_NAMED:
            print_warning(f"and {len(done.warnings) - _MOST_NAMED} more; --json has them all")
        if self._json:
            put(self._plain(done))
            return
        print(summary(done, self._name, embed_s))
        _tell_failed(done.failed)
        if done.old_failed:
            print(
                f"{pluralize(len(done.old_failed), 'file')} could not be read before and did not "
                "change; --retry tries again, --status names them", file=sys.stderr,
            )  # fmt: skip
        if done.others:
            kinds = ", ".join(dict.fromkeys(one.suffix or one.name for one in done.others))
            told = f"{pluralize(len(done.others), 'file')} of other kinds left out: {kinds[:80]}"
            print(told, file=sys.stderr)

    def watching(self) -> None:
        """That it goes on."""
        if not self._json:
            print("watching for changes; Ctrl-C ends it", file=sys.stderr, flush=True)

    def stopped(self) -> None:
        """That it was ended by hand."""
        self._clear()
        if self._json:
            put({"event": "stopped", "index": self._name})
        else:
            print("stopped; the index is whole", file=sys.stderr)

    def _plain(self, done: Indexed) -> dict[str, Any]:
        return {
            "event": "done", "index": self._name, "model": self._model, "new": done.num_new,
            "changed": done.num_changed, "moved": done.num_moved, "same": done.num_same,
            "gone": done.num_gone, "excluded": done.num_excluded, "passages": done.num_passages,
            "embedded": done.num_embedded, "failed": [_failed(one) for one in done.failed],
            "failed_before": [_failed(one) for one in done.old_failed],
            "other_kinds": [str(one) for one in done.others],
            "warnings": [*self._advice, *done.warnings], "wall_s": round(done.wall_s, 3),
        }  # fmt: skip

    def _clear(self) -> None:
        if self._drawn:
            print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)
            self._drawn = False


def put(event: dict[str, Any]) -> None:
    """One event for programs."""
    print(json.dumps(event, allow_nan=False, default=str), flush=True)


def tell_error(error: AnyrigError) -> None:
    """The last event of a run that failed."""
    put({"event": "failed", "error": error.message, "hint": error.hint})


def line(now: Progress, room: int) -> str:
    """`indexing 45%, 120 of 400 files read, 800 of 950 passages, 160/s, 3 min left  letter.pdf`."""
    parts = [f"{_STAGES[now.stage]} {now.done:.0%}" if now.done else _STAGES[now.stage]]
    if now.stage == "indexing":
        parts.append(f"{now.num_read:,} of {pluralize(now.num_files, 'file')} read")
        if now.num_asked:
            of = f" of {now.num_asked:,}" if now.num_asked > now.num_passages else ""
            parts.append(f"{now.num_passages:,}{of} passages embedded")
    else:
        parts.append(f"{now.file:,} of {now.num_files:,}")
    if now.passages_per_s >= 0.1:
        parts.append(f"{_rate(now.passages_per_s)}/s")
    if now.num_failed:
        parts.append(f"{now.num_failed} not read")
    if now.left_s:
        parts.append(f"{format_duration(now.left_s)} left")
    return f"{', '.join(parts)}  {now.title}"[:room]


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.1f}"


def summary(done: Indexed, name: str, embed_s: float) -> str:
    """What a run has done, in a line; how fast it embedded, where that was long enough to say."""
    counted = (
        (done.num_new, "new"), (done.num_changed, "changed"), (done.num_moved, "known elsewhere"),
        (done.num_gone, "gone"), (len(done.failed), "not read"), (done.num_same, "as before"),
        (done.num_excluded, "excluded"),
    )  # fmt: skip
    told = ", ".join(f"{count:,} {what}" for count, what in counted if count) or "no files"
    made = f"; {pluralize(done.num_passages, 'passage')}" if done.num_passages else ""
    speed = ""
    if done.num_embedded >= _ENOUGH and embed_s >= 1:
        speed = f", {_rate(done.num_embedded / embed_s)} embedded a second"
    return f"{name}: {told}{made}, in {format_duration(done.wall_s)}{speed}"


def _tell_failed(failed: list[Failed]) -> None:
    hint = ""
    for one in failed[:_MOST_NAMED]:
        print(f"  not read: {one.file}: {one.error}", file=sys.stderr)
        if one.hint and one.hint != hint:  # many of a kind need one
            print(f"    hint: {localize_install_commands(one.hint)}", file=sys.stderr)
        hint = one.hint
    if len(failed) > _MOST_NAMED:
        more = len(failed) - _MOST_NAMED
        print(f"  and {more} more; `anyrig index --status` has them all", file=sys.stderr)


def _failed(one: Failed) -> dict[str, str]:
    return {"file": str(one.file), "error": one.error, "hint": one.hint}


def print_status(found: Status) -> None:
    """All that an index holds."""
    held = f"{pluralize(found.num_files, 'file')}, {found.num_passages:,} passages"
    size = f"{format_bytes(found.size_bytes)} in {found.path}"
    print(f"{found.name}: {held}, model {found.model or 'none yet'}, {size}")
    for root, count in found.roots:
        print(f"  {root}: {pluralize(count, 'file')}")
    for name, counts in (("types", found.formats), ("languages", found.languages)):
        if counts:
            print(f"  {name}: " + ", ".join(f"{one} {count:,}" for one, count in counts.items()))
    if found.num_ocr:
        print(f"  read by OCR: {pluralize(found.num_ocr, 'page')}")
    if found.roots and not found.num_files and not found.troubles:
        print("  nothing is indexed yet: `anyrig index` begins, or goes on")
    lacking = found.num_texts - found.num_vectors
    if lacking:
        print(f"  {pluralize(lacking, 'passage')} without a vector: `anyrig index` makes them")
    for path in found.excluded:
        print(f"  excluded: {path} (--include lets it in again)")
    for trouble in found.troubles:
        hint = localize_install_commands(trouble.hint)
        print(f"  not read: {trouble.file}: {trouble.error}\n    hint: {hint}")


def print_list(found: list[Status]) -> None:
    """The indexes of this user."""
    if not found:
        print("There is no index yet. `anyrig index FOLDER` makes one.")
        return
    rows = [["index", "files", "passages", "model", "size", "folders"]]
    for one in found:
        folders = ", ".join(str(root) for root, _ in one.roots)
        rows.append([one.name, f"{one.num_files:,}", f"{one.num_passages:,}", one.model,
                     format_bytes(one.size_bytes), folders])  # fmt: skip
    print(table(rows, right=(1, 2, 4)))


def plain_status(found: Status) -> dict[str, Any]:
    """An index for programs."""
    return {
        "index": found.name, "path": str(found.path), "model": found.model,
        "dimension": found.dimension,
        "folders": [{"path": str(root), "files": count} for root, count in found.roots],
        "excluded": [str(path) for path in found.excluded], "files": found.num_files,
        "passages": found.num_passages, "texts": found.num_texts, "vectors": found.num_vectors,
        "ocr_pages": found.num_ocr, "types": found.formats, "languages": found.languages,
        "failed": [
            {"file": str(one.file), "error": one.error, "hint": one.hint}
            for one in found.troubles
        ],
        "size_bytes": found.size_bytes,
    }  # fmt: skip
