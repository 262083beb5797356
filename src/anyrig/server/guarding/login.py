"""The page that asks a person for a key, in plain HTML: nothing else is shown without one."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from anyrig.app.keys import ApiKeys
from anyrig.server.auth import Sessions
from anyrig.server.guarding.sessions import cookies
from anyrig.server.page.icons import svg
from anyrig.server.page.theme import THEME_COOKIE, THEMES, plain_css
from anyrig.server.page.translations import (
    LANGUAGE_COOKIE,
    LANGUAGES,
    choose_language,
    get_translator,
)

_MOST_BYTES = 4096
_ROOM = """
body{display:grid;place-content:center;grid-template-columns:minmax(0,26rem);min-height:100vh;
padding:1rem}.card{gap:1.1rem}.brand{font-size:1.4rem}form{display:grid;gap:1rem}
.button{width:100%}.soft code{overflow-wrap:anywhere}
"""
TROUBLES = ("none", "shape", "unknown", "expired", "scope", "often")
"""Why a person is not let in; each has words of its own."""


def ask(
    language: str, following: str, *, theme: str = "auto", trouble: str = "", status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:  # fmt: skip
    """The page itself.

    Args:
        language: a code, or what the browser prefers.
        following: where the person wanted to go.
        theme: auto, light or dark.
        trouble: one of `TROUBLES`, where a key was given and was not good.
        status: of the answer.
        headers: more of them.
    """
    t = get_translator(choose_language(language))
    said = ""
    if trouble:
        title, do = _safe(t(f"login.{trouble}")), _safe(t(f"login.{trouble}.do"))
        said = f"<div class=trouble role=alert><p class=trouble-title>{title}<p>{do}</div>"
    command = f"anyrig keys add {_safe(t('login.name'))}"
    wrong = " aria-invalid=true" if trouble else ""
    return HTMLResponse(
        f"<!doctype html><html lang={t.language} data-theme={theme}><meta charset=utf-8>"
        f"<title>{_safe(t('login.title'))} · anyrig</title>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<style>{plain_css()}{_ROOM}</style><main class=card>"
        f"<p class=brand><span class=icon>{svg('mark')}</span><span>anyrig</span></p>"
        f"<h1>{_safe(t('login.title'))}</h1><p class=soft>{_safe(t('login.lead'))}</p>{said}"
        f"<form method=post action=/login><div class=field><label for=key>{_safe(t('login.key'))}"
        "</label><input id=key name=key type=password autocomplete=current-password required "
        f"autofocus spellcheck=false{wrong}></div>"
        f"<input type=hidden name=next value='{html.escape(local(following), quote=True)}'>"
        f"<button class='button primary'>{_safe(t('login.open'))}</button></form>"
        f"<p class=soft>{_safe(t('login.help'))}<br><code>{command}</code></main></html>",
        status,
        {"Cache-Control": "no-store", **(headers or {})},
    )


def asked(request: Request, following: str, **more: Any) -> HTMLResponse:
    """The page in the language and theme that this browser's visitor chose before."""
    chosen = request.cookies
    language = chosen.get(LANGUAGE_COOKIE, "")
    if language not in LANGUAGES:
        language = request.headers.get("accept-language", "")
    theme = chosen.get(THEME_COOKIE, "")
    return ask(language, following, theme=theme if theme in THEMES else "auto", **more)


def _safe(text: str) -> str:
    return html.escape(text, quote=False)


def local(path: str) -> str:
    """A path of this server, and nowhere else."""
    if not path.startswith("/") or path.startswith(("//", "/\\")) or path.startswith("/log"):
        return "/"
    return quote(path, safe="/?=&%") if path.isascii() and path.isprintable() else "/"


async def sign_in(request: Request, keys: ApiKeys, sessions: Sessions) -> Response:
    """Take the key of a form; a cookie in exchange."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            break
    try:
        fields = parse_qs(body[:_MOST_BYTES].decode("utf-8", "replace"), max_num_fields=10)
    except ValueError:  # more fields than the form has
        fields = {}
    following = fields.get("next", ["/"])[-1]
    text = fields.get("key", [""])[-1].strip()
    key = keys.check(text)
    if key is None or not key.may("page"):
        why = "scope" if key is not None else "none" if not text else keys.why_not(text)
        return asked(request, following, trouble=why, status=401)
    answer = RedirectResponse(local(following), 303)
    secure = request.url.scheme == "https"
    answer.headers.append("Set-Cookie", sessions.set_cookie(sessions.begin(key), secure=secure))
    return answer


def sign_out(request: Request, sessions: Sessions) -> Response:
    """Forget the session."""
    sessions.end(cookies(request.headers.raw).get(sessions.cookie, ""))
    answer = RedirectResponse("/login", 303)
    secure = request.url.scheme == "https"
    answer.headers.append("Set-Cookie", sessions.set_cookie("", secure=secure))
    return answer
