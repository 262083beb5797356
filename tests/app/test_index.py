"""Indexing and searching folders from Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyrig import Rig
from anyrig.app.embedding import EmbedRequest, build_workload, embed
from anyrig.app.index import (
    IndexProgressEvent,
    IndexRequest,
    IndexStartedEvent,
    drop,
    get_status,
    include,
    list_indexes,
    remove,
)
from anyrig.documents.model import find
from anyrig.errors import InvalidInputError, InvalidOptionError
from anyrig.events import Event, ProgressEvent
from tests.documents.engines import toy


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "lease, signed.txt").write_text("The rent is due on the first of the month.\n")
    (folder / "pets.md").write_text("# House rules\n\nDogs are welcome, parrots are not.\n")
    return folder


def test_a_folder_is_indexed_and_searched(docs: Path) -> None:
    events: list[Event] = []
    rig = Rig()
    result = rig.index(docs, model="hashing", ocr="never", on_event=events.append)
    assert (result.index, result.model, result.changes.num_new) == ("default", "hashing", 2)
    started = next(one for one in events if isinstance(one, IndexStartedEvent))
    assert (started.model, started.folders) == ("hashing", (docs,))
    assert any(isinstance(one, IndexProgressEvent) for one in events)
    (hit,) = rig.search("parrots", mode="keywords").hits
    assert hit.place.file == docs / "pets.md"
    first = rig.search("rent due", limit=1).hits[0]
    assert first.place.file.name == "lease, signed.txt"
    assert rig.index(ocr="never").changes.num_same == 2


def test_the_model_of_the_index_goes_before_that_of_the_settings(docs: Path) -> None:
    Rig().index(docs, model="hashing")
    Path("anyrig.toml").write_text('[documents]\nmodel = "minilm"\n')
    rig = Rig()
    assert rig.index().model == "hashing"
    assert rig.search("rent").hits
    with pytest.raises(InvalidInputError, match="was made with the model hashing"):
        rig.search("rent", model="minilm")


def test_a_model_in_a_folder_is_found_again_from_anywhere(
    docs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The name of the folder was stored by the second run, which only finds it beside itself."""
    pytest.importorskip("transformers")
    toy.sentence_transformer(Path("mine"))
    rig = Rig()
    rig.index(docs, model="mine", ocr="never")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert rig.index(ocr="never").model == "mine"
    assert rig.search("rent", mode="vectors", all=True).hits


def test_files_are_removed_included_and_indexes_listed_and_dropped(docs: Path) -> None:
    rig = Rig()
    rig.index(docs, model="hashing", index="mine")
    events: list[Event] = []
    ignore = events.append
    request = rig.request(IndexRequest, index="mine", folders=docs / "pets.md")
    removed = remove(rig, request, ignore)
    assert (len(removed.files), removed.num_cached) == (1, 0)
    assert not rig.search("parrots", index="mine", mode="keywords").hits
    assert include(rig, request, ignore).changes.num_new == 1
    with pytest.raises(InvalidInputError, match="was not removed from the index"):
        include(rig, request, ignore)
    assert [one.name for one in list_indexes(rig)[0]] == ["mine"]
    assert get_status(rig, "mine").num_files == 2
    drop(rig, "mine")
    assert list_indexes(rig) == ([], [])
    with pytest.raises(InvalidInputError, match="there is no index 'mine'"):
        get_status(rig, "mine")


def test_wrong_options_are_refused(docs: Path) -> None:
    rig = Rig()
    with pytest.raises(InvalidOptionError, match="`limit` must be a whole number between 1"):
        rig.search("rent", limit=0)
    with pytest.raises(InvalidInputError, match="nothing to search for"):
        rig.search(" ")
    with pytest.raises(InvalidInputError, match="no folder was given"):
        rig.index()
    with pytest.raises(InvalidInputError, match="cannot be the name of an index"):
        rig.index(docs, index="../x")
    with pytest.raises(InvalidInputError, match="no such file or folder"):
        rig.index(docs / "nothing")


def test_texts_become_rows_of_one_matrix() -> None:
    events: list[Event] = []
    vectors = Rig().embed(["a red car", "boiled potatoes"], model="hashing", on_event=events.append)
    assert vectors.shape == (2, 256)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert events[-1] == ProgressEvent("embedding", 2, 2, "boiled potatoes")


def test_a_text_that_is_the_name_of_a_file_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("something else")
    rig = Rig()
    by_name = rig.embed([str(tmp_path / "a.txt")], model="hashing")
    by_file = rig.embed_files([tmp_path / "a.txt"], model="hashing").vectors
    assert not np.allclose(by_name, by_file)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"texts": []}, "nothing to embed"),
        ({"texts": ["alone"], "similar": True}, "only one text"),
        ({"texts": ["a"], "names": ["a", "b"]}, "2 names for 1 texts"),
    ],
)
def test_what_cannot_be_done(options: dict[str, object], error: str) -> None:
    rig = Rig()
    with pytest.raises(InvalidInputError, match=error):
        embed(rig, rig.request(EmbedRequest, **options), lambda event: None)


def test_a_cpu_with_bf16_tiles_is_used_like_a_gpu_if_the_model_stays_loaded() -> None:
    rig = Rig()
    model = find("minilm", models=rig.folders.models)
    cpu = replace(rig.machine.cpu, vectors=("avx512f", "amx_bf16"))
    served = build_workload(model, cpu, num_characters=None, shared=True)
    assert served.libraries == served.gpu_libraries
    for other, shared in ((cpu, False), (replace(cpu, vectors=("avx512_bf16",)), True)):
        once = build_workload(model, other, num_characters=None, shared=shared)
        assert once.libraries == model.need().libraries


def test_names_of_indexes_are_equal_in_any_case(docs: Path) -> None:
    rig = Rig()
    rig.index(docs, model="hashing", ocr="never", index="Letters")
    assert rig.index(index="letters", ocr="never").changes.num_same == 2
    assert rig.search("rent", index="LETTERS", mode="keywords").hits
    assert [one.name for one in list_indexes(rig)[0]] == ["Letters"]
    # Two that 0.1.0 made on a file system that tells them apart stay two.
    folder = rig.folders.indexes
    (folder / "letters.sqlite").write_bytes((folder / "Letters.sqlite").read_bytes())
    drop(rig, "letters")
    assert [one.name for one in list_indexes(rig)[0]] == ["Letters"]
    drop(rig, "LETTERS")
    assert list_indexes(rig) == ([], [])
