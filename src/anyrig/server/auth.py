"""Authentication: API keys in headers, sessions of browsers, and which scopes a path needs.

The security middleware finds the key of a request and puts it into the ASGI scope; routes ask
`get_client` who is calling, and `require_scope` where the path does not say what is needed.
"""

from __future__ import annotations

import hashlib
import html
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

import anyio
from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from anyrig.app.access import Client
from anyrig.app.keys import SCOPES, ApiKey, ApiKeys
from anyrig.server.errors import Problem
from anyrig.server.page.icons import svg
from anyrig.server.page.theme import THEME_COOKIE, THEMES, plain_css
from anyrig.server.page.translations import (
    LANGUAGE_COOKIE,
    LANGUAGES,
    choose_language,
    get_translator,
)
from anyrig.server.rates import RateLimiter, too_many_requests

if TYPE_CHECKING:
    from starlette.types import Scope

RawHeaders = Iterable[tuple[bytes, bytes]]
SCOPE_KEY = "anyrig.key"
"""In the ASGI scope: the key of the request, or None if it needs none."""
SCOPE_NO_KEY_NEEDED = "anyrig.no_key"
"""In the ASGI scope: whether the request needs no key, wherever it goes."""
PAGE_TOKEN_HEADER = b"x-anyrig-internal"
"""Marks a request of the page; its value is known in this process only."""
KEY_NEEDED_HEADER = b"x-anyrig-keyed"
"""Marks a request of the page for a visitor who needs a key."""
_WRONG_KEYS_PER_MINUTE = 30
"""From one address. A person who mistypes needs fewer; keys are too long to be guessed, but guesses
fill the log."""


# -- who is calling --------------------------------------------------------------------------------


def get_client(request: HTTPConnection) -> Client:
    """Who is calling. A request that has not passed the middleware may see nothing."""
    return get_client_of_scope(request.scope)


def get_client_of_scope(scope: Mapping[str, Any]) -> Client:
    address = str((scope.get("client") or ("",))[0])
    if scope.get(SCOPE_NO_KEY_NEEDED):
        return Client(sees_all=True, address=address)
    key: ApiKey | None = scope.get(SCOPE_KEY)
    if key is None:
        return Client(address=address)
    return Client(key.id, sees_all="admin" in key.scopes, address=address)


def require_scope(request: Request, *scopes: str) -> None:
    """Refuse a request whose key has none of these scopes."""
    key: ApiKey | None = request.scope.get(SCOPE_KEY)
    if key is not None and not key.has_scope(*scopes):
        raise missing_scope(scopes)


def missing_scope(scopes: tuple[str, ...]) -> Problem:
    return Problem(
        403,
        f"the key does not have the scope {' or '.join(scopes)}",
        hint=f"`anyrig keys add NAME --scopes {scopes[0]}`",
    )


class Authenticator:
    """Finds the key of a request. The key file is read in threads, and by few of them.

    Args:
        keys: of the server.
        port: of the server, for the name of its cookie.
    """

    def __init__(self, keys: ApiKeys, port: int = 0) -> None:
        self.sessions = Sessions(port)
        self.rates = RateLimiter()
        self._keys = keys
        self._limiter = anyio.CapacityLimiter(4)  # others may all wait for models

    async def find_key(self, scope: Scope, *, from_page: bool = False) -> ApiKey | None:
        """The valid key in the headers of a request, or of its session."""
        if text := get_key_text(scope["headers"]):
            key = await self.check(text)
            return widen_for_page(key) if key is not None and from_page else key
        key_id = self.sessions.find(parse_cookies(scope["headers"]).get(self.sessions.cookie, ""))
        if not key_id:
            return None
        key = await to_thread.run_sync(self._keys.get, key_id, limiter=self._limiter)
        return None if key is None else widen_for_page(key)

    async def check(self, text: str) -> ApiKey | None:
        return await to_thread.run_sync(self._keys.check, text, limiter=self._limiter)

    def limit_wrong_keys(self, scope: Mapping[str, Any], *, counts: bool) -> None:
        """Slow down a client whose key was refused; 429 after too many. Right keys never come here,
        so that nobody is kept out by the guesses of others at the same address.

        Args:
            scope: of the request.
            counts: whether the request has a key, which counts as a guess.
        """
        client = scope.get("client") or ("",)
        ask = self.rates.take if counts else self.rates.wait
        if wait_s := ask(f"wrong {client[0]}", _WRONG_KEYS_PER_MINUTE):
            raise too_many_requests("too many wrong API keys", wait_s)

    async def explain(self, text: str) -> str:
        """Why a key is refused."""
        return await to_thread.run_sync(self._keys.explain, text, limiter=self._limiter)


def get_key_text(headers: RawHeaders) -> str:
    """The key in the headers of a request; empty if there is none."""
    found = dict(reversed(list(headers)))  # the first of several counts
    kind, _, token = found.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    return found.get(b"x-api-key", b"").decode("latin-1").strip()


def build_page_headers(page_token: str, visit: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """The headers of a request that the page makes for a visitor.

    They contain what the visitor sent and not who that was: a session that has ended is over for
    an open page, too.

    Args:
        page_token: of the server.
        visit: the ASGI scope of the request that the page was opened with. One that the middleware
            has not seen needs a key.
    """
    headers = [(PAGE_TOKEN_HEADER, page_token.encode())]
    if visit.get(SCOPE_NO_KEY_NEEDED):
        return headers
    credentials = (b"authorization", b"x-api-key", b"cookie")
    sent = [(name, value) for name, value in visit.get("headers", ()) if name in credentials]
    return [*headers, (KEY_NEEDED_HEADER, b"1"), *sent]


# -- scopes ----------------------------------------------------------------------------------------

PUBLIC_PATHS = frozenset({"/health/live", "/login", "/logout"})
"""Paths that need no key."""
KEY_OPTIONAL_PATHS = frozenset({"/health"})
"""Paths that tell less without a key."""
_ANY_KEY = ("/v1/models", "/config", "/health", "/openapi.json", "/docs")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_READ_SCOPES = {
    "/jobs": ("read", "jobs", "train"),
    "/runs": ("read", "train"),
    "/metrics": ("read",),
    "/devices": ("read",),
    "/bench": ("read",),
    "/cluster": ("read",),
    "/lexicon": ("read", "speech"),
    "/voices": ("speech",),
    "/engines": ("read", "speech"),
    "/uploads": ("documents", "jobs", "speech", "train"),
    "/books": ("jobs",),
    "/documents": ("documents",),
}
_WRITE_SCOPES = {
    "/v1/audio": ("speech",),
    "/dev/captioned_speech": ("speech",),
    "/stream": ("speech",),
    "/lexicon": ("speech",),
    "/voices/check": ("speech",),
    "/v1/embeddings": ("embeddings",),
    "/documents": ("documents",),
    "/uploads": ("documents", "jobs", "speech", "train"),
    "/books": ("jobs",),
    "/jobs": ("jobs", "train"),
    "/runs": ("train",),
}
_ADMIN_PATHS = ("/devices", "/cluster", "/engines", "/voices")
_PAGE_SCOPE = ("page",)
_PAGE_OR_API = frozenset({"/books", "/cluster", "/documents", "/jobs"})
"""Paths that are a page for a browser and a route for a program."""


def find_scopes(method: str, path: str, *, wants_html: bool) -> tuple[str, ...] | None:
    """The scopes of which a key needs one; None if any key will do.

    Args:
        method: of the request; empty for a WebSocket.
        path: as the routes see it.
        wants_html: a browser navigates: if there is a page at the path, it gets the page.
    """
    if path in ("/docs", "/openapi.json"):
        return None
    if wants_html and method in ("GET", "HEAD") and path in _PAGE_OR_API:
        return _PAGE_SCOPE
    reads = method in _SAFE_METHODS
    if reads and any(_is_below(path, prefix) for prefix in _ANY_KEY):
        return None
    for prefix, scopes in (_READ_SCOPES if reads else _WRITE_SCOPES).items():
        if _is_below(path, prefix):
            return scopes
    return ("admin",) if any(_is_below(path, one) for one in _ADMIN_PATHS) else _PAGE_SCOPE


def widen_for_page(key: ApiKey) -> ApiKey:
    """A key as the page may use it: with the scope `page`, it may do all but what admins do."""
    if not key.has_scope(*_PAGE_SCOPE):
        return key
    everyday = (scope for scope in SCOPES if scope != "admin")
    return replace(key, scopes=tuple(dict.fromkeys((*key.scopes, *everyday))))


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


# -- sessions --------------------------------------------------------------------------------------

_SESSION_S = 7 * 24 * 3600
_MAX_SESSIONS = 1000


class Sessions:
    """Browsers that signed in with a key: a cookie stands for the key.

    The cookie is a random token that is known to this process only; signing out, removing the key
    and ending the server end the session. Used on the event loop only.

    Args:
        port: all servers of a machine share cookies, so each has its own name for one.
        clock: monotonic seconds.
    """

    def __init__(self, port: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.cookie = f"anyrig_session_{port}" if port else "anyrig_session"
        self._clock = clock
        self._sessions: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def start(self, key: ApiKey) -> str:
        """Start a session; the token for its cookie."""
        token = secrets.token_urlsafe(32)
        self._sessions[_digest(token)] = (key.id, self._clock() + _SESSION_S)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return token

    def find(self, token: str) -> str:
        """The id of the key of a session; empty if it has ended."""
        key_id, until = self._sessions.get(_digest(token), ("", 0.0)) if token else ("", 0.0)
        return key_id if self._clock() < until else ""

    def end(self, token: str) -> None:
        self._sessions.pop(_digest(token), None)

    def format_cookie(self, token: str, *, secure: bool) -> str:
        """The value of Set-Cookie; an empty token deletes the cookie."""
        max_age = _SESSION_S if token else 0
        flags = "; Secure" if secure else ""
        return f"{self.cookie}={token}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{flags}"


def parse_cookies(headers: RawHeaders) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        if name == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                key, _, text = pair.strip().partition("=")
                found.setdefault(key, text.strip('"'))
    return found


def _digest(token: str) -> str:
    # Looked up by hash: the time a dictionary takes says nothing about the tokens in it.
    return hashlib.sha256(token.encode("latin-1", "replace")).hexdigest()


# -- login page ------------------------------------------------------------------------------------

LOGIN_ERRORS = ("none", "shape", "unknown", "expired", "scope", "often")
"""Why somebody cannot sign in; each has its own text in the locales."""
_MAX_FORM_BYTES = 4096
_CSS = """
body{display:grid;place-content:center;grid-template-columns:minmax(0,26rem);min-height:100vh;
padding:1rem}.card{gap:1.1rem}.brand{font-size:1.4rem}form{display:grid;gap:1rem}
.button{width:100%}.soft code{overflow-wrap:anywhere}
"""


def login_router(authenticator: Authenticator) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    sessions = authenticator.sessions

    @routes.get("/login")
    async def show(request: Request, next: str = "/") -> Response:
        if request.scope.get(SCOPE_NO_KEY_NEEDED):
            return RedirectResponse("/", 303)
        return login_page(request, next)

    @routes.post("/login")
    async def sign_in(request: Request) -> Response:
        text, following = await _read_form(request)
        key = await authenticator.check(text)
        if key is None:
            try:
                authenticator.limit_wrong_keys(request.scope, counts=True)
            except Problem as problem:
                headers = problem.more["headers"]
                return login_page(request, following, error="often", status=429, headers=headers)
        if key is None or not key.has_scope("page"):
            error = "scope" if key else await authenticator.explain(text) if text else "none"
            return login_page(request, following, error=error, status=401)
        return _redirect(request, local_path(following), sessions, sessions.start(key))

    @routes.post("/logout")
    async def sign_out(request: Request) -> Response:
        sessions.end(parse_cookies(request.headers.raw).get(sessions.cookie, ""))
        return _redirect(request, "/login", sessions, "")

    return routes


def login_page(
    request: Request, following: str, *, error: str = "", status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:  # fmt: skip
    """The login page, in the language and theme that the visitor chose before.

    Args:
        request: its cookies and headers say which these are.
        following: where to go after signing in.
        error: one of `LOGIN_ERRORS`.
        status: of the response.
        headers: further ones.
    """
    language = request.cookies.get(LANGUAGE_COOKIE, "")
    if language not in LANGUAGES:
        language = request.headers.get("accept-language", "")
    theme = request.cookies.get(THEME_COOKIE, "")
    theme = theme if theme in THEMES else "auto"
    t = get_translator(choose_language(language))
    message = ""
    if error:
        title, advice = _escape(t(f"login.{error}")), _escape(t(f"login.{error}.do"))
        message = f"<div class=trouble role=alert><p class=trouble-title>{title}<p>{advice}</div>"
    command = f"anyrig keys add {_escape(t('login.name'))}"
    invalid = " aria-invalid=true" if error else ""
    return HTMLResponse(
        f"<!doctype html><html lang={t.language} data-theme={theme}><meta charset=utf-8>"
        f"<title>{_escape(t('login.title'))} · anyrig</title>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<style>{plain_css()}{_CSS}</style><main class=card>"
        f"<p class=brand><span class=icon>{svg('mark')}</span><span>anyrig</span></p>"
        f"<h1>{_escape(t('login.title'))}</h1><p class=soft>{_escape(t('login.lead'))}</p>{message}"
        f"<form method=post action=/login><div class=field><label for=key>{_escape(t('login.key'))}"
        "</label><input id=key name=key type=password autocomplete=current-password required "
        f"autofocus spellcheck=false{invalid}></div>"
        f"<input type=hidden name=next value='{html.escape(local_path(following), quote=True)}'>"
        f"<button class='button primary'>{_escape(t('login.open'))}</button></form>"
        f"<p class=soft>{_escape(t('login.help'))}<br><code>{command}</code></main></html>",
        status,
        {"Cache-Control": "no-store", **(headers or {})},
    )


def local_path(path: str) -> str:
    """A path of this server: no redirect leads elsewhere."""
    if not path.startswith("/") or path.startswith(("//", "/\\")) or path.startswith("/log"):
        return "/"
    return quote(path, safe="/?=&%") if path.isascii() and path.isprintable() else "/"


async def _read_form(request: Request) -> tuple[str, str]:
    """The key of the login form, and where to go then."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM_BYTES:
            break
    try:
        text = body[:_MAX_FORM_BYTES].decode("utf-8", "replace")
        fields = parse_qs(text, max_num_fields=10)
    except ValueError:  # more fields than the form has
        fields = {}
    return fields.get("key", [""])[-1].strip(), fields.get("next", ["/"])[-1]


def _redirect(request: Request, path: str, sessions: Sessions, token: str) -> Response:
    response = RedirectResponse(path, 303)
    cookie = sessions.format_cookie(token, secure=request.url.scheme == "https")
    response.headers.append("Set-Cookie", cookie)
    return response


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
