"""Every character of a text is spoken, or left out by name; `benchmarks/run cpu --only book_texts`
proves it on eighteen long texts of other packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.text.files import read
from anyrig.text.matter import apply_matter
from benchmarks.book_texts import (
    MAX_OMITTED,
    TextCoverage,
    measure_coverage,
    spoken_words,
    write_epub,
)

ALICE = Path(__file__).resolve().parent.parent / "texts" / "alice.txt"
LATIN = """Arma virumque cano, Troiae qui primus ab oris Italiam, fato profugus, Laviniaque
venit litora, multum ille et terris iactatus et alto vi superum saevae memorem Iunonis ob
iram; multa quoque et bello passus, dum conderet urbem, inferretque deos Latio."""
PROSE = "The rain fell on the roof of the old house all through the long night, and nobody slept."


@pytest.fixture(scope="module")
def alice() -> TextCoverage:
    return measure_coverage(ALICE)


def test_a_novel_is_spoken_nearly_whole(alice: TextCoverage) -> None:
    assert alice.omitted_percent <= MAX_OMITTED
    assert alice.num_words > 8_000
    assert not alice.plan.foreign


def test_an_epub_of_a_novel_says_the_same_words(alice: TextCoverage, tmp_path: Path) -> None:
    write_epub(apply_matter(read(ALICE)), tmp_path / "alice.epub")
    other = measure_coverage(tmp_path / "alice.epub")
    assert spoken_words(other.plan) == spoken_words(alice.plan)
    assert len(other.plan.parts) == len(alice.plan.parts)


def test_what_is_not_spoken_has_a_name(tmp_path: Path) -> None:
    source = tmp_path / "mixed.txt"
    source.write_text(
        f"{PROSE}[1]\n\n* * * * *\n\n{PROSE} {PROSE} {PROSE}\n\n{LATIN}\n\n"
        "[1] A note of the printer.\n"
    )
    found = measure_coverage(source)
    latin, note = ("".join(text.split()) for text in (LATIN, "[1][1] A note of the printer."))
    assert found.omitted == {"foreign": len(latin), "note": len(note)}
    assert found.num_ornaments == 5
    assert len(found.plan.foreign) == 1
