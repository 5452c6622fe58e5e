#!/usr/bin/env bash
# Upload the committed files to a Hugging Face Space, which builds and starts them.
# Usage: scripts/deploy.sh OWNER/NAME. Log in first: .venv/bin/hf auth login (or set HF_TOKEN).
set -euo pipefail
cd "$(dirname "$0")/.."

space=${1:-}
hf=${VENV:-.venv}/bin/hf

fail() {
    echo "error: $*" >&2
    exit 1
}

[[ $space == ?*/?* ]] || fail "which Space? make deploy SPACE=owner/name"
[[ -x $hf ]] || fail "there is no $hf; run make setup"
[[ -z $(git status --porcelain --untracked-files=no) ]] ||
    echo "note: changes that aren't committed are left out" >&2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git archive HEAD -- . ':!tests' ':!benchmarks' ':!.ci' | tar -x -C "$folder"

"$hf" repos create "$space" --type space --sdk gradio --exist-ok
"$hf" upload "$space" "$folder" . --type space --delete '*' \
    --commit-message "$(git log -1 --format=%s)"
