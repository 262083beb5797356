"""Words in all their forms, operators in questions, names of files; in several languages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from anyrig.documents.index.keywords import drop_stop_words, parse_question
from anyrig.documents.index.search import Searcher
from tests.documents.index.bag import Bag
from tests.documents.index.folder import index, write

BAG = Bag()
DOCS = {
    "lease.txt": "The tenants are paying their rents in advance. The landlord replies in writing.",
    "Garden_plan-2024.txt": "Roses are cut back when the forsythia blooms, and hedges in June.",
    "war.txt": "The civil war began in April and ended four years later with a surrender.",
    "courage.txt": "Civil courage means that somebody speaks where all of the others are silent.",
    "krieg.txt": "Der Krieg war lang, und die Leute waren müde. Wer kann das heute noch glauben?",
    "casas.txt": "Las casas blancas del pueblo fueron vendidas a unos compradores de la ciudad.",
    "maisons.txt": "Les maisons du village étaient vendues à des familles venues de la ville.",
    "korean.txt": "나는 어제 학교에서 친구를 만났다. 도서관은 조용했다. 선생님이 책을 주셨다.",
}


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    made = tmp_path_factory.mktemp("keywords")
    write(made / "docs", DOCS)
    index(made / "i.sqlite", made / "docs", BAG)
    return Searcher(made / "i.sqlite")


def find(searcher: Searcher, question: str, mode: str = "keywords") -> list[str]:
    answer = searcher.search(question, BAG, mode=mode)  # type: ignore[arg-type]
    return [hit.place.file.name for hit in answer.hits]


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("tenant pays rent", "lease.txt"),
        ("reply", "lease.txt"),
        ("casa blanca", "casas.txt"),
        ("vendido", "casas.txt"),
        ("maison", "maisons.txt"),
        ("hedge", "Garden_plan-2024.txt"),
        ("학교", "korean.txt"),
        ("도서관", "korean.txt"),
    ],
)
def test_words_are_found_in_all_their_forms(searcher: Searcher, question: str, file: str) -> None:
    assert find(searcher, question)[0] == file


def test_what_was_found_by_its_stem_is_marked(searcher: Searcher) -> None:
    hit = searcher.search("tenant pay", None, mode="keywords").hits[0]
    assert [hit.text[start:end] for start, end in hit.matches] == ["tenants", "paying"]
    assert hit.sentence is not None
    assert hit.text[slice(*hit.sentence)] == "The tenants are paying their rents in advance."


def test_the_best_sentence_is_no_heading(tmp_path: Path) -> None:
    write(tmp_path / "docs", {"a.txt": "Rent\n\nThe rent is due on the first of each month."})
    index(tmp_path / "i.sqlite", tmp_path / "docs", BAG)
    with Searcher(tmp_path / "i.sqlite") as searcher:
        hit = searcher.search("rent", None, mode="keywords").hits[0]
    assert hit.sentence is not None
    assert hit.text[slice(*hit.sentence)] == "The rent is due on the first of each month."


def test_a_word_that_stands_in_a_passage_has_a_frequency(searcher: Searcher) -> None:
    """Korean syllables were taken apart, so that no word of them was known."""
    searcher.search("친구를", None, mode="keywords")
    assert searcher.refresh(matrix=False).terms["친구를"].num_passages == 1


def test_stop_words_are_those_of_one_language(searcher: Searcher) -> None:
    assert find(searcher, "civil war")[0] == "war.txt"
    assert searcher.search("civil war", None, mode="keywords").words == ("civil", "war")


@pytest.mark.parametrize(
    ("question", "languages", "left"),
    [
        ("civil war", ["en", "de"], "civil war"),
        ("the civil war of 1861", ["en", "de"], "civil war 1861"),
        ("wer war das", ["de"], "wer war das"),
        ("wer war der Kanzler", ["en", "de"], "Kanzler"),
        ("war and peace", ["en", "de"], "war and peace"),
        ("civil war in Spain", ["en", "de"], "civil war Spain"),
        ("cuándo se paga la renta", ["es", "en"], "paga renta"),
        ("when is the rent due", [], "rent due"),
    ],
)
def test_the_words_that_say_what_it_is_about(
    question: str, languages: Sequence[str], left: str
) -> None:
    assert drop_stop_words(question.split(), languages) == left.split()


def test_a_phrase_is_found_as_it_is_written(searcher: Searcher) -> None:
    for mode in ("keywords", "vectors", "hybrid"):
        assert find(searcher, '"civil war"', mode) == ["war.txt"]
        assert find(searcher, '"tenant are"', mode) == [], "not by a stem"
        assert find(searcher, '"war civil"', mode) == []
    assert find(searcher, 'april "civil war" courage') == ["war.txt"]
    for question in ("\u201ccivil war\u201d", "\u00ab civil war \u00bb", "\u201ecivil war\u201c"):
        assert find(searcher, question) == ["war.txt"]
    assert find(searcher, '"학교에서 친구를"') == ["korean.txt"]


def test_a_prefix(searcher: Searcher) -> None:
    assert find(searcher, "forsy*") == ["Garden_plan-2024.txt"]
    assert find(searcher, "surr*") == ["war.txt"]
    hit = searcher.search("forsy*", None, mode="keywords").hits[0]
    assert [hit.text[start:end] for start, end in hit.matches] == ["forsythia"]


def test_excluded_words_and_phrases(searcher: Searcher) -> None:
    for mode in ("keywords", "vectors", "hybrid"):
        assert "courage.txt" in find(searcher, "civil", mode)
        found = find(searcher, "civil -war", mode)
        assert "courage.txt" in found
        assert "war.txt" not in found
        assert "courage.txt" not in find(searcher, 'civil -"civil courage"', mode)
        assert "lease.txt" not in find(searcher, "landlord -tenant", mode), "in all its forms"
        assert "war.txt" not in find(searcher, "civil -surr*", mode)
    assert find(searcher, "-war") == []


def test_files_by_path_and_type(searcher: Searcher) -> None:
    for mode in ("keywords", "vectors", "hybrid"):
        assert find(searcher, "civil path:COURAGE", mode) == ["courage.txt"]
        assert "war.txt" in find(searcher, "civil type:txt", mode)
        assert find(searcher, "civil type:pdf", mode) == []
        assert find(searcher, 'civil path:"no such"', mode) == []
        assert "courage.txt" not in find(searcher, "civil -path:courage", mode)
        assert "war.txt" in find(searcher, "civil -path:courage -type:pdf", mode)
        assert find(searcher, "civil -type:txt", mode) == []


def test_names_of_files_are_searched(searcher: Searcher) -> None:
    assert find(searcher, "garden plan")[0] == "Garden_plan-2024.txt"
    assert find(searcher, "garden plans 2024", "hybrid")[0] == "Garden_plan-2024.txt"


def test_titles_follow_the_file(tmp_path: Path) -> None:
    docs, path = tmp_path / "docs", tmp_path / "i.sqlite"
    write(docs, {"voucher.txt": "Nothing to see here."})
    index(path, docs, BAG)
    (docs / "voucher.txt").rename(docs / "receipt.txt")
    index(path, docs, BAG)
    with Searcher(path) as searcher:
        assert find(searcher, "voucher") == []
        assert find(searcher, "receipt") == ["receipt.txt"]


def test_operators_are_read() -> None:
    query = parse_question('rent "notice period" con* -draft -"old one" path:a/b type:pdf e-mail -')
    assert query.text == "rent notice period con e-mail -"
    assert query.words == ("rent", "notice", "period", "e", "mail")
    assert (query.prefixes, query.phrases) == (("con",), ("notice period",))
    assert query.excluded == ("draft", "old one")
    assert (query.paths, query.types) == (("a/b",), ("pdf",))
    query = parse_question('rent -path:"old letters" -type:eml -draft*')
    assert (query.excluded_paths, query.excluded_types) == (("old letters",), ("eml",))
    assert query.excluded == ("draft*",)


def test_a_file_with_a_time_in_the_future_is_not_read_at_every_run(tmp_path: Path) -> None:
    docs, path = tmp_path / "docs", tmp_path / "i.sqlite"
    write(docs, {"a.txt": "From tomorrow."})
    later = (docs / "a.txt").stat().st_mtime + 86_400
    os.utime(docs / "a.txt", (later, later))
    index(path, docs, BAG)
    before = _read_seen(path)
    index(path, docs, BAG)
    assert _read_seen(path) == before


def _read_seen(path: Path) -> float:
    from anyrig.documents.index import db

    (known,) = db.read_index(path, db.list_known).values()
    return known.seen
