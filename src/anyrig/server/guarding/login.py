"""The page that asks a person for a key, in plain HTML: nothing else is shown without one."""

from __future__ import annotations

import html
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from anyrig.server.guarding.sessions import Sessions, cookies
from anyrig.server.keys import Keys
from anyrig.server.page.theme import tokens

_MOST_BYTES = 4096
_WORDS = {
    "en": ("Sign in", "Key", "Open", "That key is not known, has expired, or may not use the page.",
           "`anyrig keys add NAME` on the server's machine makes a key."),
    "es": ("Entrar", "Clave", "Abrir",
           "Esa clave no existe, ha caducado o no puede usar la página.",
           "`anyrig keys add NOMBRE` en la máquina del servidor crea una clave."),
    "fr": ("Se connecter", "Clé", "Ouvrir",
           "Cette clé est inconnue, a expiré ou ne permet pas d'utiliser la page.",
           "`anyrig keys add NOM` sur la machine du serveur crée une clé."),
}  # fmt: skip
_STYLE = (
    tokens()
    + """
body{font:1.05rem/1.55 system-ui,sans-serif;max-width:24rem;margin:12vh auto;padding:0 1rem;
background:var(--ground);color:var(--ink)}main{background:var(--surface);padding:2rem;
border:1px solid var(--line);border-radius:1rem}h1{margin:0 0 1rem;letter-spacing:-.03em}
input,button{font:inherit;width:100%;box-sizing:border-box;padding:.6rem .75rem;margin:.35rem 0;
border-radius:.7rem;border:1px solid var(--edge);background:var(--surface);color:inherit}
button{background:var(--accent);color:var(--accent-ink);border:0;font-weight:600;cursor:pointer}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}small{color:var(--soft)}
[role=alert]{border-left:4px solid var(--bad);padding-left:.6rem}
"""
)


def ask(language: str, following: str, *, refused: bool = False) -> HTMLResponse:
    """The page itself.

    Args:
        language: as the browser prefers.
        following: where the person wanted to go.
        refused: a key was given and was not good.
    """
    code = next((one for one in (language[:2].lower(), "en") if one in _WORDS), "en")
    title, label, button, sorry, help_text = _WORDS[code]
    told = f"<p role=alert>{html.escape(sorry)}</p>" if refused else ""
    return HTMLResponse(
        f"<!doctype html><html lang={code} data-theme=auto><meta charset=utf-8>"
        "<title>anyrig</title>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<style>{_STYLE}</style><main><h1>anyrig</h1><form method=post action=/login>{told}"
        f"<label for=key>{label}</label>"
        "<input id=key name=key type=password autocomplete=current-password required autofocus>"
        f"<input type=hidden name=next value='{html.escape(local(following), quote=True)}'>"
        f"<button>{button}</button></form><p><small>{html.escape(help_text)}</small></main></html>",
        401 if refused else 200,
        {"Cache-Control": "no-store"},
    )


def local(path: str) -> str:
    """A path of this server, and nowhere else."""
    if not path.startswith("/") or path.startswith(("//", "/\\")) or path.startswith("/log"):
        return "/"
    return quote(path, safe="/?=&%") if path.isascii() and path.isprintable() else "/"


async def sign_in(request: Request, keys: Keys, sessions: Sessions) -> Response:
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
    key = keys.check(fields.get("key", [""])[-1].strip())
    if key is None or not key.may("page"):
        return ask(request.headers.get("accept-language", ""), following, refused=True)
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
