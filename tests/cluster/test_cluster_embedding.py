"""Vectors over a cluster: the same as one machine's, checked before they are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anyrig.cluster.embedding import EmbeddingCodec, count_rows
from anyrig.documents.bundle import bundles, text_bundles
from anyrig.errors import InvalidInputError
from tests.cluster.conftest import Broker, Spread, Workers, until

CODEC = EmbeddingCodec()


def test_embed_and_index_use_the_workers(
    broker: Broker, workers: Workers, spread: Spread, tmp_path: Path
) -> None:
    workers(1)
    assert "embed:hashing" in {one.engine for one in broker.living()["w1"].engines}
    Path("l.txt").write_text("\n".join(f"The tide of day {n} took the boat." for n in range(300)))
    words = ("embed", "--lines", "l.txt", "--model", "hashing", "--no-cache", "-o")
    for name, cluster in (("cluster.npy", None), ("local.npy", "")):
        done = spread(*words, name, cluster=cluster, home=name)
        assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load("cluster.npy"), np.load("local.npy"))
    until(lambda: broker.living()["w1"].segments_done > 0, 10, what="its work")
    before = broker.living()["w1"].segments_done
    Path("papers").mkdir()
    Path("papers/a.txt").write_text("The tide came in at noon. " * 50)
    indexed = spread("index", "papers", "--model", "hashing", home="indexer")
    assert indexed.returncode == 0, indexed.stderr
    until(lambda: broker.living()["w1"].segments_done > before, 10, what="its work")


def test_a_bundle_whose_lengths_are_wrong_is_refused() -> None:
    (tokens,) = bundles([np.arange(5, dtype=np.int32), np.arange(3, dtype=np.int32)])
    (texts,) = text_bundles(["The tide.", "The rope and the bell."])
    for good in (tokens.data, texts.data):
        assert CODEC.decode_item(CODEC.encode_item(good)) == good
        assert count_rows(good) == 2
        for bad in (b"", good[:4], good[:-4], good + b"\0" * 8, b"\xff" * 8, b"\0" * 8):
            with pytest.raises(ValueError):
                CODEC.decode_item(CODEC.encode_item(bad))


def test_vectors_of_another_size_or_direction_are_not_used() -> None:
    (bundle,) = text_bundles(["The tide.", "The rope and the bell."])
    codec = EmbeddingCodec(dimension=4)
    right = np.array([[1, 0, 0, 0], [0, 1, 0, 0]], np.float32)
    assert codec.examine(bundle.data, right.tobytes(), "w") == right.tobytes()
    for bad in (right[:1], right * np.float32(np.nan)):
        with pytest.raises(InvalidInputError):
            codec.examine(bundle.data, bad.tobytes(), "w")
    near = (right + np.float32(0.01)).tobytes()
    assert codec.compare(bundle.data, right.tobytes(), near) == ""
    assert "cosine" in codec.compare(bundle.data, right.tobytes(), right[::-1].tobytes())
