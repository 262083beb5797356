"""`python -P run_module.py MODULE ARGS`: run a module of this installation as `__main__`.

The package's folder follows the standard library on the import path. On PYTHONPATH it would come
first, and an installed backport of a standard module would shadow that module.
"""

import os
import runpy
import sys


def main() -> None:
    module = sys.argv.pop(1)
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if source not in sys.path:
        standard = os.path.dirname(os.path.abspath(os.__file__))
        parts = [at for at, path in enumerate(sys.path) if _is_standard(path, standard)]
        sys.path.insert(parts[-1] + 1 if parts else len(sys.path), source)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _is_standard(path: str, standard: str) -> bool:
    if os.path.basename(path) in ("site-packages", "dist-packages"):
        return False
    return path == standard or path.startswith(standard + os.sep)


if __name__ == "__main__":
    main()
