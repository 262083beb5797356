"""What the interface is, told twice: /openapi.json for programs, /docs for people.

The usual page for people fetches its scripts from elsewhere on the internet. This one is plain HTML
made of the same description: nothing leaves the machine, and it works without scripts.
"""

from __future__ import annotations

import html
import json
from typing import Any

import anyio.to_thread
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse

from anyrig.server.problems import PROBLEM_SCHEMA

_METHODS = ("get", "post", "put", "patch", "delete")
_STYLE = """
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;
padding:1rem}code,pre{font:14px/1.4 ui-monospace,monospace}pre{overflow:auto;padding:.6rem;
border:1px solid #8886;border-radius:6px}details{border-bottom:1px solid #8884;padding:.3rem 0}
summary{cursor:pointer}table{border-collapse:collapse;display:block;overflow:auto}
td,th{text-align:left;vertical-align:top;padding:.1rem .8rem .1rem 0}h2{margin-top:2rem}
"""


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
    async def _docs() -> HTMLResponse:
        return HTMLResponse(page(await anyio.to_thread.run_sync(described)))


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


def page(found: dict[str, Any]) -> str:
    """The description as a page."""
    groups: dict[str, list[str]] = {}
    for path, operations in found["paths"].items():
        for method in _METHODS:
            if method in operations:
                one = operations[method]
                group = (one.get("tags") or ["more"])[0]
                groups.setdefault(group, []).append(_operation(path, method, one, found))
    body = "".join(
        f"<h2>{html.escape(name)}</h2>{''.join(rows)}" for name, rows in sorted(groups.items())
    )
    title = html.escape(found["info"]["title"])
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>"
        f"<h1>{title} {html.escape(found['info']['version'])}</h1>"
        "<p>Everything over HTTP. For programs: <a href='/openapi.json'>/openapi.json</a>.</p>"
        f"{body}</html>"
    )


def _operation(path: str, method: str, one: dict[str, Any], found: dict[str, Any]) -> str:
    title = (
        f"<code>{method.upper()} {html.escape(path)}</code> {html.escape(one.get('summary', ''))}"
    )
    rows = "".join(
        f"<tr><td><code>{html.escape(given['name'])}</code><td>{html.escape(given['in'])}"
        f"<td>{html.escape(given.get('description', ''))}"
        for given in one.get("parameters", ())
    )
    table = f"<table>{rows}</table>" if rows else ""
    taken = "".join(
        f"<p>Takes <code>{html.escape(kind)}</code>"
        f"<pre>{_shown(what.get('schema', {}), found)}</pre>"
        for kind, what in one.get("requestBody", {}).get("content", {}).items()
    )
    said = "".join(
        f"<tr><td>{html.escape(str(status))}<td>{html.escape(answer.get('description', ''))}"
        for status, answer in one.get("responses", {}).items()
        if status != "default"
    )
    words = html.escape(one.get("description", ""))
    return (
        f"<details><summary>{title}</summary><p>{words}</p>{table}{taken}"
        f"<p>Answers<table>{said}</table></details>"
    )


def _shown(schema: dict[str, Any], found: dict[str, Any]) -> str:
    """A schema's example where it has one, else the schema."""
    name = schema.get("$ref", "").rpartition("/")[2]
    full = found["components"]["schemas"].get(name, schema) if name else schema
    example = full.get("example", (full.get("examples") or [None])[0])
    text = json.dumps(full if example is None else example, indent=1, ensure_ascii=False)
    return html.escape(text[:4000])
