"""`anyrig cache`: what is kept of finished work, how much it takes, pruning and moving it."""

from __future__ import annotations

import argparse
import datetime
import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli.context import Context
from anyrig.cli.devices import writable
from anyrig.cli.pick import agreed, can_ask
from anyrig.cli.share import shared, shared_text
from anyrig.cli.show import Progress, print_json, print_warning, table
from anyrig.errors import InvalidInputError
from anyrig.units import GIB, KIB, MIB, format_bytes, pluralize

if TYPE_CHECKING:
    from anyrig.storage.cache import CacheStats, ProgressCallback, ResultCache

HELP = """Look after the store of finished results: sentences spoken, texts embedded, pages
read. It is shared by all commands; a result is kept under a key made of everything
that shapes it, so the same work is never done twice. Without a word it says what is
kept. `prune` drops results, the least recently used first, down to the limit or as
asked. `export FILE` and `import FILE` move results to another machine. `verify` reads
everything and drops what is damaged. `forget --from WORKER` drops what a worker of a
cluster made. Where cache.url names a Redis server, results
are shared through it with other machines; it is told of here, and looks after its own
room. Settings: cache.limit_gb, cache.folder, cache.url."""
# Its words may stand between its flags: anyrig cache export --kind speech FILE.
MIXED = True
_ACTIONS = ("prune", "forget", "export", "import", "verify")
_PRUNING = ("to", "older_than", "engine", "all", "held", "dry_run", "yes")
_UNITS = {"B": 1, "K": KIB, "M": MIB, "G": GIB, "T": 1024 * GIB}
_SPANS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="prune, forget, export FILE, import FILE, or verify",
    )
    parser.add_argument("--to", metavar="SIZE", type=_size, help="prune down to this: 500M, 2G")
    parser.add_argument(
        "--older-than", metavar="AGE", type=_age, help="prune what was not used for: 12h, 30d, 8w"
    )
    parser.add_argument("--kind", metavar="KIND", help="prune or export this kind alone: speech")
    parser.add_argument("--engine", metavar="NAME", help="prune what this engine made")
    parser.add_argument("--all", action="store_true", help="prune everything")
    parser.add_argument("--held", action="store_true", help="prune also what unfinished jobs need")
    parser.add_argument(
        "--from", dest="maker", metavar="WORKER", help="forget what this worker of a cluster made"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be pruned or forgotten"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before pruning everything")


def run(options: argparse.Namespace) -> int:
    """Tell, prune, export, import or verify."""
    context = Context(options)
    action, file = _asked(options)
    if action == "export":
        return _export(context, file)
    if action == "import":
        return _import(context, file)
    if action == "prune":
        return _prune(context)
    if action == "forget":
        return _forget(context)
    return _verify(context) if action == "verify" else _tell(context)


def open_store(context: Context) -> ResultCache:
    """The store of this user, by the settings."""
    from anyrig.storage.cache import ResultCache

    limit_bytes = int(context.loaded.settings.cache.limit_gb * GIB)
    return ResultCache(store_path(context), limit_bytes=limit_bytes)


def store_path(context: Context) -> Path:
    """Where the store lies."""
    folder = context.loaded.settings.cache.folder
    if not folder:
        return context.folders.result_cache
    return Path(folder).expanduser().absolute() / context.folders.result_cache.name


def _asked(options: argparse.Namespace) -> tuple[str, Path]:
    """What is to be done, and the file to do it with."""
    action, *rest = options.words or [""]
    if action and action not in _ACTIONS:
        raise InvalidInputError(
            f"no such thing as `anyrig cache {action}`", hint=f"{_nearest(action)}"
        )
    takes_file = action in ("export", "import")
    if len(rest) != takes_file:
        raise InvalidInputError(
            f"`anyrig cache {action}` takes {'one file' if takes_file else 'no more words'}",
            hint="See `anyrig cache --help`.",
        )
    given = [name for name in _PRUNING if getattr(options, name) not in (None, False)]
    if action == "forget":
        given = [name for name in given if name != "dry_run"]
    if (options.maker is not None) != (action == "forget"):
        raise InvalidInputError(
            "`anyrig cache forget` and --from WORKER go together",
            hint="`anyrig cache forget --from WORKER` drops what that worker made.",
        )
    if given and action != "prune":
        raise InvalidInputError(
            f"--{given[0].replace('_', '-')} belongs to pruning", hint="Say `anyrig cache prune`."
        )
    if options.kind and action not in ("prune", "export"):
        raise InvalidInputError(
            "--kind belongs to prune and export", hint="See `anyrig cache --help`."
        )
    return action, Path(rest[0]) if rest else Path()


def _nearest(word: str) -> str:
    import difflib

    near = difflib.get_close_matches(word, _ACTIONS, n=1)
    meant = f"Did you mean `anyrig cache {near[0]}`? " if near else ""
    return f"{meant}There are: {', '.join(_ACTIONS)}."


# -- what is kept ------------------------------------------------------------------------------


def _tell(context: Context) -> int:
    path = store_path(context)
    if not path.exists():
        return _tell_nothing(context, path)
    from anyrig.storage.sqlite import find_set_aside

    before = find_set_aside(path)
    with open_store(context) as store:
        size = store.stats()
        reason, read_only = store.file.journal_reason, store.file.read_only
    if context.options.json:
        aside = [str(file) for file in find_set_aside(path)]
        told = {"read_only": read_only, "shared": shared(context)}
        print_json({**_json(path, size, reason, aside), **told})
        return 0
    print("\n".join(_report(path, size, reason)))
    _tell_shared(context)
    if read_only:
        print_warning("nothing new can be kept: the store or its folder may not be written; set"
                      " cache.folder (ANYRIG_CACHE_FOLDER) to one you may write to")  # fmt: skip
    for name in before:  # one that was set aside just now has been told of
        print_warning(f"a damaged cache was set aside and can be deleted: {name}")
    return 0


def _tell_nothing(context: Context, path: Path) -> int:
    limit_bytes = int(context.loaded.settings.cache.limit_gb * GIB)
    if context.options.json:
        from anyrig.storage.cache import CacheStats

        nothing = _json(path, CacheStats(0, 0, 0, limit_bytes), "", [])
        print_json({**nothing, "read_only": False, "shared": shared(context)})
    else:
        print(f"Nothing is kept yet. Results will go to {path}, up to {format_bytes(limit_bytes)}.")
        _tell_shared(context)
    return 0


def _tell_shared(context: Context) -> None:
    told = shared(context)
    if told and "error" in told:
        print_warning(f"results are not shared: {told['error']}. {told['hint']}")
    elif told:
        print(shared_text(told))


def _json(path: Path, size: CacheStats, reason: str, aside: list[str]) -> dict[str, Any]:
    return {
        "path": str(path),
        "results": size.num_results,
        "used_bytes": size.used_bytes,
        "file_bytes": size.file_bytes,
        "limit_bytes": size.limit_bytes,
        "kinds": {
            row.kind: {
                "results": row.num_results, "data_bytes": row.data_bytes, "last_used": row.last_used
            }
            for row in size.kinds
        },
        "held": size.num_pinned,
        "jobs": list(size.jobs),
        "counters": dict(size.counters),
        "slow_because": reason,
        "set_aside": aside,
    }  # fmt: skip


def _report(path: Path, size: CacheStats, reason: str) -> Iterator[str]:
    share = f"{size.used_bytes / size.limit_bytes:.0%}" if size.limit_bytes else ""
    yield (
        f"{_many(size.num_results)}, {format_bytes(size.used_bytes)} of"
        f" {format_bytes(size.limit_bytes)} ({share})"
    )
    yield f"in {path}, {format_bytes(size.file_bytes)} on disk"
    if size.kinds:
        rows = [["kind", "results", "data", "last used"]]
        rows += [
            [row.kind, f"{row.num_results:,}", format_bytes(row.data_bytes), _date(row.last_used)]
            for row in size.kinds
        ]
        yield ""
        yield table(rows, right=(1, 2))
        yield ""
    yield from _history(size)
    if size.jobs:
        names = ", ".join(size.jobs[:5]) + (", ..." if len(size.jobs) > 5 else "")
        yield f"Held for unfinished jobs: {_many(size.num_pinned)} ({names})."
    if reason:
        yield f"Slower than it could be: {reason}."


def _history(size: CacheStats) -> Iterator[str]:
    hits, misses = size.counters.get("hits", 0), size.counters.get("misses", 0)
    if hits + misses:
        yield f"Asked for {_many(hits + misses)}, {hits:,} found ({hits / (hits + misses):.0%})."
    if size.counters.get("evicted"):
        yield f"Dropped to stay within the limit: {_many(size.counters['evicted'])}."
    if size.counters.get("bad"):
        yield f"Dropped as damaged: {_many(size.counters['bad'])}."


# -- what is done ------------------------------------------------------------------------------


def _prune(context: Context) -> int:
    options = context.options
    chosen = {"older_than_s": options.older_than, "kind": options.kind, "engine": options.engine}
    if options.all and (options.to is not None or any(v is not None for v in chosen.values())):
        raise InvalidInputError("--all leaves nothing to choose", hint="Leave one of them out.")
    to_bytes = 0 if options.all else options.to
    with open_store(context) as store:
        _check_kind(store, options.kind)
        _check_engine(store, options.engine)
        if options.all and not options.dry_run and not options.yes and not options.json:
            count = store.stats().num_results
            if can_ask() and not agreed(f"Drop all of {_many(count)}?"):
                print("Nothing was dropped.")
                return 0
        with _progress("result", "dropping") as tell:
            done = store.prune(
                to_bytes=to_bytes,
                include_pinned=options.held,
                dry_run=options.dry_run,
                on_progress=tell,
                **chosen,
            )
        size = store.stats()
    if options.json:
        counts = {"num_results": done.num_results, "data_bytes": done.data_bytes}
        counts |= {"num_held": done.num_pinned, "file_bytes": size.file_bytes}
        print_json({**counts, "dry_run": options.dry_run})
        return 0
    verb = "Would drop" if options.dry_run else "Dropped"
    print(f"{verb} {_many(done.num_results)} ({format_bytes(done.data_bytes)}).")
    if done.num_pinned:
        print(f"{_many(done.num_pinned)} stay for unfinished jobs; --held drops them as well.")
    if not options.dry_run:
        print(f"{_many(size.num_results)} left, {format_bytes(size.file_bytes)} on disk.")
    return 0


def _forget(context: Context) -> int:
    """Drop what a worker made, nearby and on the shared server."""
    from anyrig.cli.share import open_results

    options, maker = context.options, context.options.maker
    with open_store(context) as store:
        makers = store.list_workers()
        plan = store.delete_from_worker(maker, dry_run=True)
    if maker not in makers:
        known = f"Kept is what these made: {', '.join(makers)}." if makers else ""
        raise InvalidInputError(
            f"nothing that the worker {maker!r} made is kept",
            hint=known or "Everything that is kept was made on this machine.",
        )
    if not options.dry_run:
        with open_results(context) as store_or_both:
            plan = store_or_both.delete_from_worker(maker)
    if options.json:
        told = {"num_results": plan.num_results, "data_bytes": plan.data_bytes}
        print_json({**told, "from": maker, "dry_run": options.dry_run})
        return 0
    verb = "Would drop" if options.dry_run else "Dropped"
    print(f"{verb} {_many(plan.num_results)} ({format_bytes(plan.data_bytes)}) that {maker} made.")
    return 0


def _check_kind(store: ResultCache, kind: str | None) -> None:
    """A slip of the pen must not look like an empty answer."""
    kinds = [row.kind for row in store.stats().kinds] if kind else []
    if kinds and kind not in kinds:
        raise InvalidInputError(
            f"nothing of the kind {kind!r} is kept", hint=f"Kept: {', '.join(kinds)}."
        )


def _check_engine(store: ResultCache, engine: str | None) -> None:
    size = store.stats() if engine else None
    if size and size.num_results and engine not in size.engines:
        names = ", ".join(size.engines)
        raise InvalidInputError(
            f"nothing that the engine {engine!r} made is kept",
            hint=f"Kept is what these made: {names}." if names else "No result names its engine.",
        )


def _export(context: Context, file: Path) -> int:
    from anyrig.storage import archive

    writable(file)
    with open_store(context) as store, _progress("result", "exporting") as tell:
        _check_kind(store, context.options.kind)
        done = archive.export_results(store, file, kind=context.options.kind, on_progress=tell)
    if context.options.json:
        print_json({**done._asdict(), "file": str(file)})
    else:
        told = f"{_many(done.num_results)} ({format_bytes(done.data_bytes)})"
        print(f"Exported {told} to {file}, {format_bytes(file.stat().st_size)} on disk.")
    return 0


def _import(context: Context, file: Path) -> int:
    from anyrig.storage import archive

    with open_store(context) as store, _progress("step", "importing") as tell:
        done = archive.import_results(store, file, on_progress=tell)
    if context.options.json:
        print_json({**done._asdict(), "num_bad": 0, "file": str(file)})
        return 0
    print(f"Imported {_many(done.num_new)} of {done.num_results:,} from {file}.")
    known = done.num_results - done.num_new
    if known:
        print(f"{_many(known)} were here already and stay as they are.")
    return 0


def _verify(context: Context) -> int:
    """Everything whole is 0; something dropped is 1, so that a script notices."""
    with open_store(context) as store, _progress("result", "verifying") as tell:
        done = store.verify(tell)
    if context.options.json:
        print_json(done._asdict())
    elif done.num_bad:
        print(f"{_many(done.num_results)} read, {done.num_bad:,} damaged and dropped.")
    else:
        print(f"{_many(done.num_results)} read, all whole.")
    return 1 if done.num_bad else 0


# -- words and numbers -------------------------------------------------------------------------


@contextmanager
def _progress(noun: str, doing: str) -> Iterator[ProgressCallback]:
    """A line that counts, redrawn ten times a second at most."""
    shown: list[Progress] = []
    counted, last = 0, 0.0

    def tell(done: int, total: int) -> None:
        nonlocal counted, last
        if not shown:
            shown.append(Progress(total, noun))
        while counted < done:
            shown[0].done()
            counted += 1
        if time.monotonic() - last > 0.1:
            last = time.monotonic()
            shown[0].step(doing)

    try:
        yield tell
    finally:
        for progress in shown:
            progress.close()


def _many(count: int) -> str:
    return pluralize(count, "result").replace(str(count), f"{count:,}", 1)


def _date(when: float) -> str:
    return datetime.datetime.fromtimestamp(when).strftime("%Y-%m-%d %H:%M")


def _size(text: str) -> int:
    """`500M`, `2G`, `1.5 GiB`, `4096B`; a bare number could be meant as any of them."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(?:i?B)?|B)\s*", text, re.IGNORECASE)
    if not found and re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", text):
        number = text.strip()
        raise InvalidInputError(
            f"--to {number} has no unit",
            hint=f"Write {number}G or {number}M; --all drops everything.",
        )
    if not found:
        raise InvalidInputError(f"{text!r} is no size", hint="Write it as 500M or 2G.")
    return int(float(found[1]) * _UNITS[(found[2] or "B").upper()])


def _age(text: str) -> float:
    """`90s`, `30m`, `12h`, `30d`, `8w`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", text)
    if not found or not math.isfinite(float(found[1])):
        raise InvalidInputError(f"{text!r} is no age", hint="Write it as 12h, 30d or 8w.")
    return float(found[1]) * _SPANS[found[2]]
