"""What a key must be allowed for each address. What is not named here is the page's."""

from __future__ import annotations

ANYBODY = frozenset({"/health/live", "/login", "/logout"})
"""Addresses that ask for no key."""
_ANY_KEY = ("/v1/models", "/config", "/health", "/openapi.json", "/docs")
_READING = ("GET", "HEAD", "OPTIONS")
_READ = {
    "/jobs": ("read", "jobs", "train"),
    "/runs": ("read", "train"),
    "/metrics": ("read",),
    "/devices": ("read",),
    "/bench": ("read",),
    "/cluster": ("read",),
    "/lexicon": ("read", "speech"),
    "/uploads": ("documents", "jobs", "speech", "train"),
    "/books": ("jobs",),
    "/documents": ("documents",),
}
_WRITE = {
    "/v1/audio": ("speech",),
    "/stream": ("speech",),
    "/lexicon": ("speech",),
    "/v1/embeddings": ("embeddings",),
    "/documents": ("documents",),
    "/uploads": ("documents", "jobs", "speech", "train"),
    "/books": ("jobs",),
    "/jobs": ("jobs", "train"),
    "/runs": ("train",),
}
PAGE = ("page",)


def scopes_of(method: str, path: str, *, for_people: bool) -> tuple[str, ...] | None:
    """One of these lets a key in; none at all means that any key does.

    Args:
        method: of the request; that of a WebSocket is empty.
        path: as the routes see it.
        for_people: HTML is asked for: then it is the page, which can do everything.
    """
    if path in ("/docs", "/openapi.json"):
        return None
    if for_people:
        return PAGE
    reading = method in _READING
    if reading and any(_under(path, one) for one in _ANY_KEY):
        return None
    table = _READ if reading else _WRITE
    return next((scopes for start, scopes in table.items() if _under(path, start)), _other(path))


def _other(path: str) -> tuple[str, ...]:
    owners = ("/devices", "/cluster")
    return ("admin",) if any(_under(path, one) for one in owners) else PAGE


def _under(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}/")
