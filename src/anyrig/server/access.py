"""Who calls, as the middleware found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anyrig.app.access import Client
from anyrig.server.auth import SCOPE_KEY, SCOPE_NO_KEY_NEEDED

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


def client_of(request: HTTPConnection) -> Client:
    """Who asks; one whom the middleware has not seen may see nothing."""
    return client_of_scope(request.scope)


def client_of_scope(scope: Mapping[str, Any]) -> Client:
    """The same by the scope of a request."""
    if scope.get(SCOPE_NO_KEY_NEEDED):
        return Client(sees_all=True)
    key = scope.get(SCOPE_KEY)
    return Client() if key is None else Client(key.id, sees_all="admin" in key.scopes)
