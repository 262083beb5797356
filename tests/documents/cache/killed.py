"""A process that embeds into a store until it is killed, run by test_kept.py."""

from __future__ import annotations

import sys

from anyrig.documents.cache.kept import Kept
from anyrig.documents.cache.shelf import Shelf
from anyrig.storage.cache import ResultCache
from tests.documents.cache.counting import DIMENSION, MARKS, Counting


def main() -> None:
    with ResultCache(sys.argv[1]) as store:
        kept = Kept(Counting(batch=10, each_s=0.0005), Shelf(store, MARKS, DIMENSION))
        for number, _ in enumerate(kept.embed(f"{number}" for number in range(100_000))):
            if number % 100 == 0:
                print(number, flush=True)


if __name__ == "__main__":
    main()
