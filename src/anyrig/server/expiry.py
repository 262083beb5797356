"""Uploads that nobody needs any more go after a while: what no job and no index has."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from anyrig.server.uploads import delete_unneeded_uploads

if TYPE_CHECKING:
    from anyrig.server.state import ServerState

log = logging.getLogger(__name__)
_FIRST_S, _EVERY_S = 60.0, 3600.0
_DAY_S = 86_400.0


async def expiring(server: ServerState) -> None:
    """Look every hour, for as long as the server runs."""
    if not server.settings.upload_days:
        return
    limiter = anyio.CapacityLimiter(1)
    await asyncio.sleep(_FIRST_S)
    while True:
        try:
            await to_thread.run_sync(expire, server, limiter=limiter)
        except Exception:
            log.exception("old uploads could not be looked through")
        await asyncio.sleep(_EVERY_S)


def expire(server: ServerState) -> list[str]:
    """Delete what is too old and of no use; the ids. Takes as long as reading every index does."""
    before = time.time() - server.settings.upload_days * _DAY_S
    old = server.uploads.list_unused(before)
    if not old:
        return []
    # An index that cannot be read is an error here: nobody knows what it needs, so all stay.
    indexed = set(server.documents.submit("index_uploads", {}).result()["uploads"])
    used = set(old) - set(server.uploads.list_unused(before))  # while we looked
    gone = delete_unneeded_uploads(
        server, [one for one in old if one not in indexed and one not in used]
    )
    if gone:
        log.info("deleted %d uploads that nobody used for %g days", len(gone),
                 server.settings.upload_days)  # fmt: skip
    return gone
