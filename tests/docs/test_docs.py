"""The pages hold what is true: blocks run, output is current, links lead somewhere."""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from anyrig.app.settings import LOADER
from anyrig.cli.main import COMMANDS, build_parser
from anyrig.settings.load import variable_name
from anyrig.speech.engines import OWN, engine_class
from tests.docs import pages, running
from tests.docs.pages import PAGES, ROOT, Block

BLOCKS = list(pages.blocks())
RUNNABLE = [b for b in BLOCKS if b.language in ("sh", "python") and not b.not_run]
ONLY_SLOW = (
    "transcribe", "Rig().ocr", "PYTHONPATH", '"a bill"',  # a real voice, model or process
    "anyrig train ", "anyrig profile", "export_onnx", "make_book", "epub --engine", "--queue",
    "jobs.run()", "mkdir letters", "anyrig use cpu", "classify train", "find_batch_size",
    "Trainer(",
)  # fmt: skip
"""Blocks with these run in `make test-slow` alone: fakes will not do, or they take seconds."""
PRINTED = {
    before.page + str(before.line): block
    for before, block in itertools.pairwise(BLOCKS)
    if block.mark == "<!-- printed by the block above -->"
}
"""By the place of a block that runs: the block that shows what it prints."""


def test_every_block_runs_or_says_why_not() -> None:
    loose = []
    for block in BLOCKS:
        shown = block.language == "text" and (block.output_of or block.page == "docs/commands.md")
        shown = shown or block in PRINTED.values()
        if not (block in RUNNABLE or block.not_run or shown or block.language == "toml"):
            loose.append(f"{block.page}:{block.line} ({block.language})")
    assert not loose
    assert len(RUNNABLE) >= 5
    assert all(len(block.not_run) > 8 for block in BLOCKS if block.not_run)


@pytest.mark.parametrize("block", RUNNABLE, ids=lambda b: f"{b.page}:{b.line}")
def test_block(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "anyrig"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m anyrig "$@"\n')
    program.chmod(0o755)
    for name in ("tests", "examples"):  # blocks are read in a folder with this project in it
        Path(name).symlink_to(ROOT / name)
    command = ["bash", "-e", "-c", block.text]
    if block.language == "python":
        command = [sys.executable, "-c", block.text]
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=180
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = PRINTED.get(block.page + str(block.line))
    assert shown is None or done.stdout == shown.text


@pytest.mark.parametrize(
    "block",
    [
        block
        for block in RUNNABLE
        if block.page.startswith("docs/") and not any(word in block.text for word in ONLY_SLOW)
    ],
    ids=lambda b: f"{b.page}:{b.line}",
)
def test_block_with_fakes(block: Block) -> None:
    """The same without the real voice and models, quick enough for every run of the tests."""
    for name in ("tests", "examples"):
        Path(name).symlink_to(ROOT / name)
    if block.language == "python":
        printed = running.run_python(block.text)
    else:
        done = running.run_shell(block.text)
        assert done.returncode == 0, done.stdout + done.stderr
        printed = done.stdout
    shown = PRINTED.get(block.page + str(block.line))
    assert shown is None or printed == shown.text


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "toml"], ids=lambda b: b.page)
def test_settings_block(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "anyrig.toml"
    path.write_text(block.text)
    assert tomllib.loads(block.text)
    LOADER.load({}, project_file=path)


def test_generated_pages_are_current() -> None:
    stale = [
        str(page.relative_to(ROOT))
        for page, text in pages.wanted().items()
        if page.read_text(encoding="utf-8") != text
    ]
    assert not stale, "run scripts/docs"


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


def _find_dead_links(page: Path) -> list[str]:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path) if path else page
        if not there.exists() or (anchor and anchor not in _anchors(there)):
            dead.append(target)
    return dead


LINKED = (*PAGES, *(ROOT / one for one in ("CHANGELOG.md", "benchmarks/log.md")),
          *sorted(ROOT.glob("examples/**/*.md")))  # fmt: skip


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert _find_dead_links(page) == []


def test_dead_links_and_anchors_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n[a](page.md#a-page) [b](#other) [c](no.md) [d](page.md#no)\n")
    assert _find_dead_links(page) == ["#other", "no.md", "page.md#no"]


def test_pages_that_the_program_names_exist() -> None:
    for source in (ROOT / "src").rglob("*.py"):
        text = source.read_text(encoding="utf-8")
        for name, anchor in re.findall(r"(docs/[\w-]+\.md)(?:#([\w-]+))?", text):
            assert (ROOT / name).exists(), f"{source}: {name}"
            assert not anchor or anchor in _anchors(ROOT / name), f"{source}: {name}#{anchor}"


def test_every_page_is_in_the_index_and_every_command_in_its_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page.name for page in PAGES if page.parent == ROOT / "docs"]
    assert [name for name in pages if f"({name})" not in index] == ["index.md"]
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert sorted(re.findall(r"- (?:\w+: )?([\w-]+\.md)$", site, re.MULTILINE)) == sorted(pages)
    commands = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert all(f"\n## {name}\n" in commands for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_page_has_every_option(name: str) -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
    shared = text.split("\n## Shared options\n")[1].split("\n### ")[1:]
    titles = [one.splitlines()[0] for one in shared]
    linked = [
        part for title, part in zip(titles, shared, strict=True)
        if title == titles[0] or f"[{title}]" in section
    ]  # fmt: skip
    module = importlib.import_module(f"anyrig.cli.{name}")
    for action in build_parser(name, module)._actions:
        if action.help != argparse.SUPPRESS and action.option_strings not in ([], ["-h", "--help"]):
            assert any(
                re.search(rf"(?<![\w-]){flag}(?![\w-])", part)
                for part in (section, *linked)
                for flag in action.option_strings
            ), action.option_strings


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


def test_settings_page_lists_every_key_and_old_name() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for key in LOADER.schema:
        assert f"| `{key}` | " in text
    assert f"`speech.rate` is `{variable_name('speech.rate')}`" in text
    assert all(name in text for name in LOADER.legacy_variables)


# -- engines --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OWN)
def test_the_page_tells_each_engine_as_it_is(name: str) -> None:
    """A table row, what it was run with, and its options."""
    info = engine_class(name).info
    page = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    assert len(re.findall(rf"^\| \[`{name}`\].+$", page, re.MULTILINE)) == 1
    assert info.verification is not None
    assert f"\n| `{name}` | {info.verification.weights} | " in page
    section = re.split(rf"^### {name}$", page, flags=re.MULTILINE)[1].split("\n#")[0]
    assert [option.name for option in info.options if f"`{option.name}`" not in section] == []


# -- troubleshooting ------------------------------------------------------------------------------


def test_troubleshooting_names_findings_that_exist() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    for head in ("GPU not detected", "Out of memory", "CUDA versions", "WSL2", "Containers",
                 "Flash-attention", "Slow CPU worker"):  # fmt: skip
        assert f"## {head}\n" in text
    from anyrig.devices.vendors import SOURCES

    source = (ROOT / "src/anyrig/devices/doctor.py").read_text(encoding="utf-8")
    checks = set(re.findall(r'\("([\w-]+)", (?:_?check|partial\(_check)', source))
    checks |= {name for vendor in SOURCES for name in vendor.checks}
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)*)`", text))
    assert len(named & checks) >= 12, sorted(named & checks)


def test_troubleshooting_quotes_messages_of_the_program() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quotes = [
        quote
        for title in ("Speech", "Audiobooks", "Training")
        for row in text.split(f"\n## {title}\n")[1].split("\n## ")[0].splitlines()
        if row.startswith("| ")
        for quote in re.findall(r"`([^`]+)`", re.split(r"(?<!\\)\|", row)[1])
        if len(quote.split()) > 2
    ]
    assert len(quotes) > 12
    files = (ROOT / "src" / "anyrig").rglob("*.py")
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    source = re.sub(r'"\n\s*f?"', "", source)  # a message may be written over two lines
    for quote in quotes:
        parts = re.split(r"\.\.\.|: pages.*|\d+%?|French|English|Adobe's.*|bf16|nan\b|:", quote)
        assert max(parts, key=len).strip() in source, quote


# -- the house ------------------------------------------------------------------------------------


def _tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    return [ROOT / name for name in done.stdout.splitlines()]


def test_nothing_names_the_machine_it_was_written_on() -> None:
    """No path of a workplace, no host of a package registry."""
    words = (
        "/wo" + "rk/",
        "/tmp/" + "lab",
        "py" + "pi.org",
        "registry.npm" + "js",
        "deb.deb" + "ian",
    )
    for path in _tracked():
        if path.suffix in (".py", ".md", ".toml", ".json", ".txt", ".ps1", "") and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not [word for word in words if word in text], path


def test_ci_runs_what_the_readme_says() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    readme = (ROOT / "README.md").read_text()
    assert "make run" in readme
    assert "make test" in readme
    assert "torch==2.13.0\n" in (ROOT / "constraints.txt").read_text()
