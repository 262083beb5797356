"""A vendor is named in its own file: shared modules ask `VENDORS`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import anyrig.devices
from anyrig.devices.vendors import SOURCES, VENDORS

FOLDER = Path(anyrig.devices.__file__).parent
OWN = {f"{name}.py" for name in VENDORS}
# Those that may name vendors: messages and their codes; interfaces of the operating system; the
# processor's own maker; torch's allocator, whose variables are called so.
ALLOWED = {"reasons.py", "probe.py", "cpu.py", "allocator_settings.py"}
# The backend that is called so is no vendor's.
SHARED = {"directml.py": {"directml", "dml"}, "webgpu.py": set[str]()}
NAMES = re.compile(
    r"nvidia|\bamd\b|intel\b|\bapple\b|qualcomm|cuda|rocm|\bhip\b|xpu\b|\bmps\b|directml|\bdml\b"
    r"|nvml|\bkfd\b|gfx\d",
    re.IGNORECASE,
)


def _literals(path: Path) -> list[str]:
    """The strings of a module that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare
    ]


SHARED_MODULES = sorted(path.name for path in FOLDER.glob("*.py") if path.name not in OWN | ALLOWED)


@pytest.mark.parametrize("name", SHARED_MODULES)
def test_shared_modules_name_no_vendor(name: str) -> None:
    allowed = SHARED.get(name, set())
    found = [
        text
        for text in _literals(FOLDER / name)
        if {one.lower() for one in NAMES.findall(text)} - allowed
    ]
    assert found == []


def test_every_vendor_is_listed() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} >= OWN
    selectors = [name for source in SOURCES for name in (*source.libraries, *source.synonyms)]
    assert len(selectors) == len(set(selectors))
    numbers = [number for vendor in VENDORS.values() for number in vendor.pci_vendors]
    assert len(numbers) == len(set(numbers))
    assert all(vendor.title for vendor in VENDORS.values())
