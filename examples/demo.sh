#!/usr/bin/env bash
# What muster does, on the Dynamo example: watch it form on the embedded cluster, lose a node and heal; judge it, draw it, plan it, and
# bring an older form of it to the form of record.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi
say() { printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"; "$@"; }

say muster up --demo
printf '\nThe same without a cluster, on files:\n'
say muster validate examples/cluster examples/dynamo-inference.yaml
say muster tree examples/cluster/priorities.yaml examples/dynamo-inference.yaml examples/dynamo-pods.yaml
printf '\nprefill-2 waits: one cycle on a small data centre finds it a rack in the zone of its siblings.\n'
say muster plan examples/cluster examples/dynamo-inference.yaml examples/dynamo-pods.yaml
printf '\nThe same gang, as it was written before the form of record:\n'
say muster convert examples/dialects/dynamo-inference-both-fields.yaml | head -n 24
printf '\nAnd one that cannot work:\n'
say muster validate examples/invalid/min-sub-group-exceeds-children.yaml || true
