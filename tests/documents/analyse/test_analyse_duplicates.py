from __future__ import annotations

from anyrig.documents.analyse import duplicates
from anyrig.documents.analyse.duplicates import build_shingles, similarity
from tests.conftest import ROOT

ALICE = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")


def pieces(count: int, size: int = 1500) -> list[str]:
    return [ALICE[n * size : (n + 1) * size] for n in range(count)]


def edited(text: str, every: int) -> str:
    said = text.split()
    return " ".join("altered" if n % every == every - 1 else one for n, one in enumerate(said))


def test_looks_do_not_matter() -> None:
    text = pieces(1)[0]
    other = build_shingles("\n\n".join(text.upper().replace(",", " ,").split()))
    assert build_shingles(text).digest == other.digest
    assert similarity(build_shingles(text), other) == 1.0


def test_copies_with_edits_are_found_among_others() -> None:
    texts = pieces(20)
    copy = edited(texts[3], 25)
    found = duplicates.group_duplicates([build_shingles(text) for text in [*texts, copy, texts[7]]])
    members = {(one.first, *(member.index for member in one.members)) for one in found}
    assert {frozenset(one) for one in members} == {frozenset({3, 20}), frozenset({7, 21})}
    near = next(one for one in found if not one.exact)
    assert 0.5 <= near.members[0].similarity < 1


def test_texts_on_one_subject_are_no_copies() -> None:
    assert duplicates.group_duplicates([build_shingles(text) for text in pieces(25)]) == []


def test_what_differs_is_said() -> None:
    before = "The fee is 40 euros. It is due in May. Write to us."
    after = "The fee is 55 euros. It is due in May. Write to us. Or call."
    found, count = duplicates.list_changes(before, after, "en")
    assert count == 2
    assert (found[0].before, found[0].after) == ("The fee is 40 euros.", "The fee is 55 euros.")
    assert (found[1].before, found[1].after) == ("", "Or call.")


def test_nothing_and_almost_nothing() -> None:
    made = [build_shingles(text) for text in ("", "", "yes", "yes", "one two")]
    assert duplicates.group_duplicates(made) == []
    assert duplicates.group_duplicates([]) == []
