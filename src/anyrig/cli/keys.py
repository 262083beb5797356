"""`anyrig keys`: who may call the server, for what, and how often."""

from __future__ import annotations

import argparse
import json
import re
import time
from typing import TYPE_CHECKING, Any

from anyrig.cli.context import Context
from anyrig.cli.show import print_json, table
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.app.keys import ApiKey, ApiKeys

HELP = """Who may call `anyrig serve` from other machines. `add NAME` makes a key and shows it this
once: only a hash of it is kept. `list` shows what there is, `remove NAME` takes one away; a server
that runs refuses it from the next request on. Scopes: speech, embeddings, documents, jobs, train,
read, page (the page in the browser) and admin (everything)."""
MIXED = True
_ACTIONS = ("add", "list", "remove")
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="add NAME, list, or remove NAME; list when empty"
    )
    parser.add_argument(
        "--scopes", metavar="NAMES", default="admin",
        help="what it may do, with commas: speech,read; everything when not given",
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=int, metavar="N", default=0,
        help="requests a minute; as server.requests_per_minute says when not given",
    )  # fmt: skip
    parser.add_argument(
        "--expires", metavar="WHEN", default="",
        help="how long it holds (12h, 30d, 1y) or until when (2027-01-31); for good when not given",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Add, list or remove."""
    context = Context(options)
    action, *names = options.words or ["list"]
    if action not in _ACTIONS:
        raise InvalidInputError(
            f"keys {action}: no such thing", hint=f"There are: {', '.join(_ACTIONS)}."
        )
    if len(names) != (action != "list"):
        wanted = "no name" if action == "list" else "one name"
        raise InvalidInputError(f"keys {action} takes {wanted}", hint="anyrig keys add laptop")
    keys = opened(context)
    if action == "add":
        return _add(context, keys, names[0])
    if action == "remove":
        return _remove(context, keys, names[0])
    return _list(context, keys)


def opened(context: Context) -> ApiKeys:
    """This user's keys."""
    from anyrig.app.keys import ApiKeys

    return ApiKeys(context.folders.api_keys)


def until(word: str, now: float) -> float | None:
    """Seconds since 1970 of a span or a day; None for no end."""
    if not word:
        return None
    if match := re.fullmatch(r"(\d{1,6})([mhdwy])", word.strip().lower()):
        return now + int(match[1]) * _UNITS[match[2]]
    try:
        end = time.mktime(time.strptime(word.strip(), "%Y-%m-%d"))
    except (ValueError, OverflowError):
        raise InvalidInputError(
            f"--expires {word} is no time", hint="A span such as 12h, 30d or 1y, or 2027-01-31."
        ) from None
    if end <= now:
        raise InvalidInputError(f"--expires {word} is past", hint="Name a day to come.")
    return end


def _add(context: Context, keys: ApiKeys, name: str) -> int:
    options = context.options
    scopes = [word.strip() for word in options.scopes.split(",") if word.strip()]
    text, key = keys.add(
        name, scopes=scopes, requests_per_minute=options.rate,
        expires_at=until(options.expires, time.time()),
    )  # fmt: skip
    if options.json:
        print_json({"key": text, **_row(key)})
        return 0
    print(text)
    print(f"\nThat is the key of {name}; it is shown this once. Callers send it as")
    print("  Authorization: Bearer KEY     or     X-API-Key: KEY")
    return 0


def _remove(context: Context, keys: ApiKeys, name: str) -> int:
    key = keys.remove(name)
    if context.options.json:
        print(json.dumps({"removed": key.name, "id": key.id}))
    else:
        print(f"Removed {key.name}; it is refused from now on.")
    return 0


def _list(context: Context, keys: ApiKeys) -> int:
    found = keys.all()
    if context.options.json:
        print_json({"keys": [_row(one) for one in found]})
        return 0
    if not found:
        print("There are no keys. `anyrig keys add NAME` makes one.")
        return 0
    usual = context.loaded.settings.server.requests_per_minute
    head = ["NAME", "ID", "SCOPES", "A MINUTE", "MADE", "HOLDS UNTIL"]
    rows = [
        [one.name, one.id, ",".join(one.scopes), str(one.requests_per_minute or usual),
         _day(one.made_at), _end(one)]
        for one in found
    ]  # fmt: skip
    print(table([head, *rows], right=[3]))
    return 0


def _row(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id, "name": key.name, "scopes": list(key.scopes),
        "requests_per_minute": key.requests_per_minute or None,
        "made_at": key.made_at, "expires_at": key.expires_at,
    }  # fmt: skip


def _end(key: ApiKey) -> str:
    if key.expires_at is None:
        return "for good"
    return _day(key.expires_at) if key.expires_at > time.time() else "expired"


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
