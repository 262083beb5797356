"""`anyrig keys`: API keys of the server."""

from __future__ import annotations

import argparse
import json
import time

from anyrig.app.keys import AddKeyRequest, ApiKey, add_key, open_keys
from anyrig.app.rig import Rig
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import format_table, print_json
from anyrig.cli.rig import open_rig
from anyrig.errors import InvalidInputError

HELP = """Manage the API keys of `anyrig serve`, which clients on other machines need. `add NAME`
makes a key and prints it once: only its hash is stored. `list` shows all keys, `remove NAME`
removes one; a running server refuses it from the next request on. Scopes: speech, embeddings,
documents, jobs, train, read, page (the web page) and admin (everything)."""
MIXED = True
_ACTIONS = ("add", "list", "remove")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="add NAME, list, or remove NAME; default: list"
    )
    add_flags(parser, AddKeyRequest)


def run(arguments: argparse.Namespace) -> int:
    action, *names = arguments.words or ["list"]
    if action not in _ACTIONS:
        raise InvalidInputError(
            f"unknown action: keys {action}", hint=f"Actions: {', '.join(_ACTIONS)}."
        )
    if len(names) != (action != "list"):
        count = "no name" if action == "list" else "one name"
        raise InvalidInputError(f"keys {action} takes {count}", hint="anyrig keys add laptop")
    rig = open_rig(arguments)
    if action == "add":
        given = read_flags(arguments, AddKeyRequest)
        return _add(rig, rig.request(AddKeyRequest, **given, name=names[0]), as_json=arguments.json)
    if action == "remove":
        return _remove(rig, names[0], as_json=arguments.json)
    return _list(rig, as_json=arguments.json)


def _add(rig: Rig, request: AddKeyRequest, *, as_json: bool) -> int:
    text, key = add_key(rig, request)
    if as_json:
        print_json({"key": text, **key.to_json()})
        return 0
    print(text)
    print(f"\nThis is the key of {key.name}. It is not shown again. Clients send it as")
    print("  Authorization: Bearer KEY     or     X-API-Key: KEY")
    return 0


def _remove(rig: Rig, name: str, *, as_json: bool) -> int:
    key = open_keys(rig).remove(name)
    if as_json:
        print(json.dumps({"removed": key.name, "id": key.id}))
    else:
        print(f"Removed {key.name}: it is refused from now on.")
    return 0


def _list(rig: Rig, *, as_json: bool) -> int:
    keys = open_keys(rig).list_keys()
    if as_json:
        print_json({"keys": [key.to_json() for key in keys]})
        return 0
    if not keys:
        print("There are no keys. `anyrig keys add NAME` makes one.")
        return 0
    default_rate = rig.settings.server.requests_per_minute
    head = ["NAME", "ID", "SCOPES", "PER MINUTE", "CREATED", "EXPIRES"]
    rows = [
        [key.name, key.id, ",".join(key.scopes), str(key.requests_per_minute or default_rate),
         _format_time(key.made_at), _format_expiry(key)]
        for key in keys
    ]  # fmt: skip
    print(format_table([head, *rows], right=[3]))
    return 0


def _format_expiry(key: ApiKey) -> str:
    if key.expires_at is None:
        return "never"
    return _format_time(key.expires_at) if key.expires_at > time.time() else "expired"


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
