"""A process that embeds into a store until it is killed, run by test_vector_cache.py."""

from __future__ import annotations

import sys

from anyrig.documents.vector_cache import CachedEmbedder, VectorCache
from anyrig.storage.cache import ResultCache
from tests.documents.counting import MODEL, Counting


def main() -> None:
    with ResultCache(sys.argv[1]) as store:
        engine = Counting(batch=10, each_s=0.0005)
        kept = CachedEmbedder(engine, VectorCache(store, MODEL))
        done = 0
        for block in kept.embed(f"{number}" for number in range(100_000)):
            done += len(block)
            print(done, flush=True)


if __name__ == "__main__":
    main()
