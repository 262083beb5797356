"""`python -P child_entry.py MODULE ARGS`: run a module of this installation as `__main__`.

The package's folder follows the standard library on the import path, before other packages. On
PYTHONPATH it would come first, and an installed backport of a standard module would shadow that
module. A file of its own because it runs before anyrig can be imported.
"""

import os
import runpy
import sys


def main() -> None:
    module = sys.argv.pop(1)
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
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
