#!/usr/bin/env bash
# Run the whole suite: the browser tests beside all others, one core each. Without a browser its
# tests are skipped, and the last line says so. Arguments go to both runs of pytest.
set -uo pipefail
cd "$(dirname "$0")/.."

PLAYGROUND_CHROMIUM=$(scripts/browser.sh)
export PLAYGROUND_CHROMIUM
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
pytest=("${VENV:-.venv}/bin/python" -m pytest -q)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# A busy machine can miss a browser test's time limit: what failed gets one more try, alone.
export PLAYGROUND_BROWSER_TIMEOUT=${PLAYGROUND_BROWSER_TIMEOUT:-60}
in_browser() {
    "${pytest[@]}" -m browser "$@"
    local first=$?
    ((first == 1)) || return "$first"
    echo "once more, those that failed:"
    "${pytest[@]}" -m browser --last-failed --last-failed-no-failures none "$@"
}
in_browser "$@" </dev/null >"$log" 2>&1 &
browser=$!
"${pytest[@]}" -m "not browser" -p no:cacheprovider "$@" </dev/null
status=$?
wait "$browser"
found=$?
echo "browser tests:"
cat "$log"
# 5: none were collected, as when a single file is named.
((status == 5)) && status=0
((found == 5)) && found=0
if [[ -z $PLAYGROUND_CHROMIUM ]]; then
    echo "no Chromium could be had: the browser tests were skipped"
fi
exit $((status ? status : found))
