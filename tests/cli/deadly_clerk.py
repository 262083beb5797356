"""A clerk with a task that kills its process, for tests of what that does to others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyrig.cli import clerk
from anyrig.errors import AnyrigError
from anyrig.work.carried import told


class DeadlyClerk(clerk.Clerk):
    """A plain clerk, and a poisoned task."""

    def _one(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        if payload["task"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if payload["task"] == "nap":
            time.sleep(payload["arguments"]["seconds"])
            return {"result": "awake"}
        if payload["task"] == "dream":
            return self._dreamt(payload)
        if payload["task"] == "slip":
            return super()._one({"task": "search", "arguments": {"a secret": "text"}})
        return super()._one(payload)

    def _dreamt(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """A long task in many steps: until nobody waits for it, or ten minutes."""
        self.room.leash = payload["leash"]
        Path(payload["arguments"]["begun"]).touch()
        for _ in range(30_000):
            try:
                self.room.check()
            except AnyrigError as error:
                Path(payload["arguments"]["ended"]).write_text(error.message)
                return {"error": told(error)}
            time.sleep(0.02)
        return {"result": "awake"}
