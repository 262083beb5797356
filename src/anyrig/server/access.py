"""Who calls, as the middleware found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anyrig.app.access import Client
from anyrig.server.guarding.inside import KEY, NO_KEY

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


def client_of(request: HTTPConnection) -> Client:
    """Who asks; one whom the middleware has not seen may see nothing."""
    return client_of_scope(request.scope)


def client_of_scope(scope: Mapping[str, Any]) -> Client:
    """The same by the scope of a request."""
    if scope.get(NO_KEY):
        return Client(sees_all=True)
    key = scope.get(KEY)
    return Client() if key is None else Client(key.id, sees_all="admin" in key.scopes)
