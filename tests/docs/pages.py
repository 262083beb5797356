"""The pages: which blocks they hold, what is generated into them. scripts/docs uses it too."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"((?:<!-- [^\n]* -->\n)?)```(\w*)\n(.*?)```", re.DOTALL)


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
    from anyrig.cli import COMMANDS

    parts = ["# Commands", "", "Written by `scripts/docs` from the commands' own help.", ""]
    parts += ["```text", _said("anyrig --help").rstrip(), "```"]
    for name in COMMANDS:
        parts += ["", f"## {name}", "", "```text", _said(f"anyrig {name} --help").rstrip(), "```"]
    return "\n".join(parts) + "\n"


def filled(text: str) -> str:
    """A page with its output blocks filled by running their commands."""

    def fill(found: re.Match[str]) -> str:
        command = re.match(r"<!-- output of: (.+) -->", found[1].strip())
        if not command:
            return found[0]
        return f"{found[1]}```{found[2]}\n{_said(command[1]).rstrip()}\n```"

    return _FENCE.sub(fill, text)


def _said(command: str) -> str:
    """What a command prints, on a terminal of a fixed width."""
    from anyrig.cli import main as anyrig

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
