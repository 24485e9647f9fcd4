#!/bin/sh
# The test of one run. Called by study.sh.
# Usage: test.sh LANGUAGE MODEL RUN RESULTS
set -eu
results="$OUT/results/$1/$2/$4"
mkdir -p "$(dirname "$results")"
[ -e "$results" ] || pdtools eval-formal cfl "$OUT/data/$1/test" --model "$OUT/runs/$1/$2/$3" --device "$DEVICE" \
    --threads 1 --quiet -o "$results" >/dev/null
