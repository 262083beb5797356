"""`anyrig index`: folders made searchable, and kept so."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app import index as app
from anyrig.app.index import IndexProgressEvent, IndexRequest
from anyrig.app.uploads import get_display_name
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import (
    EventPrinter,
    format_table,
    print_json,
    print_line,
    print_warning,
    print_warnings,
)
from anyrig.cli.prompts import can_ask, confirm
from anyrig.cli.rig import open_rig
from anyrig.errors import AnyrigError, InvalidInputError, Message, render
from anyrig.events import ProgressEvent
from anyrig.install import localize_install_commands
from anyrig.results import to_json
from anyrig.units import format_bytes, format_duration, format_time_left, pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anyrig.app.index import IndexResult
    from anyrig.app.rig import Rig
    from anyrig.documents.index.db import UnreadFile
    from anyrig.documents.index.progress import IndexProgress
    from anyrig.documents.index.status import Status
    from anyrig.events import Event

HELP = """Index the files of folders so that `anyrig search` finds what is in them: PDF, Office
files, e-mails, tables, books, texts, and pictures through OCR. Only what changed is read again;
deleted files leave the index; an interrupted run continues where it was, and a file is added when
it is complete. Without a folder, every folder of the index is updated. --watch keeps running and
indexes changes. --remove permanently removes a file or folder from the index and the cache; it
stays excluded until --include. Files that could not be read are listed, and are tried again when
they change, with --retry, or, if OCR was missing, as soon as it is installed. --status and --list
show what is indexed. The exit code is 1 if a file could not be read in this run; one that failed in
an earlier run and did not change is listed by --status only."""
RESUME = "Files that were indexed stay in the index: the same command continues."
MIXED = True
_ACTIONS = {
    "watch": "keep running and index changes",
    "status": "show what is indexed",
    "list": "list all indexes",
    "remove": "permanently remove files or folders from the index",
    "include": "include removed files again, and index them",
    "drop": "delete the whole index",
    "queue": "queue it; `anyrig jobs run` runs it",
}
_MAX_NAMED = 20
_MIN_PASSAGES = 100
"""Embedded passages from which a speed is shown."""
_STAGES = {
    "indexing": "indexing", "embedding": "embedding again", "removing": "removing deleted files",
}  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    for name, help in _ACTIONS.items():
        parser.add_argument(f"--{name}", action="store_true", help=help)
    parser.add_argument("--yes", action="store_true", help="do not ask before --drop")
    add_flags(parser, IndexRequest)


def run(arguments: argparse.Namespace) -> int:
    """Index, or maintain an index; a program that reads events is told of an error as well."""
    given = [name for name in _ACTIONS if getattr(arguments, name)]
    if len(given) > 1:
        raise InvalidInputError(
            f"--{given[0]} and --{given[1]} were both given", hint="Give one of them."
        )
    action = given[0] if given else "index"
    if action in ("remove", "include", "queue") and not arguments.folders:
        raise InvalidInputError(f"--{action} needs a file or folder", hint="Name one.")
    try:
        return _run(arguments, action)
    except AnyrigError as error:
        if arguments.json and action in ("index", "watch", "queue"):
            print_line("failed", {"error": error.message, "hint": error.hint})
        raise


def _run(arguments: argparse.Namespace, action: str) -> int:
    if action == "queue":
        return _queue(arguments)
    with IndexPrinter(json_lines=arguments.json) as events:
        rig = open_rig(arguments, events)
        request = rig.request(IndexRequest, **read_flags(arguments, IndexRequest))
        if action == "list":
            return _list(rig, as_json=arguments.json)
        if action == "status":
            return _show_status(rig, request.index, as_json=arguments.json)
        if action == "drop":
            return _drop(rig, request.index, arguments)
        if action == "remove":
            return _remove(rig, request, events, as_json=arguments.json)
        return _index(rig, request, events, action, as_json=arguments.json)


def _index(
    rig: Rig, request: IndexRequest, events: IndexPrinter, action: str, *, as_json: bool
) -> int:
    runs: Iterable[IndexResult]
    if action == "watch":
        runs = app.watch(rig, request, events)
    else:
        runs = [(app.include if action == "include" else app.index)(rig, request, events)]
    failed = False
    try:
        for result in runs:
            failed = failed or bool(result.changes.failed)
            events.pause()
            _print_result(result, as_json=as_json)
            if action == "watch" and not as_json:
                print("Watching for changes; Ctrl+C stops it.", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        events.pause()
        if as_json:
            print_line("stopped", {"index": request.index})
        else:
            print("Stopped; the index is complete.", file=sys.stderr)
    return 1 if failed else 0


def _queue(arguments: argparse.Namespace) -> int:
    """A job for each folder: one that cannot be read does not stop the others."""
    from anyrig.cli.jobs import print_queued

    rig = open_rig(arguments)
    flags = read_flags(arguments, IndexRequest)
    for folder in flags.pop("folders"):
        job = rig.jobs.submit("index", folders=[folder], **flags)
        print_queued([job], as_json=arguments.json)
    return 0


def _list(rig: Rig, *, as_json: bool) -> int:
    found, failed = app.list_indexes(rig)
    for one in failed:
        print_warning(
            Message(
                "{file}: {problem}; {hint}",
                file=one.file,
                problem=one.error.message,
                hint=one.error.hint,
            )
        )
    if as_json:
        print_json(to_json(found))
    elif found:
        rows = [["index", "files", "passages", "model", "size", "folders"]]
        for status in found:
            folders = ", ".join(_format_file(root) for root, _ in status.roots)
            rows.append([
                status.name, f"{status.num_files:,}", f"{status.num_passages:,}", status.model,
                format_bytes(status.size_bytes), folders,
            ])  # fmt: skip
        print(format_table(rows, right=(1, 2, 4)))
    else:
        print("There is no index yet. `anyrig index FOLDER` makes one.")
    return 1 if failed else 0


def _drop(rig: Rig, name: str, arguments: argparse.Namespace) -> int:
    exists = app.find_index_file(rig, name).is_file()
    ask = exists and not arguments.yes and not arguments.json and can_ask()
    if ask and not confirm(f"Delete the index {name}?"):
        print("Nothing was deleted.")
        return 0
    app.drop(rig, name)
    if arguments.json:
        print_json({"index": name, "dropped": True})
    else:
        print(f"{name}: deleted")
    return 0


def _remove(rig: Rig, request: IndexRequest, events: IndexPrinter, *, as_json: bool) -> int:
    removed = app.remove(rig, request, events)
    if as_json:
        print_json({"index": request.index, **to_json(removed)})
        return 0
    unread = f" and {removed.num_unread:,} that could not be read" if removed.num_unread else ""
    print(
        f"{request.index}: {pluralize(len(removed.files) - removed.num_unread, 'file')}{unread}"
        f" removed, with {pluralize(removed.num_texts, 'passage')} that no other file has and"
        f" {pluralize(removed.num_cached, 'cached result')}"
    )
    for path in removed.excluded:
        command = f"anyrig index --include {shlex.quote(str(path))}"
        print(f"  {path} is excluded until `{command}`")
    if not removed.clean:
        print_warning(
            "another process is reading the index: its log is cleared when that ends, or by"
            " another --remove"
        )
    return 0


# -- printing --------------------------------------------------------------------------------------


class IndexPrinter(EventPrinter):
    """Shows indexing: with speed and failures for people; for programs from its `begin` on."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, IndexProgressEvent) and not self._json_lines:
            now = event.progress
            event = ProgressEvent(_STAGES[now.stage], event.done, event.total, format_progress(now))
        elif type(event) is ProgressEvent and self._json_lines:
            return
        super().__call__(event)


def format_progress(now: IndexProgress) -> str:
    """`800 of 950 passages embedded, 160/s, 1 not read, 3 min left  letter.pdf`."""
    parts = []
    if now.stage == "indexing" and now.num_asked:
        of = f" of {now.num_asked:,}" if now.num_asked > now.num_passages else ""
        parts.append(f"{now.num_passages:,}{of} passages embedded")
    if now.passages_per_s >= 0.1:
        parts.append(f"{_format_rate(now.passages_per_s)}/s")
    if now.num_failed:
        parts.append(f"{now.num_failed} not read")
    if now.left is not None and now.left.high_s:
        parts.append(format_time_left(*now.left))
    return f"{', '.join(parts)}  {now.title}".strip()


def _print_result(result: IndexResult, *, as_json: bool) -> None:
    changes = result.changes
    print_warnings(changes.warnings)
    if as_json:
        print_line("done", result.to_json())
        return
    print(format_result(result))
    _print_failed(changes.failed)
    if changes.old_failed:
        count = pluralize(len(changes.old_failed), "file")
        remedy = "--retry tries again, --status lists them"
        print(f"{count} not read before and not changed; {remedy}", file=sys.stderr)
    if changes.others:
        kinds = ", ".join(dict.fromkeys(one.suffix or one.name for one in changes.others))
        count = pluralize(len(changes.others), "file")
        print(f"{count} of other types skipped: {kinds[:80]}", file=sys.stderr)


def format_result(result: IndexResult) -> str:
    """What a run has changed, in a line; with its speed if it was long enough to tell."""
    changes = result.changes
    counts = (
        (changes.num_new, "new"), (changes.num_changed, "changed"),
        (changes.num_moved, "known elsewhere"), (changes.num_gone, "deleted"),
        (len(changes.failed), "not read"), (changes.num_same, "unchanged"),
        (changes.num_excluded, "excluded"),
    )  # fmt: skip
    files = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "no files"
    passages = f"; {pluralize(changes.num_passages, 'passage')}" if changes.num_passages else ""
    speed = ""
    if changes.num_embedded >= _MIN_PASSAGES and changes.wall_s >= 1:
        speed = f", {_format_rate(changes.num_embedded / changes.wall_s)} embedded per second"
    return f"{result.index}: {files}{passages}, in {format_duration(result.wall_s)}{speed}"


def _format_rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.1f}"


def _format_file(file: Path) -> str:
    name = get_display_name(file)
    return str(file) if name == file.name else f"{name} (uploaded)"


def _print_failed(failed: Sequence[UnreadFile]) -> None:
    last_hint = ""
    for one in failed[:_MAX_NAMED]:
        error = render(one.error, "command")
        print(f"  not read: {_format_file(one.file)}: {error}", file=sys.stderr)
        if one.hint and one.hint != last_hint:  # many files with one problem need one hint
            hint = localize_install_commands(render(one.hint, "command"))
            print(f"    hint: {hint}", file=sys.stderr)
        last_hint = one.hint
    if len(failed) > _MAX_NAMED:
        more = len(failed) - _MAX_NAMED
        print(f"  and {more} more; `anyrig index --status` lists all", file=sys.stderr)


def _show_status(rig: Rig, name: str, *, as_json: bool) -> int:
    status = app.get_status(rig, name)
    if as_json:
        print_json(to_json(status))
        return 0
    files = f"{pluralize(status.num_files, 'file')}, {status.num_passages:,} passages"
    size = f"{format_bytes(status.size_bytes)} in {status.path}"
    print(f"{status.name}: {files}, model {status.model or 'none yet'}, {size}")
    for root, count in status.roots:
        print(f"  {_format_file(root)}: {pluralize(count, 'file')}")
    for name, counts in (("types", status.formats), ("languages", status.languages)):
        if counts:
            print(f"  {name}: " + ", ".join(f"{one} {count:,}" for one, count in counts.items()))
    if status.num_ocr:
        print(f"  read by OCR: {pluralize(status.num_ocr, 'page')}")
    if unfinished := _format_unfinished(status):
        print(f"  {unfinished}")
    missing = status.num_texts - status.num_vectors
    if missing:
        print(f"  {pluralize(missing, 'passage')} without a vector: `anyrig index` makes them")
    for path in status.excluded:
        print(f"  excluded: {path} (--include includes it again)")
    for trouble in status.troubles:
        hint = localize_install_commands(render(trouble.hint, "command"))
        error = render(trouble.error, "command")
        print(f"  not read: {_format_file(trouble.file)}: {error}\n    hint: {hint}")
    return 0


def _format_unfinished(status: Status) -> str:
    """What is still to come: of a run at work, of one that was interrupted, or everything."""
    if not status.num_pending:
        nothing = status.roots and not status.num_files and not status.troubles
        return "nothing is indexed yet: `anyrig index` starts" if nothing else ""
    are = "file is" if status.num_pending == 1 else "files are"
    pending = f"{status.num_pending:,} {are} not indexed yet (a file is added when complete)"
    if status.indexing:
        return f"being indexed: {pending}"
    return f"the last run was interrupted: {pending}; `anyrig index` continues"
