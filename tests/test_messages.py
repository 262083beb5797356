"""The messages of the source: templates that can be filled, and options as data."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import anyrig
import anyrig.app
from anyrig.options import Request, list_options

SOURCE = Path(anyrig.__file__).parent
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)")
COMMAND = re.compile(
    r"`[^`]*`|\b(?:anyrig|docker|pip|python|sudo|taskset|torchrun|uv)\s(?:[^.;,]|[.;,](?! |$))*"
)


def _calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if f"{name}(" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_every_message_has_the_values_of_its_template() -> None:
    wrong, count = [], 0
    for place, call in _calls("Message"):
        count += 1
        template = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        if not isinstance(template, str):
            wrong.append(f"{place}: the template must be a constant")
            continue
        fields = {field for _, field, _, _ in Formatter().parse(template) if field}
        if fields != {keyword.arg for keyword in call.keywords}:
            wrong.append(f"{place}: {template}")
    assert count > 100
    assert not wrong, "\n".join(wrong)


def _list_flags() -> set[str]:
    """Every flag that stands for an option of a request."""
    for module in pkgutil.iter_modules(anyrig.app.__path__):
        importlib.import_module(f"anyrig.app.{module.name}")

    def walk(kind: type[Request]) -> Iterator[type[Request]]:
        yield kind
        for below in kind.__subclasses__():
            yield from walk(below)

    names = {name for kind in walk(Request) for name in list_options(kind)}
    return {name.replace("_", "-") for name in names} | {"json", "list", "verbose"}


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings of a module, without docstrings, descriptions of options, and parts of others."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif name in ("option", "Field", "pause_option"):
            skipped |= {id(one) for one in ast.walk(node)}
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(one) for one in ast.walk(node)}
            yield (
                node.lineno,
                "".join(
                    str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values
                ),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_message_names_an_option_by_its_flag() -> None:
    flags, found = _list_flags(), []
    assert {"memory-gb", "ocr", "nproc", "resume"} <= flags
    for path in sorted(SOURCE.rglob("*.py")):
        part = path.relative_to(SOURCE).parts
        if part[0] == "cli" or part[:2] == ("server", "page"):
            continue
        for line, text in _texts(ast.parse(path.read_text(encoding="utf-8"))):
            words = COMMAND.sub("", text)
            # A part of a command begins with a space; style sheets have variables.
            is_sentence = " " in words.strip() and not words.startswith(" --")
            if is_sentence and "var(--" not in words and flags.intersection(FLAG.findall(words)):
                found.append(f"{'/'.join(part)}:{line}: {text[:100]}")
    assert not found, "\n".join(found)


def test_a_flag_in_a_message_would_be_found() -> None:
    tree = ast.parse('raise E(f"{x}: pass --ocr", hint="Run `anyrig ocr --json`.")')
    texts = [COMMAND.sub("", text) for _, text in _texts(tree)]
    assert [FLAG.findall(text) for text in texts] == [["ocr"], []]
