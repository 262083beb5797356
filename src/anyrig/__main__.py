"""`python -m anyrig` is the command line."""

import sys

if not sys.flags.safe_path:
    # Python put the working directory there: its modules must not shadow installed ones.
    del sys.path[0]

from anyrig.cli.main import main  # noqa: E402 - not before

if __name__ == "__main__":
    sys.exit(main())
