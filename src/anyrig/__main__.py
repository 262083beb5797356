"""`python -m anyrig` is the command line."""

import sys

from anyrig.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
