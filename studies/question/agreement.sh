#!/bin/sh
# Experiment E: agreement over attractors in a language of our own, four sizes of training text. README.md has the plan.
#
#   sh studies/question/agreement.sh OUT
#
# In OUT: text/ (trees and pairs), trees/, shards/, tuning/MODEL_RATE_OTHER, runs/MODEL-WORDS-SEED and results/ of the same names.
# Killed, it is run again as it was: what is finished is not done again.
#
# Environment, with defaults:
#   STAGES="data tuning runs"   JOBS=1 at a time, on a thread each   SEEDS="1 2 3 4 5 6 7 8 9 10"
set -eu
[ $# -eq 1 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
export OUT="$1"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
mkdir -p "$OUT/trees" "$OUT/shards" "$OUT/tuning" "$OUT/runs" "$OUT/results"

if staged data; then
    [ -e "$OUT/text/test.trees" ] || python "$here/agreement.py" "$OUT/text"
    for part in train-1000000 train-300000 train-100000 train-30000 valid test; do
        [ -e "$OUT/trees/$part.trees" ] || pdtools parse "$OUT/text/$part.trees" --from treebank --quiet -o "$OUT/trees/$part.trees"
        # All sizes have one vocabulary.
        set -- --tokenizer "$OUT/shards/train-1000000"
        [ $part != train-1000000 ] || set -- --min-count 1
        [ -e "$OUT/shards/$part" ] || pdtools tapes "$OUT/trees/$part.trees" "$@" --tape none --quiet -o "$OUT/shards/$part"
    done
fi
failed=0
tries() { xargs -r -P "${JOBS:-1}" -n 3 sh "$here/agreement-run.sh" try; }
choose() {
    [ "$failed" = 0 ] || finished 1
    python "$here/chosen.py" "$OUT/tuning" "$here/tried-agreement.txt" >"$OUT/chosen.part"
    mv "$OUT/chosen.part" "$OUT/$1"
}
if staged tuning; then
    # Six tries of each.
    for rate in 4e-3 8e-3 1.6e-2; do
        for dropout in 0.1 0; do echo "base $rate $dropout"; done
        for model in base-head pushdown; do
            for weight in 1 0.3; do echo "$model $rate $weight"; done
        done
    done | tries || failed=1
    choose chosen-of-six
    # Where the rate chosen is the lowest or the highest, its neighbour is tried too.
    sed -n 's/ 4e-3 / 2e-3 /p; s/ 1.6e-2 / 3.2e-2 /p' "$OUT/chosen-of-six" | tries || failed=1
    choose chosen
fi
if staged runs && [ -e "$OUT/chosen" ]; then
    for seed in ${SEEDS:-1 2 3 4 5 6 7 8 9 10}; do
        for words in 30000 100000 300000 1000000; do
            for model in base pushdown base-head; do echo "$model $words $seed"; done
        done
    done | xargs -P "${JOBS:-1}" -n 3 sh "$here/agreement-run.sh" run || failed=1
fi
finished "$failed"
