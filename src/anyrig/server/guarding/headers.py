"""Headers that every answer carries, so that a browser keeps strangers out of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]

# The page's framework makes its parts out of inline scripts and templates when it runs.
_PAGE = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "font-src 'self' data:; worker-src 'self' blob:; connect-src 'self' {sockets}; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_OTHER = (
    "default-src 'none'; style-src 'unsafe-inline'; font-src data:; form-action 'self'; "
    "frame-ancestors 'none'"
)
_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    # Not no-referrer: under it a browser does not say that a form of our own is our own.
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy",
     b"camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()"),
]  # fmt: skip
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_EXPOSED = b"Retry-After, X-Anyrig-Ignored, Content-Disposition, X-Request-ID"


def added(
    headers: Iterable[tuple[bytes, bytes]], *, host: str, plain: bool, origin: str
) -> Headers:
    """The headers of an answer, completed.

    Args:
        headers: what the answer has.
        host: the name that the server was called by, which is one of its own.
        plain: the answer is no part of the page, and runs nothing.
        origin: a page of others that may read the answer; none when empty.
    """
    # A control character, which a client may have sent in a name, would break the connection.
    found = [(name.lower(), _CONTROL.sub(b"?", value)) for name, value in headers]
    has = {name for name, _ in found}
    kind = next((value for name, value in found if name == b"content-type"), b"")
    for name, value in _ALWAYS:
        if name not in has:
            found.append((name, value))
    if b"content-security-policy" not in has:
        page = kind.startswith(b"text/html") and not plain
        sockets = f"ws://{host} wss://{host}"
        policy = _PAGE.format(sockets=sockets) if page else _OTHER
        found.append((b"content-security-policy", policy.encode("latin-1", "replace")))
    if b"cache-control" not in has and b"json" in kind:
        found.append((b"cache-control", b"no-store"))
    if origin:
        found += [
            (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"Origin"),
        ]
    return found


PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": "Authorization, X-API-Key, Content-Type, Last-Event-ID, Range",
    "Access-Control-Max-Age": "600",
}
"""Headers of the answer to a browser that asks whether it may ask, beside those of every answer."""
