"""``python -m asyncrl.actor``: work for a run."""

import sys

if __name__ == "__main__":
    try:
        from asyncrl.cli.actor import main
    except KeyboardInterrupt:  # while the imports were still running
        sys.exit(130)
    sys.exit(main())
