"""What the interface is, told twice: /openapi.json for programs, /docs for people.

The usual page for people fetches its scripts from elsewhere on the internet. This one is plain HTML
made of the same description: nothing leaves the machine, and it works without scripts.
"""

from __future__ import annotations

import html
import json
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse

from anyrig.server.errors import PROBLEM_SCHEMA
from anyrig.server.page.icons import svg
from anyrig.server.page.theme import THEME_COOKIE, THEMES, plain_css

_METHODS = ("get", "post", "put", "patch", "delete")
_ROOM = """
body>*{max-width:64rem;margin-inline:auto}.top{max-width:none}.api{display:grid;gap:1.5rem;
padding:clamp(1.5rem,4vw,3rem) clamp(1rem,3vw,2rem) 5rem;grid-template-columns:minmax(0,1fr)}
.api nav ul{display:flex;flex-wrap:wrap;gap:.4rem;list-style:none;margin:0;padding:0}
.api .card{gap:0}.api h2{margin-bottom:.6rem}details{border-top:1px solid var(--line)}
details>div{display:grid;gap:.8rem;padding:0 0 1.2rem;grid-template-columns:minmax(0,1fr)}
summary{cursor:pointer;display:flex;flex-wrap:wrap;gap:.3rem .7rem;align-items:baseline;
padding:.6rem 0;list-style:none}summary::-webkit-details-marker{display:none}
summary:hover code{color:var(--accent)}.method{min-width:4.2rem;justify-content:center;
font-family:ui-monospace,monospace}pre{overflow:auto;margin:0;padding:.8rem 1rem;
background:var(--sunken);border:1px solid var(--line);border-radius:.7rem}
.api table{display:block;overflow:auto}td{vertical-align:top}td:first-child{white-space:nowrap}
.top-bar .brand span{display:inline!important}
"""
_MOODS = {"get": "plain", "post": "good", "put": "warn", "patch": "warn", "delete": "bad"}


def install(app: FastAPI) -> None:
    """Describe an app, once its routes are there."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(
                get_openapi(
                    title=app.title, version=app.version, summary=app.summary, routes=app.routes
                )
            )
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]

    # In a thread: the first time it takes half a second, and others wait for their answers.
    @app.get("/openapi.json", include_in_schema=False)
    async def _openapi() -> JSONResponse:
        return JSONResponse(await anyio.to_thread.run_sync(described))

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def _docs(request: Request) -> HTMLResponse:
        theme = request.cookies.get(THEME_COOKIE, "")
        found = await anyio.to_thread.run_sync(described)
        return HTMLResponse(page(found, theme if theme in THEMES else "auto"))


def _complete(found: dict[str, Any]) -> dict[str, Any]:
    parts = found.setdefault("components", {})
    parts.setdefault("schemas", {})["Problem"] = dict(PROBLEM_SCHEMA)
    parts["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key of `anyrig keys add`."},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    # The empty one: on this machine alone no key is needed.
    found["security"] = [{}, {"key": []}, {"header": []}]
    for name in ("HTTPValidationError", "ValidationError"):  # ours are problems
        if f'#/components/schemas/{name}"' not in json.dumps(found["paths"]):
            parts["schemas"].pop(name, None)
    return found


def page(found: dict[str, Any], theme: str = "auto") -> str:
    """The description as a page."""
    groups: dict[str, list[str]] = {}
    for path, operations in found["paths"].items():
        for method in _METHODS:
            if method in operations:
                one = operations[method]
                group = (one.get("tags") or ["more"])[0]
                groups.setdefault(group, []).append(_operation(path, method, one, found))
    named = [(html.escape(name), rows) for name, rows in sorted(groups.items())]
    links = "".join(f"<li><a class='button small' href='#{name}'>{name}</a>" for name, _ in named)
    body = "".join(
        f"<section class=card><h2 id='{name}'>{name}</h2>{''.join(rows)}</section>"
        for name, rows in named
    )
    title, version = (html.escape(found["info"][key]) for key in ("title", "version"))
    return (
        f"<!doctype html><html lang=en data-theme={theme}><meta charset=utf-8>"
        f"<title>Over HTTP · {title}</title>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<style>{plain_css()}{_ROOM}</style><header class=top><div class=top-bar>"
        f"<a class=brand href='/' aria-label='{title}, to the page'>"
        f"<span class=icon>{svg('mark')}</span><span>{title}</span></a>"
        "</div></header><main class=api><div class=heading><h1>Everything over HTTP</h1>"
        f"<p class=lead>What the page does, for programs: {title} {version}. The description "
        "itself is <a href='/openapi.json'>/openapi.json</a>.</div>"
        f"<nav aria-label='Parts'><ul>{links}</ul></nav>{body}</main></html>"
    )


def _operation(path: str, method: str, one: dict[str, Any], found: dict[str, Any]) -> str:
    title = (
        f"<span class='badge method {_MOODS[method]}'>{method.upper()}</span>"
        f"<code>{html.escape(path)}</code><span>{html.escape(one.get('summary', ''))}</span>"
    )
    rows = "".join(
        f"<tr><td><code>{html.escape(given['name'])}</code><td>{html.escape(given['in'])}"
        f"<td>{html.escape(given.get('description', ''))}"
        for given in one.get("parameters", ())
    )
    table = f"<table tabindex=0>{rows}</table>" if rows else ""
    taken = "".join(
        f"<p>Takes <code>{html.escape(kind)}</code>"
        f"<pre tabindex=0>{_shown(what.get('schema', {}), found)}</pre>"
        for kind, what in one.get("requestBody", {}).get("content", {}).items()
    )
    taken += _variants(one, found)
    said = "".join(
        f"<tr><td>{html.escape(str(status))}<td>{html.escape(answer.get('description', ''))}"
        for status, answer in one.get("responses", {}).items()
        if status != "default"
    )
    words = html.escape(one.get("description", ""))
    return (
        f"<details><summary>{title}</summary><div><p>{words}</p>{table}{taken}"
        f"<p class=soft>Answers</p><table tabindex=0>{said}</table></div></details>"
    )


def _variants(one: dict[str, Any], found: dict[str, Any]) -> str:
    """What each kind of a body takes, where it has kinds."""
    content = one.get("requestBody", {}).get("content", {}).get("application/json", {})
    rows = []
    for kind in _full(content.get("schema", {}), found).get("oneOf", ()):
        taken = kind.get("properties", {}).get("arguments", {}).get("properties", {})
        lines = "".join(
            f"<tr><td><code>{html.escape(name)}</code><td>{html.escape(_type(what))}"
            f"<td>{html.escape(what.get('description', ''))}"
            for name, what in taken.items()
        )
        example = json.dumps(kind.get("example"), indent=1, ensure_ascii=False)
        rows.append(
            f"<h3>{html.escape(kind['title'])}</h3><p>{html.escape(kind.get('description', ''))}"
            f"<pre tabindex=0>{html.escape(example)}</pre><table tabindex=0>{lines}</table>"
        )
    return "".join(rows)


def _type(what: dict[str, Any]) -> str:
    """`string or array`, or the words that it may be."""
    if "enum" in what:
        return ", ".join(map(str, what["enum"]))
    return " or ".join(str(one.get("type", "")) for one in what.get("anyOf", [what]))


def _full(schema: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    full: dict[str, Any] = found["components"]["schemas"].get(name, schema) if name else schema
    return full


def _shown(schema: dict[str, Any], found: dict[str, Any]) -> str:
    """A schema's example where it has one, else the schema."""
    full = _full(schema, found)
    example = full.get("example", (full.get("examples") or [None])[0])
    text = json.dumps(full if example is None else example, indent=1, ensure_ascii=False)
    return html.escape(text[:4000])
