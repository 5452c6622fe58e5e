#!/usr/bin/env bash
# Run the whole suite in two processes, a file of tests at a time.
# Without a browser its tests are skipped, and the last line says so.
# Arguments go to pytest.
set -uo pipefail
cd "$(dirname "$0")/.."

PLAYGROUND_CHROMIUM=$(scripts/browser.sh)
export PLAYGROUND_CHROMIUM
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# A busy machine needs seconds where an idle one needs milliseconds.
export PLAYGROUND_BROWSER_TIMEOUT=${PLAYGROUND_BROWSER_TIMEOUT:-60}
pytest=("${VENV:-.venv}/bin/python" -m pytest -q)
failed=.pytest_cache/v/cache/lastfailed

rm -f "$failed"
"${pytest[@]}" -n "${JOBS:-2}" --dist loadfile --durations 15 "$@" </dev/null
status=$?
# A busy machine can miss a browser test's time limit all the same: if nothing else failed, those
# get one more try, alone.
if ((status == 1)) && [[ -f $failed ]] && ! grep '": true' "$failed" | grep -qv '"tests/browser/'; then
    echo "once more, the browser tests that failed:"
    "${pytest[@]}" --last-failed "$@" </dev/null
    status=$?
fi
if [[ -z $PLAYGROUND_CHROMIUM ]]; then
    echo "no Chromium could be had: the browser tests were skipped"
fi
exit "$status"
