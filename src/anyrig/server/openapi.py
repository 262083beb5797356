"""/openapi.json for programs, and /docs for people.

FastAPI's own page loads its scripts from the internet. This one is plain HTML, made of the same
schema: nothing leaves the machine, and it works without scripts.
"""

from __future__ import annotations

import html
import json
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse

from anyrig.server.errors import PROBLEM_SCHEMA
from anyrig.server.page.icons import svg
from anyrig.server.page.theme import THEME_COOKIE, THEMES, plain_css

# OpenAPI before 3.2 cannot describe the items of a stream: this is the schema of each event.
EVENT: dict[str, Any] = {
    "type": "object",
    "description": "One event of the stream.",
    "required": ["data"],
    "properties": {
        "id": {"type": "string", "description": "Its number, if events are numbered."},
        "event": {"type": "string", "description": "Its kind, if there are several."},
        "data": {"type": "string", "description": "JSON."},
    },
}
_METHODS = ("get", "post", "put", "patch", "delete")
_CSS = """
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
_BADGES = {"get": "plain", "post": "good", "put": "warn", "patch": "warn", "delete": "bad"}


def add_docs(app: FastAPI) -> None:
    """Add the descriptions of an app, once its routes are there."""

    def build() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, summary=app.summary, routes=app.routes
            )
            app.openapi_schema = _complete(schema)
        return app.openapi_schema

    app.openapi = build  # type: ignore[method-assign]

    # In a thread: the first time it takes half a second.
    @app.get("/openapi.json", include_in_schema=False)
    async def _openapi() -> JSONResponse:
        return JSONResponse(await to_thread.run_sync(build))

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def _docs(request: Request) -> HTMLResponse:
        theme = request.cookies.get(THEME_COOKIE, "")
        schema = await to_thread.run_sync(build)
        return HTMLResponse(format_page(schema, theme if theme in THEMES else "auto"))


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    """Add what FastAPI does not know: problems, and authentication."""
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = dict(PROBLEM_SCHEMA)
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key of `anyrig keys add`."},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    # The empty one: on this machine no key is needed.
    schema["security"] = [{}, {"key": []}, {"header": []}]
    for name in ("HTTPValidationError", "ValidationError"):  # replaced by problems
        if f'#/components/schemas/{name}"' not in json.dumps(schema["paths"]):
            components["schemas"].pop(name, None)
    return schema


def format_page(api: dict[str, Any], theme: str = "auto") -> str:
    """The OpenAPI description as HTML."""
    groups: dict[str, list[str]] = {}
    for path, operations in api["paths"].items():
        for method in _METHODS:
            if method in operations:
                operation = operations[method]
                group = (operation.get("tags") or ["more"])[0]
                groups.setdefault(group, []).append(_format_operation(path, method, operation, api))
    named = [(html.escape(name), rows) for name, rows in sorted(groups.items())]
    links = "".join(f"<li><a class='button small' href='#{name}'>{name}</a>" for name, _ in named)
    body = "".join(
        f"<section class=card><h2 id='{name}'>{name}</h2>{''.join(rows)}</section>"
        for name, rows in named
    )
    title, version = (html.escape(api["info"][key]) for key in ("title", "version"))
    return (
        f"<!doctype html><html lang=en data-theme={theme}><meta charset=utf-8>"
        f"<title>HTTP API · {title}</title>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<style>{plain_css()}{_CSS}</style><header class=top><div class=top-bar>"
        f"<a class=brand href='/' aria-label='{title}, to the page'>"
        f"<span class=icon>{svg('mark')}</span><span>{title}</span></a>"
        "</div></header><main class=api><div class=heading><h1>HTTP API</h1>"
        f"<p class=lead>Everything the page can do, for programs: {title} {version}. The OpenAPI "
        "description is at <a href='/openapi.json'>/openapi.json</a>.</div>"
        f"<nav aria-label='Sections'><ul>{links}</ul></nav>{body}</main></html>"
    )


def _format_operation(
    path: str, method: str, operation: dict[str, Any], api: dict[str, Any]
) -> str:
    title = (
        f"<span class='badge method {_BADGES[method]}'>{method.upper()}</span>"
        f"<code>{html.escape(path)}</code><span>{html.escape(operation.get('summary', ''))}</span>"
    )
    rows = "".join(
        f"<tr><td><code>{html.escape(given['name'])}</code><td>{html.escape(given['in'])}"
        f"<td>{html.escape(given.get('description', ''))}"
        for given in operation.get("parameters", ())
    )
    parameters = f"<table tabindex=0>{rows}</table>" if rows else ""
    bodies = "".join(
        f"<p>Body: <code>{html.escape(kind)}</code>"
        f"<pre tabindex=0>{_format_example(content.get('schema', {}), api)}</pre>"
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
    )
    bodies += _format_variants(operation, api)
    responses = "".join(
        f"<tr><td>{html.escape(str(status))}<td>{html.escape(response.get('description', ''))}"
        for status, response in operation.get("responses", {}).items()
        if status != "default"
    )
    description = html.escape(operation.get("description", ""))
    return (
        f"<details><summary>{title}</summary><div><p>{description}</p>{parameters}{bodies}"
        f"<p class=soft>Responses</p><table tabindex=0>{responses}</table></div></details>"
    )


def _format_variants(operation: dict[str, Any], api: dict[str, Any]) -> str:
    """The fields of each kind of a body, if it has kinds."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    rows = []
    for kind in _resolve(content.get("schema", {}), api).get("oneOf", ()):
        fields = kind.get("properties", {}).get("arguments", {}).get("properties", {})
        lines = "".join(
            f"<tr><td><code>{html.escape(name)}</code><td>{html.escape(_format_type(schema))}"
            f"<td>{html.escape(schema.get('description', ''))}"
            for name, schema in fields.items()
        )
        example = json.dumps(kind.get("example"), indent=1, ensure_ascii=False)
        rows.append(
            f"<h3>{html.escape(kind['title'])}</h3><p>{html.escape(kind.get('description', ''))}"
            f"<pre tabindex=0>{html.escape(example)}</pre><table tabindex=0>{lines}</table>"
        )
    return "".join(rows)


def _format_type(schema: dict[str, Any]) -> str:
    """`string or array`, or the choices."""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    return " or ".join(str(one.get("type", "")) for one in schema.get("anyOf", [schema]))


def _format_example(schema: dict[str, Any], api: dict[str, Any]) -> str:
    """The example of a schema if it has one, else the schema."""
    resolved = _resolve(schema, api)
    example = resolved.get("example", (resolved.get("examples") or [None])[0])
    text = json.dumps(resolved if example is None else example, indent=1, ensure_ascii=False)
    return html.escape(text[:4000])


def _resolve(schema: dict[str, Any], api: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = api["components"]["schemas"].get(name, schema) if name else schema
    return found
