"""Checkpoints: all of a run, written whole or not at all, by a thread, and read back exactly.

    from anyrig.training.checkpoint import Checkpoints, Saved

    with Checkpoints(run / "checkpoints") as checkpoints:
        found = checkpoints.load()
        ...
        checkpoints.save(Saved(step, weights=model.state_dict(), ...))

A checkpoint is a folder of safetensors and JSON: nothing in it can run when it is opened.
"""

from __future__ import annotations

from anyrig.training.checkpoint.keeper import Checkpoints
from anyrig.training.checkpoint.read import Found, Kept
from anyrig.training.checkpoint.state import Saved

__all__ = ["Checkpoints", "Found", "Kept", "Saved"]
