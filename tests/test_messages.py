"""The messages of the source: templates that can be filled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import anyrig

SOURCE = Path(anyrig.__file__).parent


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
