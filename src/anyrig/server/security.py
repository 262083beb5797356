"""Security: a middleware around the whole app, WebSockets and errors included.

It checks, in this order: the Host header, the origin of browsers, the size of the body, the API key
with its rate limit and scopes. Requests that pass are timed and counted; every response gets
headers that protect browsers. It is plain ASGI, so that responses stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import itertools
import logging
import re
import secrets
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyrig.app.access import current_client
from anyrig.app.keys import ApiKey
from anyrig.errors import AnyrigError
from anyrig.server.auth import (
    KEY_NEEDED_HEADER,
    KEY_OPTIONAL_PATHS,
    PAGE_TOKEN_HEADER,
    PUBLIC_PATHS,
    SCOPE_KEY,
    SCOPE_NO_KEY_NEEDED,
    Authenticator,
    find_scopes,
    get_client_of_scope,
    get_key_text,
    local_path,
    login_router,
    missing_scope,
)
from anyrig.server.documents import MAX_TEXTS_FACTOR
from anyrig.server.errors import (
    CLIENT_CLOSED_REQUEST,
    TOO_LARGE_HINT,
    Problem,
    error_response,
)
from anyrig.server.rates import too_many_requests
from anyrig.server.state import ServerState

log = logging.getLogger("anyrig.requests")
_METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())
_SAFE_METHODS = frozenset("GET HEAD OPTIONS".split())
_FORM_FACTOR = 4
"""A form may be this many times as large as the largest file."""
_MAX_OPTION_BYTES = 1 << 20
"""Of JSON, beside the texts to work on."""
_BYTES_PER_CHARACTER = 12
"""Of a text in JSON: an emoji may be written as two escapes, `\\ud83d\\ude00`."""
_ONE_TEXT = frozenset({"/v1/audio/speech", "/voices/check"})
_MANY_TEXTS = frozenset({"/v1/embeddings", "/jobs", "/lexicon"})
"""Routes whose JSON is limited by `server.body_mb` alone."""
_CLOSE = {"Connection": "close"}
"""Of a response to a body whose rest is not worth reading."""


def add_security(app: FastAPI, server: ServerState) -> None:
    """Put the middleware around an app, and add the login page."""
    authenticator = Authenticator(server.keys, server.port)
    app.include_router(login_router(authenticator))
    build = app.build_middleware_stack

    def build_stack() -> ASGIApp:
        return SecurityMiddleware(build(), server, authenticator)

    # The outermost of all: the framework's own responses to errors go through it too.
    app.build_middleware_stack = build_stack  # type: ignore[method-assign]


@dataclass
class _Call:
    """What the headers of a request say."""

    method: str
    path: str
    host: str
    origin: str
    headers: dict[bytes, bytes]
    wants_html: bool
    from_page: bool = False
    """The page makes it, for a visitor."""
    cors_origin: str = ""
    key: ApiKey | None = None


class SecurityMiddleware:
    def __init__(self, app: ASGIApp, server: ServerState, authenticator: Authenticator) -> None:
        self._app, self._server, self._authenticator = app, server, authenticator
        settings = server.settings
        self._hosts = AllowedHosts(
            server.host, split_setting(settings.hosts), split_setting(settings.cors)
        )
        self._rates = authenticator.rates
        self._page_token = server.page_token.encode()
        self._max_bytes = int(settings.body_mb * 1e6)
        self._max_text_bytes = _BYTES_PER_CHARACTER * settings.text_characters
        self._max_form_bytes = int(settings.upload_mb * 1e6) * _FORM_FACTOR + (1 << 20)
        self._numbers = itertools.count(1)
        self._id_prefix = secrets.token_hex(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        call = self._read_headers(scope)
        exchange = _Exchange(f"{self._id_prefix}-{next(self._numbers)}", call, send, scope)
        stack = contextlib.ExitStack()
        try:
            refusal = await self._check(call, scope)
            if refusal is None:
                client = current_client.set(get_client_of_scope(scope))
                stack.callback(current_client.reset, client)
                if scope["type"] == "http":
                    receive = limit_body(receive, self._find_limit(call))
                elif call.key is not None:
                    receive = self._close_when_key_ends(call, scope, receive, exchange)
                await self._app(scope, receive, exchange.send)
            else:
                await _refuse(refusal, scope, receive, exchange.send)
        except Exception as error:  # noqa: BLE001 - the last one, outside of everything
            await self._handle_error(error, scope, receive, exchange)
        finally:
            stack.close()
            self._record(exchange, scope)

    async def _handle_error(
        self, error: Exception, scope: Scope, receive: Receive, exchange: _Exchange
    ) -> None:
        """Answer an error that left the app, if nothing was sent yet; log it if the app did not."""
        log_texts = self._server.settings.log_texts
        if scope["type"] != "http":
            error_response(error, log_texts=log_texts)
            with contextlib.suppress(Exception):  # it may be closed already
                await exchange.send({"type": "websocket.close", "code": 1011})
        elif not exchange.status:
            response = error_response(error, log_texts=log_texts)
            await response(scope, receive, exchange.send)
        elif exchange.status < 500:
            error_response(error, log_texts=log_texts)

    # -- checks ------------------------------------------------------------------------------------

    def _read_headers(self, scope: Scope) -> _Call:
        headers: dict[bytes, bytes] = {}
        accept = b""
        for name, value in scope["headers"]:
            if name in (b"host", b"origin") and name in headers:
                # Two make the header invalid: others may look at the other one.
                headers[name] += b"," + value
            headers.setdefault(name, value)
            if name == b"accept":
                accept += value
        call = _Call(
            scope.get("method", ""), scope["path"], headers.get(b"host", b"").decode("latin-1"),
            headers.get(b"origin", b"").decode("latin-1"), headers, b"text/html" in accept.lower(),
        )  # fmt: skip
        call.from_page = hmac.compare_digest(headers.get(PAGE_TOKEN_HEADER, b""), self._page_token)
        return call

    async def _check(self, call: _Call, scope: Scope) -> Response | None:
        """The response to a request that is refused; None for one that may pass."""
        scope[SCOPE_KEY] = None
        scope[SCOPE_NO_KEY_NEEDED] = not self._needs_key(call, scope)
        try:
            if not call.from_page:
                self._check_host(call)
                self._check_origin(call)
                if call.cors_origin and call.method == "OPTIONS":
                    return Response(None, 204, _PREFLIGHT_HEADERS)
                self._check_size(call)
            if not scope[SCOPE_NO_KEY_NEEDED] and not _may_be_anonymous(call):
                scope[SCOPE_KEY] = call.key = await self._check_key(call, scope)
        except Problem as problem:
            if problem.status == 401 and call.wants_html and call.method in _SAFE_METHODS:
                return RedirectResponse(f"/login?next={local_path(call.path)}", 303)
            return error_response(problem)
        return None

    def _check_host(self, call: _Call) -> None:
        if not self._hosts.is_known(call.host):
            raise Problem(
                421, "unknown host name",
                hint="Call the server by its address, or add the name to server.hosts.",
                headers=_CLOSE,
            )  # fmt: skip

    def _check_origin(self, call: _Call) -> None:
        """Refuse what a browser sends on behalf of another site's page."""
        if call.origin and self._hosts.allows_origin(call.origin):
            call.cors_origin = call.origin
            return
        site = call.headers.get(b"sec-fetch-site", b"").lower()
        if call.origin and self._hosts.is_same_origin(call.origin, call.host):
            return
        if call.method in _SAFE_METHODS:
            # A link opens our page for a person. An old browser, which does not send this header,
            # keeps the response from the other page by itself.
            navigates = call.headers.get(b"sec-fetch-mode", b"") == b"navigate"
            if navigates or site in (b"", b"none", b"same-origin"):
                return
        elif not call.origin and site in (b"", b"none", b"same-origin"):
            return  # not a browser, or one whose user asked for it
        raise Problem(
            403, "cross-origin request refused", hint="Add the origin to server.cors to allow it."
        )

    def _check_size(self, call: _Call) -> None:
        length = call.headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 18:
            raise Problem(400, "invalid Content-Length", hint="Let the HTTP client set it.")
        limit = self._find_limit(call)
        if int(length) > limit:
            raise Problem(
                413, _too_large(limit, int(length)),
                hint=TOO_LARGE_HINT,
                headers=_CLOSE,
            )  # fmt: skip

    def _find_limit(self, call: _Call) -> int:
        """The maximum size of a body: files go straight to disk, the rest is held in memory. A body
        that has more than the texts which its route accepts is not parsed at all.
        """
        content_type = call.headers.get(b"content-type", b"").lower()
        is_form = content_type.startswith(b"multipart/form-data")
        if is_form and _takes_files(call.path):
            return self._max_form_bytes
        is_json = content_type.startswith(b"application/") and b"json" in content_type
        if call.path in _MANY_TEXTS or not is_json:
            return self._max_bytes
        if call.path in _ONE_TEXT:
            text_bytes = self._max_text_bytes
        elif call.path.startswith("/documents/"):
            text_bytes = MAX_TEXTS_FACTOR * self._max_text_bytes
        else:
            text_bytes = 0
        return min(self._max_bytes, text_bytes + _MAX_OPTION_BYTES)

    def _needs_key(self, call: _Call, scope: Scope) -> bool:
        """Whether a request needs a key: on an open server, if it came through a proxy.

        A proxy that adds no headers is recognised by HTTP/1.0, which nginx uses by default and
        clients do not.
        """
        if self._server.keys_required or KEY_NEEDED_HEADER in call.headers:
            return True
        if call.from_page or self._server.insecure:
            return False
        is_http_1_0 = scope.get("http_version") == "1.0"
        return (
            is_http_1_0
            or not is_own_host(call.host, self._server.port)
            or has_proxy_header(call.headers)
        )

    async def _check_key(self, call: _Call, scope: Scope) -> ApiKey:
        has_key = bool(get_key_text(scope["headers"]))
        try:
            key = await self._authenticator.find_key(scope, from_page=call.from_page)
        except AnyrigError as error:  # the key file is damaged: everybody is refused
            log.error("%s", error.message)
            raise Problem(
                503, "the API keys cannot be read", hint="See the server's log for details."
            ) from None
        if key is None:
            visits = call.wants_html and call.method in _SAFE_METHODS and not has_key
            if not call.from_page and not visits:  # a visitor gets the login page
                self._authenticator.limit_wrong_keys(scope, counts=has_key)
            raise Problem(
                401, "unknown or expired API key" if has_key else "an API key is required",
                hint="Send Authorization: Bearer KEY; `anyrig keys add NAME` makes a key.",
            )  # fmt: skip
        limit = key.requests_per_minute or self._server.settings.requests_per_minute
        # An open page polls by itself, and its scripts and styles are dozens of files.
        is_free = call.path.startswith(_ASSETS) or (call.from_page and call.method in _SAFE_METHODS)
        wait_s = 0 if is_free else self._rates.take(f"key {key.id}", limit)
        if wait_s:
            raise too_many_requests(f"more than {limit} requests per minute", wait_s)
        scopes = find_scopes(call.method, call.path, wants_html=call.wants_html)
        if scopes is not None and not key.has_scope(*scopes):
            raise missing_scope(scopes)
        return key

    def _close_when_key_ends(
        self, call: _Call, scope: Scope, receive: Receive, exchange: _Exchange
    ) -> Receive:
        """Check the key with every message of a WebSocket: a page may stay open for days."""

        async def receive_checked() -> Message:
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            with contextlib.suppress(AnyrigError):  # the key file is damaged: refused
                if await self._authenticator.find_key(scope, from_page=call.from_page) is not None:
                    return message
            with contextlib.suppress(Exception):  # it may be closed already
                await exchange.send({"type": "websocket.close", "code": 1008})
            exchange.is_over = True
            return {"type": "websocket.disconnect", "code": 1008}

        return receive_checked

    # -- record ------------------------------------------------------------------------------------

    def _record(self, exchange: _Exchange, scope: Scope) -> None:
        """Count and log a request, without anything that the client sent."""
        call = exchange.call
        route = _find_route(scope)
        method = call.method if call.method in _METHODS else "other" if call.method else "SOCKET"
        seconds = time.perf_counter() - exchange.began
        status = exchange.status or CLIENT_CLOSED_REQUEST
        self._server.metrics.requests.labels(route, method, str(status)).inc()
        self._server.metrics.seconds.labels(route).observe(seconds)
        log.log(
            logging.DEBUG if call.from_page else logging.INFO,
            "%s %s %d", method, route, status,
            extra={
                "request": exchange.id, "method": method, "route": route, "status": status,
                "seconds": round(seconds, 4), "bytes": exchange.num_bytes,
                "key": call.key.id if call.key else None,
            },
        )  # fmt: skip


class _Exchange:
    """A request and its response: adds headers, and remembers the status."""

    def __init__(self, id: str, call: _Call, send: Send, scope: Scope) -> None:
        self.id, self.call = id, call
        self.began = time.perf_counter()
        self.status = self.num_bytes = 0
        self.is_over = False
        """Nothing more is sent."""
        self._send, self._scope = send, scope

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if self.is_over:
            return
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            headers = add_headers(
                message.get("headers", ()), host=self.call.host, origin=self.call.cors_origin,
                has_scripts=self._scope["path"] not in ("/docs", "/login"),
            )  # fmt: skip
            message = {**message, "headers": [*headers, (b"x-request-id", self.id.encode())]}
        elif kind == "http.response.body":
            self.num_bytes += len(message.get("body", b""))
        elif kind == "websocket.accept":
            self.status = 101
        elif kind == "websocket.close" and not self.status:
            self.status = 403
        await self._send(message)


async def _refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await response(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        start = {"status": response.status_code, "headers": response.raw_headers}
        await send({"type": "websocket.http.response.start", **start})
        await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
    else:
        await send({"type": "websocket.close", "code": 1008})


# -- paths -----------------------------------------------------------------------------------------

_ASSETS = ("/_nicegui/", "/page/")


def _takes_files(path: str) -> bool:
    """Whether the files of a form go to disk as they come."""
    if path in ("/uploads", "/v1/audio/transcriptions"):
        return True
    return path.startswith("/documents/") and path.endswith("/upload")


def _may_be_anonymous(call: _Call) -> bool:
    """Whether a request needs no key, or tells less without one and has none."""
    if call.path in PUBLIC_PATHS:
        return True
    credentials = (b"authorization", b"x-api-key", b"cookie", PAGE_TOKEN_HEADER)
    return (
        call.path in KEY_OPTIONAL_PATHS
        and call.method in ("GET", "HEAD")
        and not any(name in call.headers for name in credentials)
    )


def _find_route(scope: Scope) -> str:
    """The pattern of the route that answered, with the prefix of its router."""
    pattern = str(getattr(scope.get("route"), "path", ""))
    server = scope["path"].split("/")
    if pattern:
        missing = len(server) - len(pattern.split("/")) if ":path}" not in pattern else 0
        return "/".join(server[: missing + 1]) + pattern if missing > 0 else pattern
    start = f"/{server[1]}" if len(server) > 1 else ""
    return start if start in ("/_nicegui", "/_nicegui_ws", "/page", "/openapi.json") else "(none)"


# -- hosts and origins -----------------------------------------------------------------------------

_HTTP_PORT = 80
_PROXY_HEADERS = frozenset(
    b"forwarded via x-real-ip x-client-ip client-ip x-cluster-client-ip true-client-ip"
    b" fastly-client-ip fly-client-ip x-proxyuser-ip x-original-url x-original-host x-rewrite-url"
    b" x-scheme x-request-start cdn-loop x-amzn-trace-id x-cloud-trace-context".split()
)
_PROXY_PREFIXES = (b"x-forwarded", b"x-envoy-", b"cf-", b"x-arr-", b"x-azure-", b"x-original-f")


class AllowedHosts:
    """The host names that a server answers to, and the origins that may call it.

    A page on the internet can let its own name resolve to this machine, so that a browser takes the
    page and the server for one site (DNS rebinding). It cannot choose the Host header that the
    browser sends, so only known names are answered. Addresses in digits cannot be rebound.

    Args:
        host: the address the server listens on.
        hosts: further names; `*` is any.
        cors: origins of other sites whose scripts may call.
    """

    def __init__(self, host: str, hosts: Iterable[str] = (), cors: Iterable[str] = ()) -> None:
        own = _strip(host)
        self._names = {_strip(name) for name in hosts}
        self._cors = {origin.strip().rstrip("/").lower() for origin in cors}
        self._is_local = is_loopback(own)
        if not self._is_local:  # other machines may know this one by its name
            name = socket.gethostname().lower()
            self._names |= {name, f"{name}.local", own}

    def is_known(self, host: str) -> bool:
        """Whether the server answers to a Host header."""
        name = parse_host(host)
        if not name:
            return False
        if is_loopback(name) or name in self._names or "*" in self._names:
            return True
        return not self._is_local and _is_address(name)

    def is_same_origin(self, origin: str, host: str) -> bool:
        """Whether the headers Origin and Host say that a page is the server's own."""
        scheme, _, rest = origin.lower().partition("://")
        if scheme not in ("http", "https") or not rest:
            return False
        return _strip_default_port(rest) == _strip_default_port(host.lower())

    def allows_origin(self, origin: str) -> bool:
        """Whether the settings allow another site's pages to call."""
        return origin.strip().lower() in self._cors


def parse_host(host: str) -> str:
    """The name in a Host header, without its port; empty if it is not valid."""
    if not host or any(character in host for character in "/@?#\\ ,"):
        return ""
    try:
        server = urlsplit(f"//{host}")
        _ = server.port  # raises if it is not a number
        return (server.hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_own_host(host: str, port: int) -> bool:
    """Whether a Host header is what a client on this machine sends: a loopback name and our port.

    Args:
        host: the header.
        port: that the server listens on; 0 if it is not known.
    """
    if not is_loopback(parse_host(host)):
        return False
    return not port or (urlsplit(f"//{host}").port or _HTTP_PORT) == port


def has_proxy_header(names: Iterable[bytes]) -> bool:
    """Whether a request has a header that only proxies add."""
    return any(name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIXES) for name in names)


def is_loopback(name: str) -> bool:
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def split_setting(text: str) -> list[str]:
    """The items of a comma-separated setting."""
    return [item.strip() for item in text.split(",") if item.strip()]


def _strip(host: str) -> str:
    return host.strip().strip("[]").rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _strip_default_port(host: str) -> str:
    for suffix in (":80", ":443"):
        if host.endswith(suffix) and not host.endswith(":" + suffix):
            return host.removesuffix(suffix)
    return host


# -- limits ----------------------------------------------------------------------------------------

_IDLE_S = 60.0
"""A client that sends nothing of its body for this long is gone, or means harm."""
_MIN_BYTES_PER_S = 1000.0
"""Over any such time: a slower client keeps a connection that others need. The slowest phone is
several times as fast."""


def limit_body(
    receive: Receive, max_bytes: int, *, idle_s: float = _IDLE_S, rate: float = _MIN_BYTES_PER_S
) -> Receive:
    """Limit the size, the pauses and the duration of a request's body: 413 or 408.

    Args:
        receive: of the server.
        max_bytes: of the body.
        idle_s: how long nothing may come.
        rate: bytes per second that must come over any time of that length. Only time spent
            waiting for the client counts.
    """
    size = 0
    is_complete = False
    waited_s, num_received = 0.0, 0  # since the rate was checked last

    async def receive_limited() -> Message:
        nonlocal size, is_complete, waited_s, num_received
        if is_complete:  # only the disconnection can follow, at any time
            return await receive()
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(idle_s):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the request body stalled", _CLOSE) from None
        if message["type"] != "http.request":
            is_complete = True
            return message
        length = len(message.get("body", b""))
        size += length
        num_received += length
        waited_s += clock() - began
        is_complete = not message.get("more_body", False)
        if size > max_bytes:
            raise HTTPException(413, _too_large(max_bytes), _CLOSE)
        if not is_complete and waited_s >= idle_s:
            if num_received < rate * waited_s:
                raise HTTPException(408, "the request body is too slow", _CLOSE)
            waited_s, num_received = 0.0, 0
        return message

    return receive_limited


def _too_large(max_bytes: int, size: int = 0) -> str:
    limit = f"{max_bytes / 1e6:,.6g} MB"
    if not size:
        return f"the request is larger than the limit of {limit}"
    return f"the request has {size / 1e6:,.4g} MB; the limit is {limit}"


# -- headers ---------------------------------------------------------------------------------------

Headers = list[tuple[bytes, bytes]]
# The page's framework uses inline scripts, and compiles templates in the browser.
_PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "font-src 'self' data:; worker-src 'self' blob:; connect-src 'self' {sockets}; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_OTHER_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; font-src data:; form-action 'self'; "
    "frame-ancestors 'none'"
)
_COMMON_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    # Not no-referrer: with it, browsers send no origin with the page's own forms.
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy",
     b"camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()"),
]  # fmt: skip
_PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": "Authorization, X-API-Key, Content-Type, Last-Event-ID, Range",
    "Access-Control-Max-Age": "600",
}
_EXPOSED_HEADERS = b"Retry-After, X-Anyrig-Ignored, Content-Disposition, X-Request-ID"
_CONTROL_CHARACTERS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def add_headers(
    headers: Iterable[tuple[bytes, bytes]], *, host: str, origin: str, has_scripts: bool
) -> Headers:
    """Add the security headers to those of a response.

    Args:
        headers: of the response.
        host: the name that the server was called by.
        origin: of another site that may read the response, if any.
        has_scripts: HTML may run scripts, as the page does.
    """
    # A control character, which a client may have sent in a name, would break the connection.
    found = [(name.lower(), _CONTROL_CHARACTERS.sub(b"?", value)) for name, value in headers]
    names = {name for name, _ in found}
    content_type = next((value for name, value in found if name == b"content-type"), b"")
    found += [(name, value) for name, value in _COMMON_HEADERS if name not in names]
    if b"content-security-policy" not in names:
        is_page = content_type.startswith(b"text/html") and has_scripts
        sockets = f"ws://{host} wss://{host}"
        policy = _PAGE_POLICY.format(sockets=sockets) if is_page else _OTHER_POLICY
        found.append((b"content-security-policy", policy.encode("latin-1", "replace")))
    if b"cache-control" not in names and b"json" in content_type:
        found.append((b"cache-control", b"no-store"))
    if origin:
        found += [
            (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
            (b"vary", b"Origin"),
        ]
    return found
