"""Who may come in: around the whole app, WebSockets and errors included.

In this order: is the server called by a name of its own; does a browser call on behalf of a page of
others; is a key needed, there, good for this and not used too often; is the body small enough. What
is let in is timed and counted; whatever goes out carries headers that keep strangers out.

It is plain ASGI: an answer that streams goes through piece by piece.
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
import logging
import secrets
import time
from dataclasses import dataclass

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyrig.app.keys import ApiKey
from anyrig.errors import AnyrigError
from anyrig.server import errors
from anyrig.server.auth import (
    KEY_NEEDED_HEADER,
    PAGE_TOKEN_HEADER,
    PUBLIC_PATHS,
    SCOPE_KEY,
    SCOPE_NO_KEY_NEEDED,
    Sessions,
    find_scopes,
    widen_for_page,
)
from anyrig.server.errors import Problem
from anyrig.server.guarding import login
from anyrig.server.guarding.addresses import is_own, passes_on, words
from anyrig.server.guarding.bodies import CLOSE
from anyrig.server.guarding.headers import PREFLIGHT, added
from anyrig.server.guarding.paths import is_furniture, route_of, takes_files
from anyrig.server.guarding.sessions import cookies
from anyrig.server.security import AllowedHosts, RateLimiter, limit_body
from anyrig.server.state import ServerState

log = logging.getLogger("anyrig.requests")
_METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())
_SAFE = frozenset("GET HEAD OPTIONS".split())
_UPLOADS = 4
"""A form may be so many times as large as the largest file."""
_WRONG_A_MINUTE = 30


def guarded(app: FastAPI, server: ServerState) -> None:
    """Put the guard in front of an app, and a door for people with keys."""
    server.page_token = secrets.token_urlsafe(32)
    host, port = server.state.get("bound", ("127.0.0.1", 0))
    sessions = Sessions(server.keys, port)

    @app.get("/login", include_in_schema=False)
    async def _ask(request: Request, next: str = "/") -> Response:
        if request.scope.get(SCOPE_NO_KEY_NEEDED):
            return RedirectResponse("/", 303)
        return login.asked(request, next)

    @app.post("/login", include_in_schema=False)
    async def _sign_in(request: Request) -> Response:
        return await login.sign_in(request, server.keys, sessions)

    @app.post("/logout", include_in_schema=False)
    async def _sign_out(request: Request) -> Response:
        return login.sign_out(request, sessions)

    build = app.build_middleware_stack

    def built() -> ASGIApp:
        return Guard(build(), server, sessions, host)

    # The outermost of all: the framework's own answer to errors goes through it too.
    app.build_middleware_stack = built  # type: ignore[method-assign]


def demand(request: Request, *scopes: str) -> None:
    """Refuse a request whose key has none of these scopes, where the address does not tell."""
    key: ApiKey | None = request.scope.get(SCOPE_KEY)
    if key is not None and not key.may(*scopes):
        raise _not_allowed(scopes)


@dataclass
class _Call:
    """What is known of a request when it comes."""

    method: str
    path: str
    host: str
    origin: str
    headers: dict[bytes, bytes]
    for_people: bool
    inside: bool = False
    cors: str = ""
    key: ApiKey | None = None


class Guard:
    """The middleware."""

    def __init__(self, app: ASGIApp, server: ServerState, sessions: Sessions, host: str) -> None:
        self._app, self._server, self._sessions = app, server, sessions
        self._port = int(server.state.get("bound", ("", 0))[1])
        settings = server.settings
        self._addresses = AllowedHosts(host, words(settings.hosts), words(settings.cors))
        self._buckets = RateLimiter()
        self._inside = server.page_token.encode()
        self._most_bytes = int(settings.body_mb * 1e6)
        self._most_form_bytes = int(settings.upload_mb * 1e6) * _UPLOADS + (1 << 20)
        self._numbers = itertools.count(1)
        self._mark = secrets.token_hex(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a call in, or answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        call = self._call(scope)
        watch = _Watch(f"{self._mark}-{next(self._numbers)}", call, send, scope)
        try:
            answer = self._refusal(call, scope)
            if answer is None:
                if scope["type"] == "http":
                    receive = limit_body(receive, self._most(call))
                elif call.key is not None:
                    receive = self._while_good(call, scope, receive, watch)
                await self._app(scope, receive, watch.send)
            else:
                await _sent(answer, scope, receive, watch.send)
        except Exception as error:  # noqa: BLE001 - the last net, outside of everything
            # Where the app has answered with a problem, it has told its log.
            if scope["type"] != "http":
                errors.error_response(error, log_texts=self._server.settings.log_texts)
                with contextlib.suppress(Exception):  # it may be closed already
                    await watch.send({"type": "websocket.close", "code": 1011})
            elif not watch.status:
                answer = errors.error_response(error, log_texts=self._server.settings.log_texts)
                await answer(scope, receive, watch.send)
            elif watch.status < 500:
                errors.error_response(error, log_texts=self._server.settings.log_texts)
        finally:
            self._count(watch, scope)

    # -- questions ---------------------------------------------------------------------------------

    def _call(self, scope: Scope) -> _Call:
        headers: dict[bytes, bytes] = {}
        accepts = b""
        for name, value in scope["headers"]:
            if name in (b"host", b"origin") and name in headers:
                value = headers[name] + b"," + value  # two of them are none: others may see another
                headers[name] = value
            headers.setdefault(name, value)
            if name == b"accept":
                accepts += value
        call = _Call(
            scope.get("method", ""), scope["path"], headers.get(b"host", b"").decode("latin-1"),
            headers.get(b"origin", b"").decode("latin-1"), headers, b"text/html" in accepts.lower(),
        )  # fmt: skip
        call.inside = hmac.compare_digest(headers.get(PAGE_TOKEN_HEADER, b""), self._inside)
        return call

    def _refusal(self, call: _Call, scope: Scope) -> Response | None:
        """The answer to somebody who may not come in."""
        scope[SCOPE_KEY] = None
        scope[SCOPE_NO_KEY_NEEDED] = not self._needs_key(call, scope)
        try:
            if not call.inside:
                self._check_host(call)
                self._check_page(call)
                if call.cors and call.method == "OPTIONS":
                    return Response(None, 204, PREFLIGHT)
                self._check_size(call)
            if call.path not in PUBLIC_PATHS and not scope[SCOPE_NO_KEY_NEEDED]:
                scope[SCOPE_KEY] = call.key = self._check_key(call, scope)
            elif call.path == "/login" and call.method == "POST":
                self._check_wrong(scope, taking=True)
        except Problem as problem:
            if problem.status == 401 and call.for_people and call.method in _SAFE:
                return RedirectResponse(f"/login?next={login.local(call.path)}", 303)
            if problem.status == 429 and call.path == "/login":
                return login.asked(
                    Request(scope),
                    "/",
                    trouble="often",
                    status=429,
                    headers=problem.more["headers"],
                )
            return errors.error_response(problem)
        return None

    def _check_host(self, call: _Call) -> None:
        if not self._addresses.known(call.host):
            raise Problem(
                421, "this server is not known by that name",
                hint="Call it by its address, or name it in server.hosts.", headers=CLOSE,
            )  # fmt: skip

    def _check_page(self, call: _Call) -> None:
        """Whether a browser calls on behalf of a page of others."""
        if call.origin and self._addresses.allowed(call.origin):
            call.cors = call.origin
            return
        site = call.headers.get(b"sec-fetch-site", b"").lower()
        if call.origin and self._addresses.same(call.origin, call.host):
            return
        if call.method in _SAFE:
            # Following a link shows a page of ours to a person. An old browser, which does not
            # tell, keeps the answer from the other page by itself.
            visits = call.headers.get(b"sec-fetch-mode", b"") == b"navigate"
            if visits or site in (b"", b"none", b"same-origin"):
                return
        elif not call.origin and site in (b"", b"none", b"same-origin"):
            return  # no browser, or one that was told to do so by its user
        raise Problem(
            403, "a page of another address may not call this server",
            hint="Name it in server.cors if it should.",
        )  # fmt: skip

    def _check_size(self, call: _Call) -> None:
        told = call.headers.get(b"content-length", b"0")
        if not told.isdigit() or len(told) > 18:
            raise Problem(400, "Content-Length is no number", hint="Leave it to the client.")
        most = self._most(call)
        if int(told) > most:
            raise Problem(
                413, f"a request of over {most / 1e6:,.6g} MB is not taken",
                hint="Send less at once, or raise server.body_mb or server.upload_mb.",
                headers=CLOSE,
            )  # fmt: skip

    def _most(self, call: _Call) -> int:
        """A form may be large where its files go straight to disk; what is held in memory not."""
        form = call.headers.get(b"content-type", b"").lower().startswith(b"multipart/form-data")
        return self._most_form_bytes if form and takes_files(call.path) else self._most_bytes

    def _needs_key(self, call: _Call, scope: Scope) -> bool:
        """Whoever does not call as a client on this machine does came from elsewhere: by a proxy.

        One that tells nothing of whom it speaks for is known by its HTTP/1.0, as nginx has it
        where nobody configured it; clients speak a newer one.
        """
        if not self._server.open or KEY_NEEDED_HEADER in call.headers:
            return True
        if call.inside or self._server.insecure:
            return False
        old = scope.get("http_version") == "1.0"
        return old or not is_own(call.host, self._port) or passes_on(call.headers)

    def _check_key(self, call: _Call, scope: Scope) -> ApiKey:
        shown = _shown(call)
        try:
            key = self._key_of(call, scope)
        except AnyrigError as error:  # the file of keys is broken: nobody is let in
            log.error("%s", error.message)
            raise Problem(503, "nobody can be let in", hint="The server's log says why.") from None
        if key is None:
            visits = call.for_people and call.method in _SAFE and not shown
            if not call.inside and not visits:  # a visitor is shown the login page
                self._check_wrong(scope, taking=bool(shown))
            raise Problem(
                401, "that key is not known, or has expired" if shown else "a key is needed",
                hint="Send Authorization: Bearer KEY; `anyrig keys add NAME` makes one.",
            )  # fmt: skip
        most = key.requests_per_minute or self._server.settings.requests_per_minute
        # An open page looks at things again and again, which is nothing that its visitor does.
        free = is_furniture(call.path) or (call.inside and call.method in _SAFE)
        wait_s = 0 if free else self._buckets.take(f"key {key.id}", most)
        if wait_s:
            raise Problem(
                429, f"over {most} requests a minute", hint=f"Try again in {wait_s} s.",
                headers={"Retry-After": str(wait_s)},
            )  # fmt: skip
        scopes = find_scopes(call.method, call.path, for_people=call.for_people)
        if scopes is not None and not key.may(*scopes):
            raise _not_allowed(scopes)
        return key

    def _key_of(self, call: _Call, scope: Scope) -> ApiKey | None:
        """The key that is shown, or that a session stands for, as it is now."""
        if shown := _shown(call):
            key = self._server.keys.check(shown)
            return widen_for_page(key) if key is not None and call.inside else key
        return self._sessions.key(cookies(scope["headers"]).get(self._sessions.cookie, ""))

    def _while_good(self, call: _Call, scope: Scope, receive: Receive, watch: _Watch) -> Receive:
        """A socket's messages for as long as its key holds: a page stays open for days."""

        async def while_good() -> Message:
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            with contextlib.suppress(AnyrigError):  # the file of keys is broken: nobody is let in
                if self._key_of(call, scope) is not None:
                    return message
            with contextlib.suppress(Exception):  # it may be closed already
                await watch.send({"type": "websocket.close", "code": 1008})
            watch.over = True
            return {"type": "websocket.disconnect", "code": 1008}

        return while_good

    def _check_wrong(self, scope: Scope, *, taking: bool) -> None:
        """Whoever shows wrong keys all the time waits; those with a right one never come here.

        Args:
            scope: of the request.
            taking: whether this request shows a key, which counts as a guess.
        """
        client = scope.get("client") or ("",)
        ask = self._buckets.take if taking else self._buckets.wait
        wait_s = ask(f"wrong {client[0]}", _WRONG_A_MINUTE)
        if wait_s:
            raise Problem(
                429, "too many wrong keys", hint=f"Try again in {wait_s} s.",
                headers={"Retry-After": str(wait_s)},
            )  # fmt: skip

    # -- afterwards --------------------------------------------------------------------------------

    def _count(self, watch: _Watch, scope: Scope) -> None:
        """A line and two figures; neither holds anything that was sent."""
        call = watch.call
        route = route_of(scope)
        method = call.method if call.method in _METHODS else "other" if call.method else "SOCKET"
        seconds = time.perf_counter() - watch.began
        self._server.metrics.requests.labels(route, method, str(watch.status or 499)).inc()
        self._server.metrics.seconds.labels(route).observe(seconds)
        log.log(
            logging.DEBUG if call.inside else logging.INFO,
            "%s %s %d", method, route, watch.status or 499,
            extra={
                "request": watch.mark, "method": method, "route": route,
                "status": watch.status or 499, "seconds": round(seconds, 4),
                "bytes": watch.num_bytes, "key": call.key.id if call.key else None,
            },
        )  # fmt: skip


class _Watch:
    """Stands between the app and the client: completes headers, and remembers the status."""

    def __init__(self, mark: str, call: _Call, send: Send, scope: Scope) -> None:
        self.mark, self.call = mark, call
        self.began = time.perf_counter()
        self.status = self.num_bytes = 0
        self.over = False
        """Nothing more goes out."""
        self._send, self._scope = send, scope

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if self.over:
            return
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            call = self.call
            plain = self._scope["path"] in ("/docs", "/login")
            headers = added(
                message.get("headers", ()), host=call.host, plain=plain, origin=call.cors
            )
            message = {**message, "headers": [*headers, (b"x-request-id", self.mark.encode())]}
        elif kind == "http.response.body":
            self.num_bytes += len(message.get("body", b""))
        elif kind == "websocket.accept":
            self.status = 101
        elif kind == "websocket.close" and not self.status:
            self.status = 403
        await self._send(message)


async def _sent(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a call that was not let in."""
    if scope["type"] == "http":
        await answer(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        start = {"status": answer.status_code, "headers": answer.raw_headers}
        await send({"type": "websocket.http.response.start", **start})
        await send({"type": "websocket.http.response.body", "body": bytes(answer.body)})
    else:
        await send({"type": "websocket.close", "code": 1008})


def _shown(call: _Call) -> str:
    """The key that a caller shows in a header."""
    kind, _, word = call.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        return word.strip()
    return call.headers.get(b"x-api-key", b"").decode("latin-1").strip()


def _not_allowed(scopes: tuple[str, ...]) -> Problem:
    wanted = " or ".join(scopes)
    return Problem(
        403,
        f"the key lacks the scope {wanted}",
        hint=f"`anyrig keys add NAME --scopes {scopes[0]}`",
    )
