"""Run a module of this installation as `__main__`, in this Python or in another.

    python -P child_entry.py MODULE ARGS
    python -I child_entry.py '{"anyrig": FOLDER, ...}' MODULE ARGS

In this Python the package's folder follows the standard library on the import path, before other
packages. On PYTHONPATH it would come first, and an installed backport of a standard module would
shadow that module. Another Python has packages of its own: it imports those that are named from
their folders, and nothing else that lies there.

A file of its own because it runs before anyrig can be imported.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import sys
from importlib.machinery import ModuleSpec, PathFinder


class PackageFinder:
    """Finds some packages, each in its folder."""

    def __init__(self, folders: dict[str, str]) -> None:
        self._folders = folders

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        folder = self._folders.get(name)
        return None if folder is None else PathFinder.find_spec(name, [folder])


def main() -> None:
    atexit.register(gc.freeze)  # as in commands: a process that ends need not look for garbage
    module = sys.argv.pop(1)
    if module.startswith("{"):
        sys.meta_path.insert(0, PackageFinder(json.loads(module)))
        module = sys.argv.pop(1)
    else:
        _add_own_folder()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _add_own_folder() -> None:
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if source not in sys.path:
        standard = os.path.dirname(os.path.abspath(os.__file__))
        parts = [
            number
            for number, path in enumerate(sys.path)
            if (path + os.sep).startswith(standard + os.sep)
            and os.path.basename(path) not in ("site-packages", "dist-packages")
        ]
        sys.path.insert(parts[-1] + 1 if parts else len(sys.path), source)


if __name__ == "__main__":
    main()
