"""``python -m asyncrl.broker``: run the bundled server."""

import sys

from asyncrl.cli.server import main

if __name__ == "__main__":
    sys.exit(main())
