#!/usr/bin/env bash
# Run the whole suite. Without a browser its tests are skipped, and the last line says so.
set -uo pipefail
cd "$(dirname "$0")/.."

PLAYGROUND_CHROMIUM=$(scripts/browser.sh)
export PLAYGROUND_CHROMIUM
"${VENV:-.venv}/bin/python" -m pytest -q "$@" </dev/null
status=$?
if [[ -z $PLAYGROUND_CHROMIUM ]]; then
    echo "no Chromium could be had: the browser tests were skipped"
fi
exit "$status"
