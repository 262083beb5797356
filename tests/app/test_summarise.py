"""Summaries from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig import Rig
from anyrig.errors import InvalidInputError, InvalidOptionError
from tests.documents.marked_texts import load


def test_a_text_and_files_are_summarised(tmp_path: Path) -> None:
    text = next(one for one in load() if one.name == "en_memo").text
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "b.txt").write_text("")
    rig = Rig()
    (of_text,) = rig.summarise(texts=text, sentences=2)
    summary = of_text.summaries[0].summary
    assert summary.language == "en"
    first, second = rig.summarise([tmp_path / "a.txt", tmp_path / "b.txt"], sentences=2)
    assert first.summaries[0].summary.text == summary.text
    assert second.error is not None
    assert "b.txt is empty" in second.error.message


def test_sentences_are_chosen_by_the_embedding_model_of_the_settings(tmp_path: Path) -> None:
    Path("anyrig.toml").write_text('[documents]\nmodel = "hashing"\n')
    text = next(one for one in load() if one.name == "en_memo").text
    (found,) = Rig().summarise(texts=text, words=40, vectors=True)
    assert found.summaries[0].summary.method == "sentences by the vectors of hashing"


def test_summaries_are_written_to_a_file(tmp_path: Path) -> None:
    text = next(one for one in load() if one.name == "en_memo").text
    Rig().summarise(texts=text, output=tmp_path / "x.md", places=True)
    assert (tmp_path / "x.md").read_text(encoding="utf-8").startswith("# text 1\n")


def test_what_cannot_be_done_is_refused_before_the_work(tmp_path: Path) -> None:
    rig = Rig()
    with pytest.raises(InvalidOptionError, match="`sentences` and `words` were both given"):
        rig.summarise(texts="A text.", sentences=2, words=9)
    with pytest.raises(InvalidOptionError, match="`share` must be a number greater than 0"):
        rig.summarise(texts="A text.", share=0)
    with pytest.raises(InvalidInputError, match="unknown format"):
        rig.summarise(texts="A text.", output=tmp_path / "x.docx")
    with pytest.raises(InvalidInputError, match="nothing to summarise"):
        rig.summarise(tmp_path / "work")
