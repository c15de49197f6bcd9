"""``python -m asyncrl.broker``: run the bundled server."""

import sys

if __name__ == "__main__":
    try:
        from asyncrl.cli.server import main
    except KeyboardInterrupt:  # while the imports were still running
        sys.exit(130)
    sys.exit(main())
