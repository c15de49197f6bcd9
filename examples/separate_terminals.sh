#!/usr/bin/env bash
# A server, a learner and two actors, each a process of its own, as in four terminals.
#
# Run it:  bash examples/separate_terminals.sh            (any Redis server: set REDIS_URL)
set -euo pipefail
PYTHON=${PYTHON:-python}
RUN=${RUN:-terminals-$$}

if [[ -z "${REDIS_URL:-}" ]]; then
  # Terminal 1: a server. It prints its URL on the first line.
  URL_FILE=$(mktemp)
  "$PYTHON" -m asyncrl.broker --url-file "$URL_FILE" &
  trap 'kill %1 2>/dev/null; wait; rm -f "$URL_FILE"' EXIT
  until [[ -s "$URL_FILE" ]]; do sleep 0.1; done
  REDIS_URL=$(<"$URL_FILE")
fi
export ASYNCRL_REDIS_URL="$REDIS_URL"

# Terminals 2 and 3: actors. They may start before the learner, after it, or from other machines.
"$PYTHON" -m asyncrl.actor --run "$RUN" &
"$PYTHON" -m asyncrl.actor --run "$RUN" &

# Terminal 4: the learner, without local actors.
"$PYTHON" -m asyncrl.learner --actors 0 --run "$RUN" "$@"
