"""docs/architecture.md names only what exists.

The source is parsed, not imported: importing all of it would need every extra.
"""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from pathlib import Path

import pytest

from anyrig.cli.main import COMMANDS
from tests.conftest import Anyrig
from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "anyrig"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", TEXT)))
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DEFINED = re.compile(r"^ *(?:(?:async )?def |class |(?=\w+(?:: | = )))(\w+)", re.MULTILINE)
_PLACE = re.compile(r"([\w/]+\.py):([\w.]+)")
_PATH = re.compile(r"[\w/.-]+(?:\.py|\.toml|/)")


@cache
def _names(file: Path) -> frozenset[str]:
    """What a module defines, with dots inside classes: `Rig`, `Rig.request`, `COMMANDS`."""

    def walk(node: ast.AST, before: str) -> set[str]:
        found: set[str] = set()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _DEFINITIONS):
                name = before + child.name
                found |= {name} | (
                    walk(child, f"{name}.") if isinstance(child, ast.ClassDef) else set()
                )
            elif isinstance(child, ast.Assign | ast.AnnAssign):
                targets = child.targets if isinstance(child, ast.Assign) else [child.target]
                found |= {before + one.id for one in targets if isinstance(one, ast.Name)}
        return found

    return frozenset(walk(ast.parse(file.read_text(encoding="utf-8")), ""))


@cache
def _files_by_name() -> dict[str, list[Path]]:
    """Where a function, class, method, field or constant is defined; by pattern, as it is quick."""
    found: dict[str, list[Path]] = {}
    for file in SOURCE.rglob("*.py"):
        for name in set(_DEFINED.findall(file.read_text(encoding="utf-8"))):
            found.setdefault(name, []).append(file)
    return found


def _exists(path: str) -> bool:
    path = path.replace("NAME", "*").replace("VENDOR", "*")  # a file that a reader would add
    return any(next(folder.glob(path), None) for folder in (SOURCE, ROOT))


def _is_defined(name: str) -> bool:
    """`make_book`, `Rig.make_book`, `COMMANDS`; the instance `rig` stands for `Rig`."""
    first, _, rest = re.sub(r"^rig\.", "Rig.", name).partition(".")
    files = _files_by_name().get(first, [])
    return any(f"{first}.{rest}" in _names(file) for file in files) if rest else bool(files)


def find_missing(quoted: str) -> list[str]:
    """What of a text in backticks does not exist."""
    if place := _PLACE.fullmatch(quoted):
        file = SOURCE / place[1]
        return [] if file.exists() and place[2] in _names(file) else [quoted]
    if _PATH.fullmatch(quoted):
        return [] if _exists(quoted) else [quoted]
    if quoted.startswith("python -m anyrig."):
        module = quoted.removeprefix("python -m anyrig.").replace(".", "/")
        return [] if (SOURCE / f"{module}.py").exists() else [quoted]
    if command := re.match(r"anyrig (\w+)", quoted):
        return [] if command[1] in COMMANDS else [quoted]
    if quoted in ("lint-imports", "jobs.sqlite") or quoted.startswith(("--", '"memory_gb"')):
        return []
    if (SOURCE / quoted).is_dir() or (SOURCE / f"{quoted}.py").exists():
        return []
    if keyword := re.fullmatch(r"(\w+)=\S+", quoted):
        return [] if _is_defined(keyword[1]) else [quoted]
    names = re.findall(r"(?<![\w.*\"])([A-Za-z_][\w.]*)(?=\(|$)", quoted) or [quoted]
    return [name for name in names if not _is_defined(name)]


def test_the_page_names_many_functions() -> None:
    assert len([one for one in QUOTED if _PLACE.fullmatch(one)]) >= 40


_TRACER = '''
"""Writes the stack of the first call of some functions, as `file:function` of the package."""
import importlib.util, os, sys
from pathlib import Path

TRACED = {
    "anyrig.work.live": "LiveQueue.submit",
    "anyrig.speech.engines.hibari": "Hibari.synthesize",
    "anyrig.audio.samples": "to_int16_bytes",
    "anyrig.audio.encode": "Sink.write",
}
made = []  # samples to be written

def wrap(function, name):
    def call(*arguments, **named):
        result = function(*arguments, **named)
        if name == "to_int16_bytes":
            made.append(result)
        elif (name != "Sink.write" or (made and arguments[1] == made[-1])) and not call.done:
            call.done = True
            stack, frame = [name], sys._getframe(1)
            while frame is not None:
                _, is_ours, path = frame.f_code.co_filename.rpartition("/src/anyrig/")
                if is_ours:
                    stack.append(f"{path}:{frame.f_code.co_name}")
                frame = frame.f_back
            with open(os.environ["TRACE"], "a") as file:
                file.write(" ".join(stack) + chr(10))
        return result
    call.done = False
    return call

class Finder:
    def find_spec(self, module, path=None, target=None):
        if module not in TRACED:
            return None
        name = TRACED.pop(module)
        spec = importlib.util.find_spec(module)
        load = spec.loader.exec_module
        def execute(loaded):
            load(loaded)
            *outer, last = name.split(".")
            owner = getattr(loaded, outer[0]) if outer else loaded
            setattr(owner, last, wrap(getattr(owner, last), name))
        spec.loader.exec_module = execute
        return spec

sys.meta_path.insert(0, Finder())
'''


def _read_hops() -> list[tuple[str, str]]:
    """File and function of the numbered lines of `anyrig speak`."""
    section = TEXT.split("## anyrig speak, hop by hop")[1].split("\n## ")[0]
    hops = re.findall(r"^\d+\. `([\w/]+\.py):([\w.]+)`", section, re.MULTILINE)
    assert len(hops) == len(re.findall(r"^\d+\. ", section, re.MULTILINE))
    return hops


def test_from_the_command_to_sound_are_few_calls_in_few_files() -> None:
    hops = _read_hops()
    assert len(hops) <= 20
    assert len({file for file, _ in hops}) <= 12


def test_a_real_run_makes_the_calls_of_the_page(tmp_path: Path, anyrig_process: Anyrig) -> None:
    (tmp_path / "sitecustomize.py").write_text(_TRACER, encoding="utf-8")
    trace, sound = tmp_path / "trace", tmp_path / "hello.wav"
    environment = {
        "TRACE": str(trace), "ANYRIG_CACHE_FOLDER": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE.parent)]),
    }  # fmt: skip
    done = anyrig_process("speak", "Hello.", "-o", str(sound), environment=environment)
    assert done.returncode == 0, done.stderr
    stacks = {}
    for line in trace.read_text(encoding="utf-8").splitlines():
        name, *frames = line.split()
        stacks[name] = [one for one in frames[::-1] if not one.endswith(":<module>")]
    hops = [f"{file}:{name.rpartition('.')[2]}" for file, name in _read_hops()]
    # Before a worker's own `main` is what starts any process of ours.
    in_worker = stacks["Hibari.synthesize"]
    in_worker = in_worker[in_worker.index("work/worker_main.py:main") :]
    assert [*stacks["LiveQueue.submit"], "work/live.py:submit"] == hops[:9]
    assert [*in_worker, "speech/engines/hibari.py:synthesize"] == hops[9:16]
    assert [*stacks["Sink.write"], "audio/encode.py:write"] == hops[:4] + hops[16:]


@pytest.mark.parametrize("quoted", QUOTED)
def test_named_in_the_page_exists(quoted: str) -> None:
    assert find_missing(quoted) == []


@pytest.mark.parametrize(
    "wrong",
    ["app/rig.py:Rig.fly", "app/nothing.py:run", "app/nothing.py", "devices/nothing/", "anyrig fly",
     "Rig.fly", "rig.fly(SpeechRequest)", "fly", "print", "NO_SUCH_TABLE", "no_option=6",
     "python -m anyrig.fly"],
)  # fmt: skip
def test_what_does_not_exist_is_found(wrong: str) -> None:
    assert find_missing(wrong)
