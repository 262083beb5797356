"""The server's part that knows who may come in, and what is needed before it listens elsewhere."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack

from anyrig.cli.context import Context
from anyrig.cli.keys import opened
from anyrig.errors import BadInput
from anyrig.server.keeper import Keeper
from anyrig.server.keys import Keys


def made(context: Context, stack: ExitStack, keeper: Keeper) -> Keys:
    """The part."""
    return opened(context)


def demand(context: Context, keys: Keys, *, host: str, container: bool) -> None:
    """Somebody must be able to come in: without any key the server does not start.

    Args:
        context: of the command.
        keys: those that there are.
        host: the address that it is about to listen on.
        container: in one nobody is there to make a key, so it makes its own and prints it once.
    """
    if keys.all():
        return
    if not container:
        raise BadInput(
            f"on {host} callers need keys, and there are none",
            hint="`anyrig keys add NAME` makes one; --insecure lets anybody in.",
        )
    text, _ = keys.add("container")
    if context.options.json:
        print(json.dumps({"event": "key", "name": "container", "key": text}))
    else:
        print(f"A key was made; it is shown this once:\n\n  {text}\n")
    sys.stdout.flush()
