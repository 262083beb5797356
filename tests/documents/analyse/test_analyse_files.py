from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from anyrig.documents.analyse.folder import Analysis, analyse_files
from anyrig.documents.analyse.report import html
from anyrig.errors import InvalidInputError
from anyrig.text.document import Document
from anyrig.text.folder import find
from anyrig.text.sandbox import ReadError
from tests.documents.analyse import topics
from tests.documents.index.bag import Bag


def simply(paths: Sequence[Path]) -> Iterator[Document | ReadError]:
    """Files as they lie, without processes of their own: quick."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if text:
            yield Document.from_text(text, path)
        else:
            yield ReadError(
                path, InvalidInputError(f"{path.name} is empty", hint="Pass one with text.")
            )


def told(folder: Path, **more: object) -> Analysis:
    files = find(folder).files
    return analyse_files(files, root=folder, read=simply, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("by_vectors", [False, True])
def test_a_labelled_folder_falls_into_its_subjects(tmp_path: Path, by_vectors: bool) -> None:
    subjects = topics.make(tmp_path)
    bag = Bag(dimension=512)
    found = told(tmp_path, model=(lambda languages: bag) if by_vectors else None)
    clusters = found.clustering.clusters
    assert len(clusters) == 3
    for cluster in clusters:
        members = {subjects[found.docs[index].facts.name] for index in cluster.members}
        assert len(members) == 1
        [subject] = members
        known = topics.TOPICS[subject].lower()
        assert all(word in known for word in cluster.name.lower().replace(",", "").split())
    assert found.model == ("bag" if by_vectors else "")


def test_the_model_is_chosen_by_the_languages_of_the_texts(tmp_path: Path) -> None:
    topics.make(tmp_path, each=1)
    spanish = "El ayuntamiento ha aprobado el nuevo presupuesto para las escuelas del barrio. "
    (tmp_path / "es.txt").write_text(spanish * 4, encoding="utf-8")
    asked: list[dict[str, float]] = []

    def model(languages: dict[str, float]) -> Bag:
        asked.append(dict(languages))
        return Bag()

    told(tmp_path, model=model)
    assert set(asked[0]) == {"en", "es"}
    assert sum(asked[0].values()) == pytest.approx(1.0)


def test_bad_files_are_named_and_the_rest_go_on(tmp_path: Path) -> None:
    topics.make(tmp_path, each=1)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "marks.txt").write_text("... --- ...")
    found = told(tmp_path)
    assert len(found.docs) == 3
    assert [one.name for one in found.left] == ["empty.txt", "marks.txt"]
    assert "empty" in found.left[0].error.message


def test_similar_documents_are_ranked(tmp_path: Path) -> None:
    subjects = topics.make(tmp_path)
    found = told(tmp_path, similar_to=tmp_path / "as0.txt")
    assert found.similar_to is not None
    names = [found.docs[index].facts.name for index, _ in found.similar]
    assert [subjects[name] for name in names[:3]] == ["astronomy"] * 3
    scores = [score for _, score in found.similar]
    assert scores == sorted(scores, reverse=True)
    assert "as0.txt" not in names


def test_a_file_that_cannot_be_compared_is_an_error(tmp_path: Path) -> None:
    topics.make(tmp_path, each=1)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(InvalidInputError, match="cannot be compared"):
        told(tmp_path, similar_to=tmp_path / "empty.txt")


def test_dates_come_from_names_first(tmp_path: Path) -> None:
    (tmp_path / "2021-03-04 letter.txt").write_text("A letter on the matter of the roof tiles.")
    (tmp_path / "20219999 letter.txt").write_text("Another letter on the matter of the roof.")
    found = told(tmp_path)
    by = {doc.facts.name: (doc.facts.day, doc.facts.dated_by) for doc in found.docs}
    assert by["2021-03-04 letter.txt"] == ("2021-03-04", "name")
    assert by["20219999 letter.txt"][1] == "file"


UNRELATED = (
    "The cat slept on the warm windowsill all afternoon while the rain fell outside.",
    "Our quarterly invoice covers three laptops, two monitors and a delivery fee.",
    "Preheat the oven, mix flour with butter and sugar, then bake the biscuits.",
    "The treaty was signed by both kings after the siege of the northern fortress.",
    "To reset the router, hold the small button and wait for a green signal.",
    "Grandmother's garden has tomatoes, beans and one crooked apple tree.",
)


def test_texts_that_have_nothing_in_common_are_told_as_such(tmp_path: Path) -> None:
    for number, text in enumerate(UNRELATED):
        (tmp_path / f"{number}.txt").write_text(text)
    found = told(tmp_path, similar_to=tmp_path / "0.txt")
    assert not found.clustering.stands_out
    assert found.similar == ()
    assert all(one.count == 1 and one.score < 0.5 for one in found.phrases)
    assert found.phrases[0].text in UNRELATED[0]  # in their order, not by the alphabet
    page = html(found)
    assert "None stand out" in page
    assert "Each stands there once" in page


def test_the_phrases_of_a_folder_are_counted_and_ranked(tmp_path: Path) -> None:
    again = "The harbour wall leaks. Men mend the harbour wall. Storms break the harbour wall. "
    for number, text in enumerate((*UNRELATED, again, again + "Nobody pays for it.")):
        (tmp_path / f"{number}.txt").write_text(text)
    first, second, *_ = told(tmp_path).phrases
    assert (first.text, first.count, first.score) == ("harbour wall", 6, 1.0)
    assert second.score < 0.7
