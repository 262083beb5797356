"""Hostile and broken files in pages: one clear error or pages whose places hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyrig.errors import AnyrigError
from anyrig.text.formats.limits import Limits
from anyrig.text.sandbox import ReaderPool
from tests.text.hostile.hostile_files import ALL, Hostile

_EACH = 12
"""One in so many is tried by default: all of them are read as books as well."""
CASES = [
    pytest.param(one, id=name, marks=[pytest.mark.slow] if one.slow or at % _EACH else [])
    for at, (name, one) in enumerate(ALL.items())
]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its clocks and pipes are others")


@pytest.fixture(scope="module")
def pool() -> Iterator[ReaderPool]:
    with ReaderPool(limits=Limits(seconds=30)) as one:
        yield one


@pytest.mark.parametrize("case", CASES)
def test_one_clear_error_or_pages(case: Hostile, tmp_path: Path, pool: ReaderPool) -> None:
    path = case.make(tmp_path)
    before = {each for each in tmp_path.rglob("*") if not each.is_symlink()}
    try:
        document = pool.read_file(path)
    except AnyrigError as error:
        assert error.hint  # noqa: PT017 - either is right for many of them
        assert error.message.isprintable()  # noqa: PT017
        assert len(error.message) < 600  # noqa: PT017
    else:
        assert document.parts("page")
        for page in document.parts("page"):
            assert document.text[page.start : page.start + len(page.text)] == page.text
            assert page.title.isprintable()
        document.text.encode()
    assert {each for each in tmp_path.rglob("*") if not each.is_symlink()} == before
