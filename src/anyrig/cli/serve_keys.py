"""The server's part that knows who may come in, and what is needed before it listens elsewhere."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack

from anyrig.app.keys import ApiKeys
from anyrig.app.models import ModelCache
from anyrig.cli.context import Context
from anyrig.cli.keys import opened
from anyrig.errors import InvalidInputError


def made(context: Context, stack: ExitStack, models: ModelCache) -> ApiKeys:
    """The part."""
    return opened(context)


def demand(context: Context, keys: ApiKeys, *, host: str, container: bool) -> None:
    """Somebody must be able to come in: without any key that holds the server does not start.

    Args:
        context: of the command.
        keys: those that there are.
        host: the address that it is about to listen on.
        container: in one nobody is there to make a key, so it makes its own and prints it once.
    """
    there = keys.all()
    if any(keys.get(one.id) for one in there):
        return
    if not container:
        why = "all of them have expired" if there else "there are none"
        raise InvalidInputError(
            f"on {host} callers need keys, and {why}",
            hint="`anyrig keys add NAME` makes one; --insecure lets anybody in.",
        )
    taken = {one.name for one in there}
    name = next(one for one in _names("container") if one not in taken)
    text, _ = keys.add(name)
    if context.options.json:
        print(json.dumps({"event": "key", "name": name, "key": text}))
    else:
        print(f"A key was made; it is shown this once:\n\n  {text}\n")
    sys.stdout.flush()


def _names(name: str) -> Iterator[str]:
    """A name, and others like it: one of an expired key is taken."""
    return itertools.chain([name], (f"{name} {number}" for number in itertools.count(2)))
