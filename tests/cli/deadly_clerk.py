"""A clerk with a task that kills its process, for tests of what that does to others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from anyrig.cli import clerk


class DeadlyClerk(clerk.Clerk):
    """A plain clerk, and a poisoned task."""

    def _one(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        if payload["task"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if payload["task"] == "nap":
            time.sleep(payload["arguments"]["seconds"])
            return {"result": "awake"}
        if payload["task"] == "slip":
            return super()._one({"task": "search", "arguments": {"a secret": "text"}})
        return super()._one(payload)
