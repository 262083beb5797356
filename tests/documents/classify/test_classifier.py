"""Classifiers that are kept: versions, damage, two processes at once, the same bytes."""

from __future__ import annotations

import functools
import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyrig.documents.classify import classifier
from anyrig.documents.classify.classifier import TrainedHead
from anyrig.documents.classify.train import train
from anyrig.documents.model import find
from anyrig.errors import InvalidInputError, StorageError


@pytest.fixture
def spot(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@functools.cache
def _head(seed: int = 0) -> TrainedHead:
    dice = np.random.default_rng(seed)
    rows = dice.normal(size=(12, 16)) + np.repeat(np.eye(2, 16) * 6, 6, axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    model = replace(find("hashing", models=Path()), dimension=16)
    return train(rows, [("a",)] * 6 + [("b",)] * 6, "one", model)


def test_versions(spot: Path) -> None:
    first, new = classifier.save_classifier(spot, "bills", _head(0))
    assert (first.title, new) == ("bills@1", True)
    assert classifier.save_classifier(spot, "bills", _head(0)) == (first, False)  # the same again
    assert classifier.save_classifier(spot, "bills", _head(1))[0].title == "bills@2"
    assert classifier.open_classifier(spot, "bills").about.title == "bills@2"
    assert classifier.open_classifier(spot, "bills@1").about == first
    assert [about.title for about in classifier.list_classifiers(spot)] == ["bills@1", "bills@2"]
    assert [about.title for about in classifier.delete_versions(spot, "bills@2")] == ["bills@2"]
    assert (
        classifier.save_classifier(spot, "bills", _head(2))[0].title == "bills@3"
    )  # no number twice
    assert len(classifier.delete_versions(spot, "bills")) == 2
    assert classifier.list_classifiers(spot) == []
    assert classifier.save_classifier(spot, "bills", _head(2))[0].title == "bills@4"


def test_the_same_examples_give_the_same_files(spot: Path) -> None:
    for name in ("one", "two"):
        _head.cache_clear()
        classifier.save_classifier(spot, name, _head())
    first, second = (spot / name / "1" for name in ("one", "two"))
    assert (first / "head.npz").read_bytes() == (second / "head.npz").read_bytes()
    told = [json.loads((place / "about.json").read_text()) for place in (first, second)]
    assert {k for k in told[0] if told[0][k] != told[1][k]} <= {"name", "made"}


def test_damage_is_told_of(spot: Path) -> None:
    classifier.save_classifier(spot, "bills", _head())
    file = spot / "bills" / "1" / "head.npz"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(StorageError, match="bills@1 is damaged"):
        classifier.open_classifier(spot, "bills")
    (spot / "bills" / "1" / "about.json").write_text("{")
    with pytest.raises(StorageError, match="bills@1 is damaged"):
        classifier.open_classifier(spot, "bills")
    assert classifier.list_classifiers(spot) == []
    assert classifier.save_classifier(spot, "bills", _head(1))[0].title == "bills@2"
    assert len(classifier.delete_versions(spot, "bills@1")) == 1


def test_a_pickle_is_not_opened(spot: Path) -> None:
    classifier.save_classifier(spot, "bills", _head())
    file = spot / "bills" / "1" / "head.npz"
    with file.open("wb") as out:
        np.savez(out, weights=np.array([{"a": 1}], dtype=object))
    with pytest.raises(StorageError):
        classifier.open_classifier(spot, "bills")


def test_what_is_half_written_is_not_seen(spot: Path) -> None:
    classifier.save_classifier(spot, "bills", _head())
    (spot / "bills" / ".2.abcdef").mkdir()
    (spot / "bills" / "2").mkdir()  # a folder without its files
    assert classifier.list_versions(spot, "bills") == [1]
    assert classifier.open_classifier(spot, "bills").about.version == 1
    assert classifier.save_classifier(spot, "bills", _head(1))[0].title == "bills@3"


def _keeps(folder: Path, seeds: list[int]) -> None:
    for seed in seeds:
        head = _head()
        classifier.save_classifier(
            folder, "bills", replace(head, about=replace(head.about, digest=str(seed)))
        )


def test_two_processes_keep_at_once(spot: Path) -> None:
    context = multiprocessing.get_context("spawn")
    runs = [
        context.Process(target=_keeps, args=(spot, list(range(start, start + 6))))
        for start in (0, 100)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
        assert run.exitcode == 0
    assert classifier.list_versions(spot, "bills") == list(range(1, 13))
    assert len({about.digest for about in classifier.list_classifiers(spot)}) == 12


@pytest.mark.parametrize("name", ["", "../up", "a@b", ".hidden", "a\\b"])
def test_names_that_are_none(spot: Path, name: str) -> None:
    with pytest.raises(InvalidInputError):
        classifier.save_classifier(spot, name, _head())
    assert list(spot.iterdir()) == []


@pytest.mark.parametrize("title", ["bills@x", "bills@²", "bills@7", "other"])
def test_versions_that_are_not_there(spot: Path, title: str) -> None:
    classifier.save_classifier(spot, "bills", _head())
    with pytest.raises(InvalidInputError):
        classifier.open_classifier(spot, title)
    with pytest.raises(InvalidInputError):
        classifier.delete_versions(spot, title)
    assert classifier.list_versions(spot, "bills") == [1]
