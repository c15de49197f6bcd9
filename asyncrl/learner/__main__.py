"""``python -m asyncrl.learner``: train, with local or remote actors."""

import sys

if __name__ == "__main__":
    try:
        from asyncrl.cli.learner import main
    except KeyboardInterrupt:  # while the imports were still running
        sys.exit(130)
    sys.exit(main())
