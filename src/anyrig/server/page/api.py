"""The page's own client: the same routes as everybody's, asked without leaving the process."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from fastapi import FastAPI

from anyrig.server.auth import SCOPE_NO_KEY_NEEDED, build_page_headers
from anyrig.server.page.words import Words
from anyrig.server.state import ServerState

ENGLISH = "en"
"""What the routes say is English, whatever language the page is in; readers must know."""


class Refused(Exception):
    """What a route answered with instead: a title, and what to do next.

    `lang` is the language of the words where it may be another than the page's; `results` is how
    each of several sources fared.
    """

    def __init__(
        self, status: int, title: str, hint: str = "", *, lang: str = "",
        results: Sequence[Mapping[str, Any]] = (),
    ) -> None:  # fmt: skip
        super().__init__(title)
        self.status, self.title, self.hint, self.lang = status, title, hint, lang
        self.results = results


class Api:
    """Asks the routes of the app that the page is on, for one visitor: `api.of(request.scope)`.

    `ASGITransport` hands an answer over when it is whole, so streams are not for here: the browser
    fetches sound itself, and progress is asked for again.
    """

    def __init__(self, app: FastAPI, server: ServerState) -> None:
        self._server = server
        self._visit: Mapping[str, Any] = {}
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, raise_app_exceptions=False),
            base_url="http://127.0.0.1", timeout=None,
        )  # fmt: skip

    def of(self, visit: Mapping[str, Any]) -> Api:
        """The same for one visitor, who can do as much as the key that they came with.

        Args:
            visit: the scope of the request that the page was opened with.
        """
        mine = copy.copy(self)
        mine._visit = visit
        return mine

    @property
    def folders(self) -> list[str]:
        """Folders of this machine that may be indexed by name."""
        told = str(getattr(self._server.settings, "folders", ""))
        return [one.strip() for one in told.split(",") if one.strip()]

    @property
    def spread(self) -> bool:
        """Whether texts go to other machines to be spoken."""
        return self._server.cluster is not None

    @property
    def locked(self) -> bool:
        """Whether a person came in with a key, and so can leave."""
        return not self._visit.get(SCOPE_NO_KEY_NEEDED)

    async def get(self, path: str, **query: Any) -> Any:
        """The JSON of an answer."""
        return await self._ask("GET", path, params=query)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send JSON, get JSON."""
        return await self._ask("POST", path, json=body)

    async def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send JSON, get JSON."""
        return await self._ask("PUT", path, json=body)

    async def delete(self, path: str) -> Any:
        """Delete something for good."""
        return await self._ask("DELETE", path)

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        headers = build_page_headers(str(self._server.page_token), self._visit)
        answer = await self._client.request(method, path, headers=headers, **more)
        if answer.is_success:
            kind = answer.headers.get("content-type", "")
            return answer.json() if "json" in kind else answer.text
        raise refusal(answer)


def refusal(answer: httpx.Response) -> Refused:
    """An answer of 400 or more as something to show."""
    try:
        told = answer.json()
    except ValueError:
        told = {}
    if not isinstance(told, dict):
        told = {}
    title = str(told.get("title") or f"{answer.status_code} {answer.reason_phrase}")
    hint = str(told.get("hint") or told.get("detail") or "")
    results = told.get("results") or ()
    return Refused(answer.status_code, title, hint, lang=ENGLISH, results=results)


def for_admins(t: Words, refused: Refused) -> Refused:
    """The refusal of something that is for admins alone, in the page's own words."""
    if refused.status != 403:
        return refused
    return Refused(403, t("login.admin"), t("login.admin.do"))
