"""Checks of results that other machines computed, by the machine that asked for them.

Every result must be valid, and is examined as its worker did it. Where an engine always gives the
same result, some items are also computed here, the first of each worker among them: a worker whose
results differ is set aside, and of one whose results were equal fewer are examined.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from anyrig.errors import AnyrigError

if TYPE_CHECKING:
    from anyrig.cluster.protocol import Codec
    from anyrig.work.pool import WorkerPool

log = logging.getLogger(__name__)
_EARLY_ONE_OF, _LATER_ONE_OF = 2, 256
"""One item of so many is also computed here, and later one of so many..."""
_MIN_EQUAL = 4
"""...once a worker had so many equal results: comparing costs CPU time here."""
_EXAMINE_ONE_OF = 8
"""Then one result of so many is examined: all of them take 3 % of the time of the default voice."""
_MAX_COMPARED = 2
"""Items of one task, at most."""


class ResultChecker:
    """Compares results with this machine's own.

    Args:
        open_local: starts the engine on this machine, to compare; None if its results may differ.
        hold: whether results wait until they were compared; not if somebody is listening.
    """

    def __init__(
        self,
        codec: Codec,
        open_local: Callable[[], WorkerPool] | None = None,
        *,
        hold: bool = True,
    ) -> None:
        self._codec, self._open_local, self.hold = codec, open_local, hold
        self._pool: WorkerPool | None = None
        self._num_equal: Counter[str] = Counter()
        """Results that were equal to ours, by the instance of their worker."""
        self._secret = secrets.token_bytes(32)
        """Which items are compared is known to this process and to no worker."""

    def must_examine(self, payload: Any, instance: str) -> bool:
        """Whether a result is examined here, after its worker did."""
        if self._open_local is None or self._num_equal[instance] < _MIN_EQUAL:
            return True
        return self._draw(payload) % _EXAMINE_ONE_OF == 0

    def find_difference(
        self, payloads: Mapping[int, Any], results: Mapping[int, Any], instance: str, *,
        hurry: bool = False,
    ) -> str:  # fmt: skip
        """How a result differs from what this machine computes; empty if none was found to.

        Args:
            hurry: many results are waiting: only those of new workers are compared.
        """
        num_equal = self._num_equal[instance]
        if self._open_local is None or (hurry and num_equal):
            return ""
        for index in self._choose(payloads, results, num_equal):
            mine = self._compute(payloads[index])
            if mine is None:
                continue
            if found := self._codec.compare(payloads[index], mine, results[index]):
                return found
            self._num_equal[instance] += 1
        return ""

    def _choose(
        self, payloads: Mapping[int, Any], results: Mapping[int, Any], num_equal: int
    ) -> Sequence[int]:
        """By a hash that others do not know: an item that is computed again is drawn alike."""
        one_of = _EARLY_ONE_OF if num_equal < _MIN_EQUAL else _LATER_ONE_OF
        drawn = {index: self._draw(payloads[index]) for index in results}
        ordered = sorted(drawn, key=lambda index: drawn[index])
        chosen = [index for index in ordered if drawn[index] % one_of == 0]
        return (chosen or ([] if num_equal else ordered[:1]))[:_MAX_COMPARED]

    def _draw(self, payload: Any) -> int:
        data = payload if isinstance(payload, bytes) else repr(payload).encode()
        return int.from_bytes(hashlib.blake2b(data, key=self._secret).digest()[:4], "big")

    def _compute(self, payload: Any) -> Any:
        """None if it cannot be computed here: then nothing is known."""
        assert self._open_local is not None
        try:
            if self._pool is None:
                self._pool = self._open_local()
            (outcome,) = self._pool.run([payload], cost=self._codec.cost)
        except AnyrigError as error:
            log.warning("results of workers are not compared with our own: %s", error.message)
            self._open_local = None
            return None
        return outcome.result

    def close(self) -> None:
        if self._pool is not None:
            with suppress(Exception):  # it ends with this process anyway
                self._pool.close()
