#!/usr/bin/env bash
# Print the path of a Chromium for the browser tests, and install one where there is none:
# $PLAYGROUND_CHROMIUM, the system's, Debian's package (as root), Playwright's own.
# Prints nothing and returns 1 where none can be had. What the installers say goes to stderr.
set -uo pipefail
cd "$(dirname "$0")/.."

py=${VENV:-.venv}/bin/python

works() {
    [[ -n $1 ]] && timeout 30 "$1" --version >/dev/null 2>&1
}

try() {
    if works "$1"; then
        echo "$1"
        exit 0
    fi
}

try_system() {
    local name
    for name in chromium chromium-browser google-chrome; do
        try "$(command -v "$name")"
    done
}

try "${PLAYGROUND_CHROMIUM:-}"
try_system

if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "installing chromium with apt-get" >&2
    export DEBIAN_FRONTEND=noninteractive
    install=(apt-get install -y -q --no-install-recommends chromium)
    # The lists may be missing or old: update and try once more.
    { timeout 300 "${install[@]}" || { timeout 120 apt-get update -q && timeout 300 "${install[@]}"; }; } \
        </dev/null >&2
    try_system
fi

own() {
    "$py" -c 'from playwright.sync_api import sync_playwright as s
with s() as p: print(p.chromium.executable_path)' 2>/dev/null
}

try "$(own)"
echo "installing Playwright's chromium" >&2
timeout 300 "$py" -m playwright install chromium </dev/null 2>&1 | tail -n 4 >&2
try "$(own)"
exit 1
