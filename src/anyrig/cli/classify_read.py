"""Files to sort or to learn from, read; a look at the first of them chooses the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import embedding, reading
from anyrig.cli.context import Context
from anyrig.text.pages import Paged

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.reading import Unread
    from anyrig.services.classify import Source

_PEEKED = 20
"""Files that are read before the model is chosen, to see what languages they are in."""


class Peeked:
    """Files to their pages, the first of them read before anybody asks: their language decides
    which model is taken, and how many there are where it runs.
    """

    def __init__(self, context: Context, files: Sequence[Path]) -> None:
        self._context = context
        flow = reading.read(context, files)
        self._first = list(islice(flow, _PEEKED))
        self._all = len(files) <= _PEEKED
        self._flow = chain(self._first, flow)

    def __call__(self, paths: Iterable[Path]) -> Iterator[Paged | Unread]:
        """What is in each file, in the order that they were given in."""
        for _, found in zip(paths, self._flow, strict=False):
            yield found

    def texts(self) -> list[str]:
        """Those that were read already."""
        return [one.text for one in self._first if isinstance(one, Paged)]

    def vectors(self, stack: ExitStack, sources: Sequence[Source]) -> Vectors:
        """Vectors by the model that was asked for, or that suits the texts."""
        texts = self.texts() + [one.text for one in sources if one.file is None]
        size = sum(map(len, texts)) if self._all else None
        return stack.enter_context(
            embedding.vectors(self._context, languages=languages(texts), num_characters=size)
        )


def languages(texts: Sequence[str]) -> dict[str, float]:
    """Shares of the texts' languages, by a look at some of them."""
    from anyrig.text.language import detect

    shares: dict[str, float] = {}
    for text in texts[:: max(1, len(texts) // 50)]:
        found = detect(text)
        if found.sure:
            shares[found.language] = shares.get(found.language, 0.0) + 1.0
    return shares
