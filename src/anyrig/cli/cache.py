"""`anyrig cache`: what is cached of finished work; prune, export, import and verify it."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app.cache import (
    CacheReport,
    PruneRequest,
    SharedCache,
    describe_cache,
    export_cache,
    forget_worker,
    import_cache,
    prune_cache,
    verify_cache,
)
from anyrig.app.rig import Rig
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import PlainEventPrinter, format_table, print_json, print_warning
from anyrig.cli.prompts import can_ask, confirm
from anyrig.cli.rig import open_rig
from anyrig.errors import InvalidInputError, Message
from anyrig.units import format_bytes, pluralize

if TYPE_CHECKING:
    from anyrig.storage.cache import CacheStats

HELP = """Manage the cache of finished results: spoken sentences, vectors, OCR pages. All commands
share it; the key of a result is made of everything that shapes it, so that the same work is never
done twice. Without an action it shows what is cached. `prune` deletes results, the least recently
used first, down to the limit or as requested. `export FILE` and `import FILE` move results to
another machine. `verify` reads everything and deletes what is damaged. `forget --from WORKER`
deletes what a worker of a cluster made. If cache.url names a Redis server, results are shared
through it with other machines; its status is shown, and it manages its own memory. Settings:
cache.limit_gb, cache.folder, cache.url."""
# Words may follow flags: anyrig cache export --kind speech FILE.
MIXED = True
_ACTIONS = ("prune", "forget", "export", "import", "verify")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="ACTION",
        help="prune, forget, export FILE, import FILE, or verify",
    )  # fmt: skip
    add_flags(parser, PruneRequest)
    parser.add_argument(
        "--from",
        dest="worker",
        metavar="WORKER",
        help="with forget: the cluster worker whose results are deleted",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before pruning everything")


def run(arguments: argparse.Namespace) -> int:
    action, file = _read_action(arguments)
    with PlainEventPrinter() as printer:
        rig = open_rig(arguments, printer)
        if action == "prune":
            return _prune(rig, arguments, printer)
        if action == "forget":
            return _forget(rig, arguments)
        if action == "export":
            return _export(rig, file, arguments, printer)
        if action == "import":
            return _import(rig, file, arguments, printer)
        if action == "verify":
            return _verify(rig, arguments, printer)
        return _describe(rig, json=arguments.json)


def _read_action(arguments: argparse.Namespace) -> tuple[str, Path]:
    """What is to be done, and with which file."""
    action, *rest = arguments.words or [""]
    if action and action not in _ACTIONS:
        import difflib

        near = difflib.get_close_matches(action, _ACTIONS, n=1)
        guess = f"Did you mean `anyrig cache {near[0]}`? " if near else ""
        raise InvalidInputError(
            f"unknown action `anyrig cache {action}`",
            hint=f"{guess}Actions: {', '.join(_ACTIONS)}.",
        )
    takes_file = action in ("export", "import")
    if len(rest) != takes_file:
        raise InvalidInputError(
            f"`anyrig cache {action}` takes {'one file' if takes_file else 'no further words'}",
            hint="See `anyrig cache --help`.",
        )
    if (arguments.worker is not None) != (action == "forget"):
        raise InvalidInputError(
            "`anyrig cache forget` and --from WORKER go together",
            hint="`anyrig cache forget --from WORKER` drops what that worker made.",
        )
    flags = {"forget": {"dry_run"}, "export": {"kind"}}
    given = {*read_flags(arguments, PruneRequest), *(["yes"] if arguments.yes else [])}
    wrong = sorted(given - flags.get(action, set()))
    if wrong and action != "prune":
        raise InvalidInputError(
            f"--{wrong[0].replace('_', '-')} is a flag of `anyrig cache prune`",
            hint="See `anyrig cache --help`.",
        )
    return action, Path(rest[0]) if rest else Path()


def _describe(rig: Rig, *, json: bool) -> int:
    report = describe_cache(rig)
    if json:
        print_json(report.to_json())
        return 0
    if report.exists:
        print("\n".join(_format_report(report)))
    else:
        limit = format_bytes(report.stats.limit_bytes)
        print(f"Nothing is cached yet. Results will go to {report.path}, up to {limit}.")
    if report.shared:
        _print_shared(report.shared)
    if report.read_only:
        print_warning(
            "nothing new can be cached: no permission to write the cache or its folder; set"
            " cache.folder (ANYRIG_CACHE_FOLDER) to a folder with that permission"
        )
    for file in report.set_aside:
        if file not in report.reported:
            print_warning(f"a damaged cache was set aside and can be deleted: {file}")
    return 0


def _print_shared(shared: SharedCache) -> None:
    if shared.stats is None:
        assert shared.error is not None
        print_warning(
            Message(
                "results are not shared: {problem}. {hint}",
                problem=shared.error.message,
                hint=shared.error.hint,
            )
        )
        return
    stats = shared.stats
    limit = ", without a limit"
    if stats.limit_bytes:
        limit = f" of {format_bytes(stats.limit_bytes)} ({stats.policy})"
    used = f"{format_bytes(stats.used_bytes)} of memory{limit}"
    print(f"Shared through {shared.address}: {_count(stats.num_results)}, {used}.")


def _format_report(report: CacheReport) -> Iterator[str]:
    stats = report.stats
    share = f"{stats.used_bytes / stats.limit_bytes:.0%}" if stats.limit_bytes else ""
    yield (
        f"{_count(stats.num_results)}, {format_bytes(stats.used_bytes)} of"
        f" {format_bytes(stats.limit_bytes)} ({share})"
    )
    yield f"in {report.path}, {format_bytes(stats.file_bytes)} on disk"
    if stats.kinds:
        rows = [["kind", "results", "data", "last used"]]
        for row in stats.kinds:
            used = datetime.datetime.fromtimestamp(row.last_used).strftime("%Y-%m-%d %H:%M")
            rows.append([row.kind, f"{row.num_results:,}", format_bytes(row.data_bytes), used])
        yield from ("", format_table(rows, right=(1, 2)), "")
    yield from _format_counters(stats)
    if stats.jobs:
        names = ", ".join(stats.jobs[:5]) + (", ..." if len(stats.jobs) > 5 else "")
        yield f"Held for unfinished jobs: {_count(stats.num_pinned)} ({names})."
    if report.slow_reason:
        yield f"Slower than it could be: {report.slow_reason}."


def _format_counters(stats: CacheStats) -> Iterator[str]:
    hits, misses = stats.counters.get("hits", 0), stats.counters.get("misses", 0)
    if hits + misses:
        share = f"{hits / (hits + misses):.0%}"
        yield f"Looked up {_count(hits + misses)}, {hits:,} found ({share})."
    if stats.counters.get("evicted"):
        yield f"Dropped to stay within the limit: {_count(stats.counters['evicted'])}."
    if stats.counters.get("bad"):
        yield f"Dropped as damaged: {_count(stats.counters['bad'])}."


def _prune(rig: Rig, arguments: argparse.Namespace, printer: PlainEventPrinter) -> int:
    request = rig.request(PruneRequest, **read_flags(arguments, PruneRequest))
    if request.all and not (request.dry_run or arguments.yes or arguments.json) and can_ask():
        count = describe_cache(rig).stats.num_results
        if not confirm(f"Drop all of {_count(count)}?"):
            print("Nothing was dropped.")
            return 0
    dropped, left = prune_cache(rig, request, printer)
    printer.pause()
    if arguments.json:
        print_json({
            "num_results": dropped.num_results, "data_bytes": dropped.data_bytes,
            "num_held": dropped.num_pinned, "file_bytes": left.file_bytes,
            "dry_run": request.dry_run,
        })  # fmt: skip
        return 0
    verb = "Would drop" if request.dry_run else "Dropped"
    print(f"{verb} {_count(dropped.num_results)} ({format_bytes(dropped.data_bytes)}).")
    if dropped.num_pinned:
        print(f"{_count(dropped.num_pinned)} stay for unfinished jobs; --held drops them as well.")
    if not request.dry_run:
        print(f"{_count(left.num_results)} left, {format_bytes(left.file_bytes)} on disk.")
    return 0


def _forget(rig: Rig, arguments: argparse.Namespace) -> int:
    worker, dry_run = arguments.worker, bool(read_flags(arguments, PruneRequest))
    dropped = forget_worker(rig, worker, dry_run=dry_run)
    if arguments.json:
        counts = {"num_results": dropped.num_results, "data_bytes": dropped.data_bytes}
        print_json({**counts, "from": worker, "dry_run": dry_run})
        return 0
    verb = "Would drop" if dry_run else "Dropped"
    size = format_bytes(dropped.data_bytes)
    print(f"{verb} {_count(dropped.num_results)} ({size}) that {worker} made.")
    return 0


def _export(rig: Rig, file: Path, arguments: argparse.Namespace, printer: PlainEventPrinter) -> int:
    kind = read_flags(arguments, PruneRequest).get("kind")
    done = export_cache(rig, file, kind, printer)
    printer.pause()
    if arguments.json:
        print_json({**done._asdict(), "file": str(file)})
    else:
        count = f"{_count(done.num_results)} ({format_bytes(done.data_bytes)})"
        print(f"Exported {count} to {file}, {format_bytes(file.stat().st_size)} on disk.")
    return 0


def _import(rig: Rig, file: Path, arguments: argparse.Namespace, printer: PlainEventPrinter) -> int:
    done = import_cache(rig, file, printer)
    printer.pause()
    if arguments.json:
        print_json({**done._asdict(), "num_bad": 0, "file": str(file)})
        return 0
    print(f"Imported {_count(done.num_new)} of {done.num_results:,} from {file}.")
    if known := done.num_results - done.num_new:
        print(f"{_count(known)} were cached already and stay as they are.")
    return 0


def _verify(rig: Rig, arguments: argparse.Namespace, printer: PlainEventPrinter) -> int:
    """Exits with 1 if something was dropped, so that a script notices."""
    done = verify_cache(rig, printer)
    printer.pause()
    if arguments.json:
        print_json(done._asdict())
    elif done.num_bad:
        print(f"{_count(done.num_results)} read, {done.num_bad:,} damaged and dropped.")
    else:
        print(f"{_count(done.num_results)} read, all intact.")
    return 1 if done.num_bad else 0


def _count(count: int) -> str:
    return pluralize(count, "result").replace(str(count), f"{count:,}", 1)
