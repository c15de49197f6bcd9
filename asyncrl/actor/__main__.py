"""``python -m asyncrl.actor``: work for a run."""

import sys

from asyncrl.cli.actor import main

if __name__ == "__main__":
    sys.exit(main())
