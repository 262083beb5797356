"""What a key must be allowed for each address. What is not named here is the page's."""

from __future__ import annotations

from dataclasses import replace

from anyrig.app.keys import SCOPES, ApiKey

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
_SHARED = frozenset({"/books", "/cluster", "/documents", "/jobs"})
"""Where a person gets a page and a program the answer of a route."""


def scopes_of(method: str, path: str, *, for_people: bool) -> tuple[str, ...] | None:
    """One of these lets a key in; none at all means that any key does.

    Args:
        method: of the request; that of a WebSocket is empty.
        path: as the routes see it.
        for_people: HTML is asked for: where there is a page, it is the page.
    """
    if path in ("/docs", "/openapi.json"):
        return None
    if for_people and method in ("GET", "HEAD") and path in _SHARED:
        return PAGE
    reading = method in _READING
    if reading and any(_under(path, one) for one in _ANY_KEY):
        return None
    table = _READ if reading else _WRITE
    return next((scopes for start, scopes in table.items() if _under(path, start)), _other(path))


def on_the_page(key: ApiKey) -> ApiKey:
    """A key as the page has it: one for the page can do there whatever is not for admins alone."""
    if not key.may(*PAGE):
        return key
    everyday = (one for one in SCOPES if one != "admin")
    return replace(key, scopes=tuple(dict.fromkeys((*key.scopes, *everyday))))


def _other(path: str) -> tuple[str, ...]:
    owners = ("/devices", "/cluster")
    return ("admin",) if any(_under(path, one) for one in owners) else PAGE


def _under(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}/")
