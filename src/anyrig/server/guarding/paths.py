"""What a request's address tells: where its form goes, whether it is the page's, its route."""

from __future__ import annotations

from starlette.types import Scope


def takes_files(path: str) -> bool:
    """Whether forms that are sent there go to disk as they come."""
    if path in ("/uploads", "/v1/audio/transcriptions"):
        return True
    return path.startswith("/documents/") and path.endswith("/upload")


def is_furniture(path: str) -> bool:
    """Scripts and styles of the page: a visit fetches dozens, and they cost nothing."""
    return path.startswith(("/_nicegui/", "/page/"))


def route_of(scope: Scope) -> str:
    """The pattern of the route that answered, whole: a router's own prefix is put before it."""
    found = str(getattr(scope.get("route"), "path", ""))
    asked = scope["path"].split("/")
    if found:
        missing = len(asked) - len(found.split("/")) if ":path}" not in found else 0
        return "/".join(asked[: missing + 1]) + found if missing > 0 else found
    start = f"/{asked[1]}" if len(asked) > 1 else ""
    return start if start in ("/_nicegui", "/_nicegui_ws", "/page", "/openapi.json") else "(none)"
