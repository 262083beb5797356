"""The page's API client: it calls the same routes as every client, within the process."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from fastapi import FastAPI

from anyrig.server.auth import SCOPE_NO_KEY_NEEDED, build_page_headers
from anyrig.server.page.translations import Translator
from anyrig.server.state import ServerState

ENGLISH = "en"
"""The language of the API's messages, for the `lang` attribute of what shows them."""


class ApiError(Exception):
    """An error response of the API, or of the page itself.

    Args:
        status: the HTTP status.
        title: what went wrong.
        hint: what to do.
        lang: the language of both if it is not the page's.
        results: the result of each source, if there were several.
    """

    def __init__(
        self, status: int, title: str, hint: str = "", *, lang: str = "",
        results: Sequence[Mapping[str, Any]] = (),
    ) -> None:  # fmt: skip
        super().__init__(title)
        self.status, self.title, self.hint, self.lang = status, title, hint, lang
        self.results = results


class ApiClient:
    """Calls the API with the permissions of one visitor: `api.for_visitor(request.scope)`.

    `ASGITransport` returns whole responses only, so the page never streams through it: the browser
    fetches audio itself, and progress is polled.
    """

    def __init__(self, app: FastAPI, server: ServerState) -> None:
        self._server = server
        self._scope: Mapping[str, Any] = {}
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, raise_app_exceptions=False),
            base_url="http://127.0.0.1", timeout=None,
        )  # fmt: skip

    def for_visitor(self, scope: Mapping[str, Any]) -> ApiClient:
        """A client for the visitor who opened a page with this request."""
        client = copy.copy(self)
        client._scope = scope
        return client

    @property
    def folders(self) -> list[str]:
        """Folders of this machine that requests may index."""
        setting = str(getattr(self._server.settings, "folders", ""))
        return [folder.strip() for folder in setting.split(",") if folder.strip()]

    @property
    def max_upload_bytes(self) -> int:
        return self._server.uploads.max_bytes

    @property
    def uses_cluster(self) -> bool:
        """Whether text to speak is sent to other machines."""
        return self._server.cluster is not None

    @property
    def is_signed_in(self) -> bool:
        return not self._scope.get(SCOPE_NO_KEY_NEEDED)

    async def get(self, path: str, **query: Any) -> Any:
        return await self._request("GET", path, params=query)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return await self._request("POST", path, json=body)

    async def put(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._request("PUT", path, json=body)

    async def delete(self, path: str) -> Any:
        return await self._request("DELETE", path)

    async def _request(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of the response, or its text."""
        headers = build_page_headers(str(self._server.page_token), self._scope)
        response = await self._client.request(method, path, headers=headers, **options)
        if response.is_success:
            is_json = "json" in response.headers.get("content-type", "")
            return response.json() if is_json else response.text
        raise _read_error(response)


def _read_error(response: httpx.Response) -> ApiError:
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    title = str(problem.get("title") or f"{response.status_code} {response.reason_phrase}")
    hint = str(problem.get("hint") or problem.get("detail") or "")
    results = problem.get("results") or ()
    return ApiError(response.status_code, title, hint, lang=ENGLISH, results=results)


def explain_forbidden(t: Translator, error: ApiError) -> ApiError:
    """The error of something that only administrators may do, in the page's language."""
    if error.status != 403:
        return error
    return ApiError(403, t("login.admin"), t("login.admin.do"))
