"""The limiter: parts of any length, in one thread."""

from __future__ import annotations

import time

import numpy as np
import pytest

from anyrig.audio.limiter import Limiter, db_to_amplitude

RATE = 24000


@pytest.mark.parametrize("length", [0, 1, 5, 23, 24, 25, 36, 37, 4999, 5000, 5003])
def test_a_part_may_end_loud_anywhere_in_a_block(length: int) -> None:
    loud = (np.random.default_rng(7).standard_normal(RATE) / 2).astype(np.float32)
    limiter = Limiter(RATE, -4.0)
    limited = [limiter.apply(loud[n * length :][:length]) for n in range(4)]
    assert [len(part) for part in limited] == [length] * 4
    assert np.abs(np.concatenate(limited)).max(initial=0.0) <= db_to_amplitude(-4.0) + 1e-6


def test_no_other_thread_computes() -> None:
    """The threads of BLAS spin after a product that they shared, on all cores."""
    loud = (np.random.default_rng(7).standard_normal(20 * RATE) / 4).astype(np.float32)
    limiter = Limiter(RATE, -4.0)
    limiter.apply(loud[:RATE])
    own, everything = time.thread_time(), time.process_time()
    for start in range(0, len(loud), RATE):
        limiter.apply(loud[start : start + RATE])
    own, everything = time.thread_time() - own, time.process_time() - everything
    assert everything < 1.5 * own + 0.01
