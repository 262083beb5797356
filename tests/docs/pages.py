"""The pages: which blocks they hold, what is generated into them. scripts/docs uses it too."""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import json
import os
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"((?:<!-- [^\n]* -->\n)?)```(\w*)\n(.*?)```", re.DOTALL)
_FIELDS = re.compile(
    r"(<!-- fields of: (\w+) in (\S+) -->\n).*?(?=<!-- end of fields -->)", re.DOTALL
)
_VERIFICATION = re.compile(
    r"(<!-- verification of engines -->\n).*?(?=<!-- end of verification -->)", re.DOTALL
)
_SETTINGS = re.compile(r"(<!-- settings -->\n).*?(?=<!-- end of settings -->)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block, with the mark on the line above it."""

    page: str
    line: int
    language: str
    text: str
    mark: str

    @property
    def not_run(self) -> str:
        found = re.match(r"<!-- not run: (.+) -->", self.mark)
        return found[1] if found else ""

    @property
    def output_of(self) -> str:
        found = re.match(r"<!-- output of: (.+) -->", self.mark)
        return found[1] if found else ""


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in _FENCE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            name = str(page.relative_to(ROOT))
            yield Block(name, line, found[2], found[3], found[1].strip())


def commands_page() -> str:
    """The options of every command; groups that several commands have are listed once."""
    from anyrig.cli.main import COMMANDS

    helps = {name: _split_help(_said(f"anyrig {name} --help")) for name in COMMANDS}
    count = Counter((title, key) for groups in helps.values() for title, key, _ in groups)
    shared: dict[str, dict[str, str]] = {_EVERY: {}}
    for groups in helps.values():
        for title, key, entry in groups:
            if title not in _OWN_GROUPS and count[title, key] >= _SHARED_BY:
                shared.setdefault(title, {}).setdefault(key, entry)
    where = {key: title for title, entries in shared.items() for key in entries}
    parts = ["# Commands", "", _COMMANDS]
    for name, groups in helps.items():
        own: dict[str, list[str]] = {}
        also: dict[str, list[str]] = {}
        for title, key, entry in groups:
            if key in where:
                also.setdefault(where[key], []).append(key)
            else:
                own.setdefault(title, []).append(entry)
        lines: list[str] = []
        for title, entries in own.items():
            heading = [] if title in _OWN_GROUPS else [f"{title}:"]
            lines += [*([""] if lines and heading else []), *heading, *entries]
        about = COMMANDS[name]
        guide = f"[{_title(_GUIDES[name])}]({_GUIDES[name]})"
        parts += ["", f"## {name}", "", f"{about[0].upper()}{about[1:]}. Guide: {guide}."]
        parts += ["", "```text", *lines, "```"] if lines else []
        links = [
            f"[{title}](#{title.lower().replace(' ', '-')})"
            + ("" if len(keys) == len(shared[title]) else f" ({', '.join(map(_flag, keys))})")
            for title, keys in also.items()
            if title != _EVERY
        ]
        parts += ["", f"Shared options: {', '.join(links)}."] if links else []
    parts += ["", "## Shared options"]
    for title, entries_by_key in shared.items():
        parts += [
            "",
            f"### {title[0].upper()}{title[1:]}",
            "",
            "```text",
            *entries_by_key.values(),
            "```",
        ]
    return "\n".join(parts) + "\n"


_COMMANDS = """\
Written by `scripts/docs` from the commands' own help. `anyrig COMMAND --help` also describes what
the command does."""
_EVERY = "options of every command"
_OWN_GROUPS = ("options", "positional arguments")
_SHARED_BY = 2
"""Options that so many commands have in a group of the same name are listed once."""
_GUIDES = {
    "devices": "devices.md", "doctor": "troubleshooting.md", "use": "devices.md",
    "bench": "devices.md", "profile": "memory.md", "top": "monitor.md", "speak": "speech.md",
    "book": "books.md", "transcribe": "transcribe.md", "embed": "documents.md",
    "analyse": "documents.md", "summarise": "documents.md", "ocr": "documents.md",
    "jobs": "jobs.md", "voices": "engines.md", "engines": "engines.md", "index": "documents.md",
    "ask": "documents.md", "search": "documents.md", "cache": "cache.md", "classify": "classify.md",
    "train": "training.md", "serve": "server.md", "keys": "server.md", "worker": "cluster.md",
    "coordinator": "cluster.md", "cluster": "cluster.md", "entities": "entities.md",
}  # fmt: skip


def _title(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def _flag(key: str) -> str:
    return f"`{key.split()[0].rstrip(',')}`"


def _split_help(text: str) -> list[tuple[str, str, str]]:
    """Of each option: the title of its group, its help on one line, and as it is printed."""
    groups: dict[str, list[str]] = {}
    for section in text.strip().split("\n\n")[1:]:
        title, *lines = section.splitlines()
        if not title.endswith(":") or not lines or not lines[0].startswith("  "):
            continue  # the description
        title = _SAME_GROUP.get(title[:-1], title[:-1])
        entries = groups.setdefault(title, [])
        for line in lines:
            if re.match(r"  \S", line):
                entries.append(line)
            else:
                entries[-1] += f"\n{line}"
    return [
        (title, _one_line(entry), entry)
        for title, entries in groups.items()
        for entry in entries
        if not entry.startswith("  -h, --help")
    ]


_SAME_GROUP = {"The device": _EVERY}


def _one_line(entry: str) -> str:
    return " ".join(entry.split())


_HTTP = """\
Written by `scripts/docs` from the server's OpenAPI description. A running server has the complete
description at `/openapi.json`, and as a page at `/docs`.

- Bold fields are required. Fields of a path are not repeated.
- A key needs one of the scopes, or `admin`: see [Authentication](server.md#authentication).
  `/health/live` needs no key.
- Each task on documents is also `POST /documents/TASK/upload`: a form with `files` and the same
  options. See [Documents over HTTP](server-documents.md).
- `WS /stream` speaks over a WebSocket as VibeVoice's demo does; scope `speech`.
- [Errors](server.md#errors) are the same for all routes."""


def http_page() -> str:
    """Every route, as OpenAPI describes it, with the scopes of keys.

    Scopes that all routes of a group have are named above its table, not in each row.
    """
    from anyrig.server.auth import find_scopes

    api = _openapi()
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for path, operations in api["paths"].items():
        if path.endswith("/upload"):
            continue
        for method, operation in operations.items():
            scopes = find_scopes(method.upper(), path, wants_html=False)
            given = operation.get("parameters", ())
            fields = {
                one["name"]: bool(one.get("required")) for one in given if one["in"] != "path"
            }
            fields |= _body_fields(operation, api)
            named = [f"**`{one}`**" if needed else f"`{one}`" for one, needed in fields.items()]
            what = f"`{method.upper()} {path}` | {_sentence(operation.get('summary', ''))}"
            row = (what, ", ".join(f"`{one}`" for one in scopes or ()), ", ".join(named))
            groups.setdefault((operation.get("tags") or ["other"])[0], []).append(row)
    parts = ["# HTTP", "", _HTTP]
    for name in sorted(groups):
        parts += ["", f"## {name[0].upper()}{name[1:]}", ""]
        if len(needed := {scopes for _, scopes, _ in groups[name]}) == 1:
            parts += [f"Scopes: {needed.pop() or 'any key'}.", ""]
            parts += ["| route | | fields |", "|---|---|---|"]
            parts += [f"| {what} | {fields} |" for what, _, fields in groups[name]]
            continue
        parts += ["| route | | scopes | fields |", "|---|---|---|---|"]
        parts += [f"| {what} | {needed} | {fields} |" for what, needed, fields in groups[name]]
    return "\n".join(parts) + "\n"


def _openapi() -> dict[str, Any]:
    """The description of a server that is built and never started."""
    from anyrig.app.rig import Rig
    from anyrig.app.serve import ServeRequest
    from anyrig.cli.serve import build_state
    from anyrig.server.app import create_app

    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        folders = ("CONFIG", "CACHE", "DATA", "STATE")
        environment = {"HOME": home, **{f"XDG_{name}_HOME": home for name in folders}}
        rig = Rig(environment=environment, machine=ROOT / "tests/machines/t4-linux.json")
        request = rig.request(ServeRequest, no_jobs=True, no_bench=True)
        return create_app(build_state(rig, request, stack), page=False).openapi()


def _body_fields(operation: Mapping[str, Any], api: Mapping[str, Any]) -> dict[str, bool]:
    """By its name, whether a field is required."""
    contents = operation.get("requestBody", {}).get("content", {})
    found: dict[str, bool] = {}
    for content in contents.values():
        schema = content.get("schema", {})
        if "$ref" in schema:
            schema = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        required = schema.get("required", ())
        found |= {name: name in required for name in schema.get("properties", {})}
    return found


def filled(text: str) -> str:
    """A page with its output blocks filled by running their commands, and its tables of fields."""

    def fill(found: re.Match[str]) -> str:
        command = re.match(r"<!-- output of: (.+) -->", found[1].strip())
        if not command:
            return found[0]
        return f"{found[1]}```{found[2]}\n{_said(command[1]).rstrip()}\n```"

    text = _SETTINGS.sub(lambda found: f"{found[1]}\n{all_settings()}\n", text)
    text = _VERIFICATION.sub(lambda found: f"{found[1]}\n{list_verifications()}\n", text)
    text = _FIELDS.sub(lambda found: f"{found[1]}\n{list_fields(found[2], found[3])}\n", text)
    return _FENCE.sub(fill, text)


def all_settings() -> str:
    """Every setting, as the requests define it."""
    from anyrig.app.settings import SCHEMA
    from anyrig.options import settings_table

    return settings_table(SCHEMA)


def list_verifications() -> str:
    """Of each engine, what it was run with."""
    from anyrig.speech.engines import OWN, engine_class

    rows = ["| engine | run with | |", "|---|---|---|"]
    for name in OWN:
        found = engine_class(name).info.verification
        assert found is not None, name
        against = f"against {found.original}: {found.figure}" if found.original else ""
        rows.append(
            f"| `{name}` | {found.weights} | {'; '.join(filter(None, (against, found.note)))} |"
        )
    return "\n".join(rows) + "\n"


def list_fields(name: str, path: str) -> str:
    """A class's fields, their defaults, and what stands under each, read without running it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    named = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)}
    constants = _list_constants(tree)
    for one in tree.body:
        if isinstance(one, ast.ImportFrom) and (source := _find_source(one.module or "")):
            constants = _list_constants(ast.parse(source.read_text(encoding="utf-8"))) | constants
    rows = []
    for field, under in itertools.pairwise([*named[name].body, ast.Pass()]):
        if not isinstance(field, ast.AnnAssign):
            continue
        if not (isinstance(under, ast.Expr) and isinstance(under.value, ast.Constant)):
            raise ValueError(f"{path}: nothing is said under {ast.unparse(field.target)}")
        said = " ".join(str(under.value.value).split())
        value = constants.get(ast.unparse(field.value), field.value) if field.value else None
        shown = "" if isinstance(value, ast.Call) else _as_toml(value)
        rows.append(f"- `{ast.unparse(field.target)}{shown}`: {said}")
    return "\n".join(rows) + "\n"


def _list_constants(tree: ast.Module) -> dict[str, ast.expr]:
    return {
        ast.unparse(one.targets[0]): one.value for one in tree.body if isinstance(one, ast.Assign)
    }


def _find_source(module: str) -> Path | None:
    """The file of one of our modules."""
    path = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
    return path if module.startswith("anyrig.") and path.is_file() else None


def _sentence(said: str) -> str:
    return said.removesuffix(".").replace("|", "\\|")


def _as_toml(value: ast.expr | None) -> str:
    """A default as a TOML file has it, after its key."""
    if value is None:
        return ""
    text = ast.unparse(value)
    found = eval(text, {"__builtins__": {}})  # our own source, a literal or a power of two
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if isinstance(found, tuple):
        found = list(found)
    return f" = {json.dumps(found)}"


def _said(command: str) -> str:
    """What a command prints, on a terminal of a fixed width."""
    from anyrig.cli.main import main as anyrig

    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}
    os.environ.update(COLUMNS="100", NO_COLOR="1")
    out = io.StringIO()
    try:
        leave = contextlib.suppress(SystemExit)  # argparse leaves so after --help
        with contextlib.redirect_stdout(out), contextlib.chdir(ROOT), leave:
            anyrig(shlex.split(command)[1:])
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return out.getvalue()


def wanted() -> dict[Path, str]:
    """What every generated page should hold."""
    found = {page: filled(page.read_text(encoding="utf-8")) for page in PAGES}
    found[ROOT / "docs" / "commands.md"] = commands_page()
    found[ROOT / "docs" / "http.md"] = http_page()
    return found


def main(*, check: bool) -> int:
    stale = []
    for page, text in wanted().items():
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(text, encoding="utf-8")
    if stale:
        names = ", ".join(stale)
        print(f"out of date: {names}; run scripts/docs" if check else f"written: {names}")
    return 1 if check and stale else 0
