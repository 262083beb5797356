"""Nothing is left behind: a process that ends when the one that started it is gone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

_LOOK_S = 0.5


def end_with_parent(end: Callable[[], None]) -> None:
    """Call a function from a thread once the parent process is gone, however it went.

    The system gives an orphan another parent, which is seen here. Windows does not.
    """
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        end()

    threading.Thread(target=look, name="parent", daemon=True).start()
