"""Nothing in the working directory is imported: it may be a folder of somebody else's files."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from anyrig.cli.main import COMMANDS
from tests.conftest import ROOT
from tests.storage.redis_server import free_port

SOURCE = ROOT / "src" / "anyrig"
SCRIPT = Path(sys.executable).with_name("anyrig")
OPTIONAL = (
    "cupy", "flax", "jax", "orjson", "regex", "sentencepiece", "tensorflow", "torch_xla", "uvloop",
    "intel_extension_for_pytorch", "sitecustomize", "usercustomize", "celeryconfig", "conftest",
)  # fmt: skip
"""What libraries look for whether or not it is installed."""
TEXT = "It is known that Maria Gonzalez paid 500 euros in Berlin on 4 May 2021. She was pleased.\n"
TRAINING = """
[task]
kind = "language"
text = "letter.txt"
model = { preset = "tiny", layers = 1, width = 16, heads = 2, context = 16 }
context = 16
sample = 8

[train]
batch = 4
micro_batch = 4
steps = 12
precision = "fp32"
learning_rate = 3e-3
loading.num_workers = 0
"""


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """A working directory with a module of every name that anything could import."""
    folder = tmp_path / "poisoned"
    folder.mkdir()
    poison = tmp_path / "poison"
    poison.write_text(
        f"with open({str(tmp_path / 'imported')!r}, 'a') as file:\n"
        "    file.write(f'{__name__}\\n')\n"
        "raise ImportError('from the working directory')\n"
    )
    for name in {*sys.stdlib_module_names, *packages_distributions(), *OPTIONAL}:
        (folder / f"{name}.py").hardlink_to(poison)
    (folder / "texts").mkdir()
    (folder / "texts" / "letter.txt").write_text(TEXT * 30)
    (folder / "letter.txt").write_text(TEXT)
    (folder / "labels").write_text("")
    (folder / "run.toml").write_text(TRAINING)
    _write_page(folder / "page.png")
    return folder


def _write_page(path: Path) -> None:
    from PIL import Image, ImageDraw

    page = Image.new("L", (300, 60), 255)
    ImageDraw.Draw(page).text((10, 10), "Hello there", fill=0, font_size=30)
    page.save(path)


@pytest.fixture
def imported(tmp_path: Path) -> Callable[[], list[str]]:
    """The modules of the working directory that some process imported."""
    marker = tmp_path / "imported"
    return lambda: marker.read_text().split() if marker.exists() else []


QUICK: tuple[tuple[str, ...], ...] = (
    ("speak", "Hello there.", "--engine", "tone", "-o", "hello.wav"),
    ("embed", "letter.txt", "--model", "hashing", "-o", "vectors.npy"),
)
LONG: tuple[tuple[str, ...], ...] = (
    ("devices",),
    ("doctor",),
    ("cluster", "status"),
    ("use", "cpu"),
    ("bench", "--quick"),
    ("profile", "--help"),
    ("top", "--once"),
    ("book", "letter.txt", "--engine", "tone", "-o", "letter.m4b"),
    ("book", "letter.txt", "--engine", "tone", "-o", "queued.m4b", "--queue"),
    ("jobs", "run"),
    ("transcribe", "hello.wav"),
    ("analyse", "texts", "--model", "hashing"),
    ("summarise", "letter.txt"),
    ("ocr", "page.png"),
    ("voices",),
    ("engines",),
    ("index", "texts", "--model", "hashing"),
    ("search", "who paid", "--model", "hashing"),
    ("ask", "Who paid?", "--model", "hashing"),
    ("cache",),
    ("classify", "letter.txt", "--labels", "money,travel", "--model", "hashing"),
    ("train", "run.toml", "--folder", "run", "--device", "cpu"),
    ("keys", "list"),
    ("entities", "letter.txt"),
)
RUNNING = ("serve", "worker", "coordinator")
"""Tested below: they run until they are told to stop."""


def test_every_command_is_tried() -> None:
    assert {words[0] for words in (*QUICK, *LONG)} | {*RUNNING} == {*COMMANDS}


@pytest.mark.parametrize("words", QUICK, ids=" ".join)
def test_a_command_imports_nothing_from_the_working_directory(
    words: tuple[str, ...], poisoned: Path, imported: Callable[[], list[str]]
) -> None:
    done = _run(SCRIPT, *words, cwd=poisoned)
    assert not imported(), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_nor_do_the_others(poisoned: Path, imported: Callable[[], list[str]]) -> None:
    assert _run(SCRIPT, *QUICK[0], cwd=poisoned).returncode == 0
    failed = []
    for words in LONG:
        done = _run(SCRIPT, *words, cwd=poisoned)
        assert not imported(), (words, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        if done.returncode:
            failed.append((words[0], done.stderr))
    # There is no cluster, nothing answers, and Tesseract or a model for recordings may be missing.
    assert {name for name, _ in failed} <= {"ask", "cluster", "ocr", "transcribe", "summarise"}, (
        failed
    )


def test_python_m_anyrig_imports_nothing_either(
    poisoned: Path, imported: Callable[[], list[str]]
) -> None:
    """But for what Python itself imports before it knows what to run."""
    for name in ("anyrig", *_imported_by_runpy()):
        (poisoned / f"{name}.py").unlink(missing_ok=True)
    done = _run(sys.executable, "-m", "anyrig", *QUICK[0], cwd=poisoned)
    assert (done.returncode, imported()) == (0, []), done.stderr


def _imported_by_runpy() -> list[str]:
    program = "import __future__, runpy, sys, typing; print(*sys.modules)"
    done = _run(sys.executable, "-I", "-c", program, cwd=Path("/"))
    return done.stdout.split()


@pytest.mark.slow
def test_processes_of_a_training_run_import_nothing_from_there(
    poisoned: Path, imported: Callable[[], list[str]]
) -> None:
    done = _run(
        SCRIPT, "train", "run.toml", "--folder", "run", "--device", "cpu", "--nproc", "2",
        cwd=poisoned,
    )  # fmt: skip
    assert (done.returncode, imported()) == (0, []), done.stderr


@pytest.mark.slow
def test_workers_of_a_cluster_import_nothing_from_there(
    poisoned: Path, imported: Callable[[], list[str]]
) -> None:
    port = free_port()
    words = ("coordinator", "--port", str(port), "--host", "127.0.0.1", "--json", "--flower")
    with _running(SCRIPT, *words, cwd=poisoned) as coordinator:
        assert coordinator.stdout is not None
        token = next(filter(None, map(_find_token, coordinator.stdout)))
        more = {"ANYRIG_CLUSTER_NODES": "2"}
        order = ("worker", "--join", token, "--device", "cpu", "--json")
        with _running(SCRIPT, *order, cwd=poisoned, environment=more) as worker:
            assert worker.stdout is not None
            assert any("ready" in line for line in worker.stdout)
            speak = ("speak", "Hello there, all of you.", "--engine", "tone", "-o", "far.wav")
            done = _run(SCRIPT, *speak, "--cluster", token, cwd=poisoned)
            assert done.returncode == 0, done.stderr
    assert not imported()


def _find_token(line: str) -> str:
    return next((word for word in line.replace('"', " ").split() if "anyrig1_" in word), "")


@pytest.mark.slow
def test_a_server_and_its_workers_import_nothing_from_there(
    poisoned: Path, imported: Callable[[], list[str]]
) -> None:
    import json
    import urllib.request

    words = ("serve", "--port", "0", "--json")
    with _running(SCRIPT, *words, cwd=poisoned) as server:
        assert server.stdout is not None
        url = next(filter(None, (json.loads(line).get("url") for line in server.stdout)))
        for path, body in (
            ("/v1/audio/speech", {"input": "Hello.", "voice": "tone", "model": "tone"}),
            ("/documents/entities", {"texts": [TEXT]}),
        ):
            request = urllib.request.Request(
                f"{url.rstrip('/')}{path}", json.dumps(body).encode(),
                {"content-type": "application/json"},
            )  # fmt: skip
            with urllib.request.urlopen(request) as answer:
                assert answer.read()
    assert not imported()


def _run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@contextmanager
def _running(
    *command: str | Path, cwd: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [str(word) for word in command], cwd=cwd, env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


# -- how processes are started ---------------------------------------------------------------------

STARTING = "backends/process.py"
OTHERS = {
    "speech/environments.py": "builds environments, with -I",
    "storage/package_index.py": "asks pip for its index, with -I",
    "install.py": "prints",
}
_MULTIPROCESSING = {"Process", "Pool", "get_context", "set_start_method", "ProcessPoolExecutor"}
_EXECUTING = ("exec", "spawn", "posix_spawn")


def test_one_file_starts_python() -> None:
    """Every Python process of ours is started by `module_command`."""
    others = [path for path in SOURCE.rglob("*.py") if path != SOURCE / STARTING]
    found = {path.relative_to(SOURCE).as_posix(): {*_find_starts(path)} for path in others}
    # Processes that tokenize are started by a worker, and inherit its -P from Python itself.
    assert found.pop("documents/tokenizer.py") == {
        "concurrent.ProcessPoolExecutor", "multiprocessing.get_context",
    }  # fmt: skip
    assert {name: names for name, names in found.items() if names} == {
        name: {"sys.executable"} for name in OTHERS
    }


def _find_starts(path: Path) -> Iterator[str]:
    """What a file uses that starts a process by itself."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        used: list[tuple[str, str]] = []
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = [(node.value.id, node.attr)]
        elif isinstance(node, ast.ImportFrom):
            used = [((node.module or "").partition(".")[0], alias.name) for alias in node.names]
        for module, name in used:
            if (
                (module, name) == ("sys", "executable")
                or (module == "os" and name.startswith(_EXECUTING))
                or (module in ("multiprocessing", "concurrent") and name in _MULTIPROCESSING)
            ):
                yield f"{module}.{name}"
