"""Which jobs a page asks for, once a second: those it shows, and nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from anyrig.server.page import jobs_facts
from anyrig.server.page.api import Api, Refused
from anyrig.server.page.jobs_facts import ACTIVE, Told

_AT_ONCE = 1000
"""What the API tells at most in one answer."""


class Looked(NamedTuple):
    """What was found."""

    jobs: list[Told]
    """The newest first."""
    num: int
    """All that fit, shown or not."""
    num_all: int
    """Of the same kinds, in whatever state."""


class Looking:
    """Asks for jobs of some kinds, or of all, again and again.

    Args:
        api: of the visitor.
        kinds: all where none is named.
    """

    def __init__(self, api: Api, *kinds: str) -> None:
        self._api, self._kinds = api, kinds
        self._at_work: set[str] = set()

    async def look(self, most: int, states: Sequence[str] = ()) -> Looked:
        """The newest, so many at most; whatever is not over; and what has just come to its end."""
        found, counts = await self._newest(most, states)
        wanted = [state for state in ACTIVE if not states or state in states]
        at_work = sum(job["state"] in ACTIVE for job in found.values())
        if sum(counts[state] for state in wanted) > at_work:  # some of them are older
            told = await self._asked(_AT_ONCE, wanted)
            found |= {str(job["id"]): job for job in told["jobs"]}
        if not states:
            await self._ended(found)
        self._at_work = {id for id, job in found.items() if job["state"] in ACTIVE}
        num = sum(count for state, count in counts.items() if not states or state in states)
        return Looked(jobs_facts.newest(found.values()), num, sum(counts.values()))

    async def _newest(
        self, most: int, states: Sequence[str]
    ) -> tuple[dict[str, Told], dict[str, int]]:
        found: dict[str, Told] = {}
        before: dict[str, int] = {}
        while True:
            told = await self._asked(min(most - len(found), _AT_ONCE), states, **before)
            found |= {str(job["id"]): job for job in told["jobs"]}
            if told["older"] is None or len(found) >= most:
                return found, told["counts"]
            before = {"before": told["older"]}

    async def _ended(self, found: dict[str, Told]) -> None:
        """Add what was at work a moment ago and is now too old to be among the newest."""
        for id in self._at_work - found.keys():
            with suppress(Refused):  # it was deleted
                found[id] = await self._api.get(f"/jobs/{id}")

    async def _asked(self, most: int, states: Sequence[str], **before: int) -> Any:
        return await self._api.get(
            "/jobs", limit=most, kind=self._kinds, state=list(states), **before
        )
