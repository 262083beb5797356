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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"((?:<!-- [^\n]* -->\n)?)```(\w*)\n(.*?)```", re.DOTALL)
_FIELDS = re.compile(
    r"(<!-- fields of: (\w+) in (\S+) -->\n).*?(?=<!-- end of fields -->)", re.DOTALL
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
    """Every command's help, as a page."""
    from anyrig.cli.main import COMMANDS

    parts = ["# Commands", "", "Written by `scripts/docs` from the commands' own help.", ""]
    parts += ["```text", _said("anyrig --help").rstrip(), "```"]
    for name in COMMANDS:
        parts += ["", f"## {name}", "", "```text", _said(f"anyrig {name} --help").rstrip(), "```"]
    return "\n".join(parts) + "\n"


def filled(text: str) -> str:
    """A page with its output blocks filled by running their commands, and its tables of fields."""

    def fill(found: re.Match[str]) -> str:
        command = re.match(r"<!-- output of: (.+) -->", found[1].strip())
        if not command:
            return found[0]
        return f"{found[1]}```{found[2]}\n{_said(command[1]).rstrip()}\n```"

    text = _SETTINGS.sub(lambda found: f"{found[1]}\n{all_settings()}\n", text)
    text = _FIELDS.sub(lambda found: found[1] + fields_table(found[2], found[3]) + "\n", text)
    return _FENCE.sub(fill, text)


def all_settings() -> str:
    """Every setting, as the requests define it."""
    from anyrig.app.settings import SCHEMA
    from anyrig.options import settings_table
    from anyrig.settings.load import variable_name

    return settings_table(SCHEMA, {key: variable_name(key) for key in SCHEMA})


def fields_table(name: str, path: str) -> str:
    """A class's fields, their defaults, and what stands under each, read without running it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    named = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)}
    constants = {
        ast.unparse(one.targets[0]): one.value for one in tree.body if isinstance(one, ast.Assign)
    }
    rows = ["| key | default | |", "|---|---|---|"]
    for field, under in itertools.pairwise([*named[name].body, ast.Pass()]):
        if not isinstance(field, ast.AnnAssign):
            continue
        if not (isinstance(under, ast.Expr) and isinstance(under.value, ast.Constant)):
            raise ValueError(f"{path}: nothing is said under {ast.unparse(field.target)}")
        said = " ".join(str(under.value.value).split())
        value = constants.get(ast.unparse(field.value), field.value) if field.value else None
        shown = "a table" if isinstance(value, ast.Call) else _as_toml(value)
        rows.append(f"| `{ast.unparse(field.target)}` | {shown} | {_sentence(said)} |")
    return "\n".join(rows) + "\n"


def _sentence(said: str) -> str:
    return said.removesuffix(".").replace("|", "\\|")


def _as_toml(value: ast.expr | None) -> str:
    """A default as a TOML file has it."""
    if value is None:
        return ""
    text = ast.unparse(value)
    found = eval(text, {"__builtins__": {}})  # our own source, a literal or a power of two
    if isinstance(found, float) and found.is_integer():
        return f"`{int(found)}`"
    if isinstance(found, tuple):
        found = list(found)
    return f"`{json.dumps(found)}`"


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
    return found


def main(*, check: bool) -> int:
    stale = []
    for page, text in wanted().items():
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(text, encoding="utf-8")
    if stale:
        print(("stale: " if check else "written: ") + ", ".join(stale))
    return 1 if check and stale else 0
