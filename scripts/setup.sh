#!/usr/bin/env bash
# Make the environment $VENV with $PYTHON and install a requirements file into it.
# Usage: scripts/setup.sh requirements.txt. Does nothing when that very file is installed already.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=$1
python=${PYTHON:-python3}
venv=${VENV:-.venv}
py=$venv/bin/python

fail() {
    echo "error: $*" >&2
    exit 1
}

check_python() {
    command -v "$python" >/dev/null || fail "there is no $python; name another with PYTHON=..."
    local found
    found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "Python 3.11 or newer is needed, and $python is $found; name another with PYTHON=..."
}

# An environment whose interpreter is gone or whose pip never came is made anew.
if ! "$py" -m pip --version >/dev/null 2>&1; then
    check_python
    echo "making $venv"
    # Never clear a folder that isn't an environment.
    if [[ -f $venv/pyvenv.cfg ]]; then
        rm -rf "$venv"
    elif [[ -n $(ls -A "$venv" 2>/dev/null) ]]; then
        fail "$venv is there and no Python environment; name another with VENV=..."
    fi
    "$python" -m venv "$venv" >/dev/null ||
        fail "$python can't make environments; on Debian and Ubuntu: apt-get install python3-venv"
fi

# What is installed: the text of all requirement files that the wanted one takes in.
stamp=$venv/.installed-$(basename "$wanted")
now=$(cat requirements.txt "$wanted")
if [[ ! -f $stamp || $(<"$stamp") != "$now" ]]; then
    echo "installing $wanted into $venv (once; torch is by far the largest part)"
    extra=()
    [[ -t 1 ]] || extra=(-q) # bars for people, not for logs
    [[ -z ${TORCH_INDEX:-} ]] || extra+=(--extra-index-url "$TORCH_INDEX")
    "$py" -m pip install --disable-pip-version-check --no-input ${extra[@]+"${extra[@]}"} \
        -r "$wanted" </dev/null || fail "pip could not install $wanted; see its message above"
    echo "$now" >"$stamp"
fi
