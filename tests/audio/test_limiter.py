"""The limiter computes in its own thread: what other threads do beside it is of no use."""

from __future__ import annotations

import time

import numpy as np

from anyrig.audio.limiter import Limiter

RATE = 24000


def test_no_other_thread_computes() -> None:
    loud = np.random.default_rng(7).standard_normal(20 * RATE).astype(np.float32) / 4
    limiter = Limiter(RATE, -4.0)
    limiter.apply(loud[:RATE])
    own, everything = time.thread_time(), time.process_time()
    for start in range(0, len(loud), RATE):
        limiter.apply(loud[start : start + RATE])
    own, everything = time.thread_time() - own, time.process_time() - everything
    assert everything < 1.5 * own + 0.01
