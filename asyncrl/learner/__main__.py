"""``python -m asyncrl.learner``: train, with local or remote actors."""

import sys

from asyncrl.cli.learner import main

if __name__ == "__main__":
    sys.exit(main())
