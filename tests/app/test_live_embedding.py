"""Clients of one embedding model: futures of blocks, limits, cancelling, the cache."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.app.live_embedding import LiveEmbedding
from anyrig.app.rig import Rig
from anyrig.errors import OverloadedError
from tests.waiting import wait_until


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setenv("ANYRIG_SERVER_QUEUE", "3000")
    monkeypatch.setenv("ANYRIG_SERVER_TEXTS", "3000")
    with Rig() as rig:
        yield rig


def _submit(live: LiveEmbedding, texts: list[str], **options: Any) -> Any:
    futures = live.submit(texts, model="hashing", **options)
    return np.concatenate([future.result(60) for future in futures])


@pytest.mark.parametrize("no_cache", [False, True])
def test_many_clients_get_their_own_vectors(rig: Rig, no_cache: bool) -> None:
    live = LiveEmbedding(rig, {"no_cache": no_cache, "device": "cpu"})
    wanted = rig.embed([f"text {n}" for n in range(100)], model="hashing", no_cache=True)

    def ask(client: int) -> None:
        for start in range(0, 80, 8):
            numbers = [(start + client + n) % 100 for n in range(1 + client % 20)]
            found = _submit(live, [f"text {n}" for n in numbers], client=str(client))
            np.testing.assert_allclose(found, wanted[numbers], atol=1e-6)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(ask, range(32)))


def test_what_was_made_is_found_by_the_next(rig: Rig) -> None:
    live = LiveEmbedding(rig, {"device": "cpu"})
    texts = [f"text {n}" for n in range(40)]
    first = _submit(live, texts)

    def is_cached() -> bool:  # without a worker, a future is done at once
        return all(future.done() for future in live.submit(texts, model="hashing"))

    wait_until(is_cached)
    np.testing.assert_array_equal(_submit(live, [*texts[::-1], *texts]), [*first[::-1], *first])
    mixed = _submit(live, ["new", *texts[:3], "new"])
    np.testing.assert_array_equal(mixed[1:4], first[:3])
    np.testing.assert_array_equal(mixed[0], mixed[4])


def test_too_many_texts_are_refused_and_cancelled_ones_make_room(rig: Rig) -> None:
    live = LiveEmbedding(rig, {"no_cache": True, "device": "cpu"})
    _submit(live, ["warm"])
    texts = [f"{n} " + "some words " * 300 for n in range(2900)]
    futures = live.submit(texts, model="hashing", lane="bulk")
    with pytest.raises(OverloadedError, match="the queue is full"):
        live.submit(texts, model="hashing", lane="bulk")
    assert len(_submit(live, ["a person waits"])) == 1  # another lane
    assert not futures[-1].done()
    for future in futures:
        future.cancel()
    assert len(_submit(live, ["after"], lane="bulk")) == 1


def test_a_folder_of_no_model_is_unknown(rig: Rig, tmp_path: Path) -> None:
    from anyrig.errors import ModelNotFoundError

    with pytest.raises(ModelNotFoundError):
        LiveEmbedding(rig).find_model(str(tmp_path))


def test_texts_that_several_clients_ask_for_at_once_are_made_once(rig: Rig) -> None:
    live = LiveEmbedding(rig, {"device": "cpu"})
    texts = [f"{n} " + "some words " * 300 for n in range(400)]
    before = live.submit(texts, model="hashing", lane="bulk")
    with rig.models.borrow("embeddings hashing", _load_again) as embedder:
        futures = [live.submit(["the same"], model="hashing", lane="bulk")[0] for _ in range(3)]
        futures[0].cancel()
        np.testing.assert_array_equal(futures[1].result(300), futures[2].result(300))
        for future in before:
            future.result(300)
        assert embedder.report.num_items == len(before) + 1


def _load_again() -> Any:
    raise AssertionError("the model is loaded already")
