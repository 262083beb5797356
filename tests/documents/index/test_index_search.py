"""What is found and where it stands, what filters let through, what no question can break."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.documents.index.search import MIN_SIMILARITY, Filters, Mode, Searcher, fuse
from anyrig.documents.index.vectors import find_nearest, get_vector_file
from anyrig.documents.protocol import Vectors
from anyrig.errors import InvalidInputError
from tests.documents.index.bag import Bag
from tests.documents.index.folder import ALICE, contents, index, write
from tests.documents.index.labelled import load, reciprocal

BAG = Bag()
MODES: tuple[Mode, ...] = get_args(Mode)
DOCS = {
    "lease.pdf": "The tenant pays the rent on the first day.\f"
    "The deposit is returned after a month.",
    "sub/pets.txt": "Dogs and cats are welcome in the garden flat.",
    "sub/deep/train.eml": "The night train to Venice leaves at ten. "
    "Bicycles travel for twelve euros.",
    "es.txt": "La fianza se devuelve al inquilino después de un mes. El contrato está aquí.",
    "ja.txt": "東京は日本の首都です。京都は古い都です。",
    "alice.txt": ALICE[:8000],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("search")
    write(made / "docs", DOCS)
    os.utime(made / "docs" / "lease.pdf", (1_600_000_000, 1_600_000_000))
    index(made / "i.sqlite", made / "docs", BAG)
    return made / "i.sqlite"


@pytest.fixture(scope="module")
def searcher(path: Path) -> Searcher:
    return Searcher(path)


def names(searcher: Searcher, question: str, **more: object) -> list[str]:
    found = searcher.search(question, BAG, **more)  # type: ignore[arg-type]
    return [hit.place.file.name for hit in found.hits]


@pytest.mark.parametrize("mode", MODES)
def test_the_passage_is_found_with_its_place(searcher: Searcher, mode: Mode) -> None:
    answer = searcher.search("the deposit is returned", BAG, mode=mode)
    hit = answer.hits[0]
    assert (hit.place.file.name, hit.place.page, hit.place.format) == ("lease.pdf", 2, "pdf")
    page = DOCS["lease.pdf"].split("\f")[1]
    assert page[hit.place.start : hit.place.start + len(hit.text)] == hit.text
    assert [hit.text[a:b] for a, b in hit.matches] == ["deposit", "returned"]
    assert 0 < hit.score <= 1
    assert (hit.similarity is None) == (mode == "keywords")
    scores = [one.score for one in answer.hits]
    assert scores == sorted(scores, reverse=True)


def test_accents_case_and_scripts_without_spaces(searcher: Searcher) -> None:
    assert names(searcher, "DESPUES esta aqui", mode="keywords") == ["es.txt"]
    assert names(searcher, "Después", mode="keywords") == ["es.txt"]
    assert names(searcher, "首都", mode="keywords") == ["ja.txt"]
    assert names(searcher, "都首", mode="keywords") == [], "in their order"
    hit = searcher.search("京都", BAG, mode="keywords").hits[0]
    assert [hit.text[a:b] for a, b in hit.matches] == ["京都"]


def test_filters(searcher: Searcher, path: Path) -> None:
    docs = os.fsencode((path.parent / "docs").resolve())
    ask = "the tenant, the train, the dogs, la fianza"
    for mode in MODES:
        every = set(names(searcher, ask, mode=mode, limit=50))
        assert every >= {"lease.pdf", "pets.txt", "train.eml", "es.txt"}
        cases = {
            Filters(folders=(docs + b"/sub",)): {"pets.txt", "train.eml"},
            Filters(folders=(docs + b"/sub/deep/train.eml",)): {"train.eml"},
            Filters(folders=(docs + b"/su",)): set(),
            Filters(types=("pdf", "eml")): {"lease.pdf", "train.eml"},
            Filters(before=1_600_000_001.0): {"lease.pdf"},
            Filters(languages=("es",)): {"es.txt"},
            Filters(types=("pdf",), languages=("es",)): set(),
        }
        for filters, wanted in cases.items():
            found = set(names(searcher, ask, mode=mode, filters=filters, limit=50))
            assert found == wanted, (mode, filters)
        later = names(searcher, ask, mode=mode, filters=Filters(after=1_600_000_001.0), limit=50)
        assert set(later) == every - {"lease.pdf"}


def test_what_says_the_same_is_shown_once(tmp_path: Path) -> None:
    text = (
        "The quick brown fox jumps over the lazy dog near an old mill by the quiet river, where "
        "two boys with nets stand all morning long and catch small silver fish for their supper."
    )
    files = {
        "a.txt": text, "b.txt": text, "c.txt": text.replace("old", "ancient"), "d.txt": "A fox.",
        "e.txt": text.replace("brown", "red"),
    }  # fmt: skip
    write(tmp_path / "docs", files)
    index(tmp_path / "i.sqlite", tmp_path / "docs", BAG)
    with Searcher(tmp_path / "i.sqlite") as searcher:
        answer = searcher.search("quick brown fox", BAG)
    assert sorted(hit.place.file.name for hit in answer.hits) == ["a.txt", "d.txt", "e.txt"]
    assert [place.file.name for place in answer.hits[0].places] == ["a.txt", "b.txt", "c.txt"]


HOSTILE = [
    "", " ", "AND (", '"unclosed', "*", "NEAR(a b, 2)", "body:secret", "-x", "{a b}: c",
    "x" * 10_240, "word " * 2048, "a\x00b", "\ud800", "'; DROP TABLE texts; --", "日本" * 3000,
    "\u202e\u200b", "🇫🇷rent", "a" + "\u0301" * 3000,
]  # fmt: skip


def test_no_question_is_an_error(searcher: Searcher, subtests: pytest.Subtests) -> None:
    for question in HOSTILE:
        with subtests.test(question=question):
            for mode in MODES:
                answer = searcher.search(question, BAG, mode=mode)
                assert len(answer.hits) <= 10


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_no_text_is_an_error(path: Path, question: str) -> None:
    with Searcher(path) as searcher:
        for hit in searcher.search(question, BAG, mode="keywords").hits:
            assert all(0 <= start < end <= len(hit.text) for start, end in hit.matches)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 12,200 passages, most of which say the same two words."""
    made = tmp_path_factory.mktemp("many")
    pages = {
        "a.txt": [f"The harbour dues of year {n} were paid late by ships." for n in range(8_100)],
        "b.txt": [f"Quay {n}." for n in range(4_100)],
        "c.txt": [f"Sluice {n}." for n in range(150)],
    }
    write(made / "docs", {name: "\f".join(each) for name, each in pages.items()})
    index(made / "i.sqlite", made / "docs", BAG)
    newest = {
        "newest.txt": "Harbour dues, harbour dues, harbour dues: harbour dues and nothing else.",
        "dredger.txt": "A dredger, once.",
        "both.txt": "Sluice, quay.",
    }
    write(made / "docs", newest)
    index(made / "i.sqlite", made / "docs", BAG)
    return made / "i.sqlite"


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("harbour dues quagga", "newest.txt"),  # a word that stands nowhere
        ("quay harbour dredger", "dredger.txt"),
        ("quay sluice", "both.txt"),
    ],
)
def test_the_best_passage_is_found_among_thousands_that_match(
    many: Path, question: str, file: str
) -> None:
    with Searcher(many) as searcher:
        assert names(searcher, question, mode="keywords")[0] == file


def test_a_rare_word_does_not_hide_what_has_only_the_common_ones(many: Path) -> None:
    with Searcher(many) as searcher:
        found = names(searcher, "dredger harbour", mode="keywords", limit=20)
        # Common words that never stand together are each found.
        apart = names(searcher, "quay harbour", mode="keywords", limit=4_200, per_file=True)
    assert found[0] == "dredger.txt"
    assert "newest.txt" in found
    assert {"b.txt", "newest.txt"} <= set(apart)


def test_a_filter_does_not_lose_what_the_common_words_find(many: Path) -> None:
    with Searcher(many) as searcher:
        only = Filters(folders=(os.fsencode(many.parent / "docs" / "newest.txt"),))
        assert names(searcher, "dredger harbour", mode="keywords", filters=only) == ["newest.txt"]


def test_a_searcher_sees_what_is_indexed_meanwhile(tmp_path: Path) -> None:
    docs, path = tmp_path / "docs", tmp_path / "i.sqlite"
    write(docs, {f"{n}.txt": f"Text {n} on the matter of {n * n}." for n in range(9)})
    index(path, docs, BAG)
    with Searcher(path) as searcher:
        assert names(searcher, "quagga", mode="keywords") == []
        first = searcher.refresh()
        assert searcher.refresh() is first, "nothing is read again"
        write(docs, {"new.txt": "A quagga stands in the rain."})
        index(path, docs, BAG)
        assert names(searcher, "quagga in the rain")[0] == "new.txt"
        second = searcher.refresh()
        assert second.num_passages == first.num_passages + 1
        (docs / "1.txt").rename(docs / "moved.txt")
        index(path, docs, BAG)
        third = searcher.refresh()
        assert third.changed != second.changed
        assert third.contents is second.contents, "only what is new is read"
        assert third.matrix is second.matrix
        (docs / "3.txt").unlink()
        index(path, docs, BAG)
        assert "3.txt" not in names(searcher, "matter of 9", limit=50)


def test_threads_ask_while_it_is_indexed(tmp_path: Path) -> None:
    docs, path = tmp_path / "docs", tmp_path / "i.sqlite"
    write(docs, {"0.txt": "Every text says zebra. Number 0."})
    index(path, docs, BAG)
    failures: list[BaseException] = []
    over = threading.Event()

    def ask(searcher: Searcher) -> None:
        most = 0
        try:
            while not over.is_set():
                count = len(searcher.search("zebra", BAG, limit=50).hits)
                assert count >= most, "what was there stays there"
                most = count
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    with Searcher(path) as searcher:
        threads = [threading.Thread(target=ask, args=(searcher,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(1, 9):
            text = (
                f"Every text says zebra. Number {number}, and {'word ' * number} besides {number}."
            )
            write(docs, {f"{number}.txt": text})
            index(path, docs, BAG)
        over.set()
        for thread in threads:
            thread.join(20)
        assert not failures
        assert len(searcher.search("zebra", BAG, limit=50).hits) >= 5


def test_an_index_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there is no index"):
        Searcher(tmp_path / "none.sqlite")


def test_both_lists_together_beat_each_alone(tmp_path: Path) -> None:
    from anyrig import Rig
    from anyrig.app.embedding import EmbeddingOptions, find_model, open_embedder

    passages, questions = load()
    write(tmp_path / "docs", {f"{name}.txt": text for name, text in passages.items()})
    rig, options, ignore = Rig(), EmbeddingOptions(device="cpu", model="minilm"), lambda event: None
    model = find_model(rig, options, {}, ignore)
    with (
        open_embedder(rig, options, model, ignore, num_characters=1000) as vectors,
        index_of(tmp_path, vectors) as searcher,
    ):
        found = {
            mode: reciprocal(
                lambda ask, mode=mode: [  # type: ignore[misc]
                    hit.place.file.stem
                    for hit in searcher.search(ask, vectors, mode=mode, limit=20).hits
                ],
                questions,
            )
            for mode in MODES
        }
        near = {
            one: searcher.search(
                one.ask, vectors, limit=10, min_similarity=MIN_SIMILARITY["minilm"]
            )
            for one in questions
        }
        odd = [
            searcher.search(ask, vectors, min_similarity=MIN_SIMILARITY["minilm"])
            for ask in ("qwxzv blorptag", "the moons of Jupiter", "how to knit a scarf")
        ]
    assert found["hybrid"] > max(found["vectors"], found["keywords"]) + 0.05
    assert found["hybrid"] > 0.93
    # What is left out as not near is hardly ever the answer, and most of the rest.
    kept = [one.answer in [hit.place.file.stem for hit in near[one].hits] for one in questions]
    assert sum(kept) >= len(kept) - 3
    assert sum(len(answer.hits) for answer in near.values()) < 5 * len(near)
    for answer in odd:
        assert not answer.hits
        assert answer.nearest is not None
        assert answer.num_far > 50


@pytest.mark.parametrize("scale", [1.0, 0.1], ids=["far apart", "close together"])
def test_vectors_and_words_are_weighed_whatever_the_model(scale: float) -> None:
    """Cosines of some models lie between 0.8 and 0.9, of others between 0.1 and 0.7."""
    similar = {number: 0.8 - scale * 0.007 * number for number in range(1, 101)}

    def first(by_words: dict[int, float], by_names: dict[int, float]) -> int:
        return fuse(similar, by_words, by_names)[0][0]

    assert first({}, {}) == 1
    assert first({90: 1.0}, {}) == 90, "a code that only one passage has"
    assert first({90: 1 / 7}, {}) == 1, "one common word of seven"
    assert first({20: 0.7, 1: 0.2}, {}) == 20
    assert first({}, {90: 1.0}) == 90, "the name of its file"
    assert fuse(similar, {1: 1.0}, {})[0] == (1, 1.0)


def test_words_decide_between_passages_that_are_as_near() -> None:
    assert [passage for passage, _ in fuse({1: 0.50, 2: 0.49}, {2: 0.8, 1: 0.3}, {})] == [2, 1]
    assert [passage for passage, _ in fuse({1: 0.60, 2: 0.20}, {2: 0.5, 1: 0.3}, {})] == [1, 2]


def index_of(folder: Path, vectors: Vectors) -> Searcher:
    index(folder / "i.sqlite", folder / "docs", vectors)
    return Searcher(folder / "i.sqlite")


def unit(count: int, dimension: int = 32, seed: int = 0) -> Any:
    dice = np.random.default_rng(seed)
    # In clouds, as vectors of texts are: points drawn evenly are all alike far from each other.
    centres = dice.normal(size=(40, dimension))
    made = centres[dice.integers(0, 40, count)] + 0.5 * dice.normal(size=(count, dimension))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def slowly(matrix: Any, query: Any, most: int, allowed: Any = None) -> list[int]:
    scored = [
        (-float(np.dot(row.astype(np.float64), query.astype(np.float64))), number)
        for number, row in enumerate(matrix)
        if allowed is None or allowed[number]
    ]
    return [number for _, number in sorted(scored)[:most]]


@pytest.mark.parametrize("share", [None, 0.5, 0.001, 0.0])
def test_the_nearest_are_what_a_plain_loop_finds(share: float | None) -> None:
    matrix = unit(2000)
    allowed = None if share is None else np.random.default_rng(1).random(2000) < share
    for query in unit(10, seed=5):
        rows, scores = find_nearest(matrix, query, 10, allowed)
        assert rows.tolist() == slowly(matrix, query, 10, allowed)
        assert (np.diff(scores) <= 0).all()


def test_an_open_searcher_reads_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs, path = tmp_path / "docs", tmp_path / "i.sqlite"
    write(docs, {f"{n}.txt": f"Text {n} on the matter of {n * n}." for n in range(9)})
    index(path, docs, BAG)
    statements: list[str] = []
    connect = sqlite3.connect

    def trace(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(statements.append)
        return connection

    with Searcher(path) as searcher:
        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", trace)
            searcher.refresh()
        statements.clear()
        write(docs, {"new.txt": "A quagga stands in the rain."})
        index(path, docs, BAG)
        assert names(searcher, "quagga in the rain")[0] == "new.txt"
        read = [one for one in statements if "FROM passages WHERE content >" in one]
        assert len(read) == 1
        assert "> 9" in read[0]
        assert not any("FROM vectors" in one for one in statements), "the file is mapped"


def test_a_file_of_vectors_that_is_not_complete_is_not_trusted(tmp_path: Path) -> None:
    docs, path = tmp_path / "docs", tmp_path / "i.sqlite"
    write(docs, {f"{n}.txt": f"Text {n} on the matter of {n * n}." for n in range(9)})
    index(path, docs, BAG)
    whole = get_vector_file(path).read_bytes()
    for broken in (b"", whole[:5000], whole.replace(b"true", b"false", 1)[:-4096], b"x" * 9000):
        get_vector_file(path).write_bytes(broken)
        with Searcher(path) as searcher:
            if not broken.startswith(whole[:4000]):
                assert names(searcher, "matter of 49", mode="vectors", limit=1) == ["7.txt"]
    write(docs, {"new.txt": "A quagga stands in the rain."})
    index(path, docs, BAG)
    assert contents(path)["vectors"] == 10


def test_a_misspelt_word_is_named_with_the_one_that_is_meant(searcher: Searcher) -> None:
    found = searcher.search("bicylces to Venice", BAG)
    assert found.notes == ("'bicylces' is in no indexed file; did you mean 'bicycles'?",)
    assert searcher.search("bicycles to Venice", BAG).notes == ()
    assert searcher.search("zzyzx xylophones", BAG).notes == ()


@pytest.mark.parametrize("question", ["path:Nowhere dogs", "type:foo dogs"])
def test_filters_that_let_no_file_through_are_named(searcher: Searcher, question: str) -> None:
    found = searcher.search(question, BAG)
    assert not found.hits
    assert found.notes == (f"no indexed file matches the filters: {question.split()[0]}",)
