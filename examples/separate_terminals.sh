#!/usr/bin/env bash
# A server, two actors and a learner, each a process of its own, as in four terminals.
#
# Run it:  bash examples/separate_terminals.sh [options of the learner]
#
# PYTHON is the interpreter, RUN the run's name, ALLOW the module of an environment of your own. With
# ASYNCRL_REDIS_URL set, that server is used.
set -euo pipefail
PYTHON=${PYTHON:-python}
RUN=${RUN:-terminals-$$}
server="" actors="" url_file=""

leave() {
  for pid in $actors $server; do # in this order, so that actors can still say good-bye
    kill "$pid" 2>/dev/null && wait "$pid" || true
  done
  rm -f "$url_file"
}
trap leave EXIT

if [[ -z ${ASYNCRL_REDIS_URL:-} ]]; then
  # Terminal 1: a server. It prints its URL, with a generated password, and writes it to the file.
  url_file=$(mktemp)
  "$PYTHON" -m asyncrl.broker --url-file "$url_file" >/dev/null &
  server=$!
  until [[ -s $url_file ]]; do
    kill -0 $server || exit 1
    sleep 0.1
  done
  ASYNCRL_REDIS_URL=$(<"$url_file")
fi
export ASYNCRL_REDIS_URL # what actors and learner read, so that the password is on no command line

# Terminals 2 and 3: actors. They may start before the learner or after it, and on other machines.
for _ in 1 2; do
  "$PYTHON" -m asyncrl.actor --run "$RUN" ${ALLOW:+--allow "$ALLOW"} &
  actors="$actors $!"
done

# Terminal 4: the learner, without actors of its own.
"$PYTHON" -m asyncrl.learner --actors 0 --run "$RUN" "$@"
wait $actors # the run is complete, so they leave by themselves
