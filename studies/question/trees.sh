#!/bin/sh
# Experiment A: regime and trees. Four conditions, tuned alike, six seeds each. README.md has the plan.
#
#   sh studies/question/trees.sh ARCHIVES OUT
#
# ARCHIVES  the treebanks (treebanks.sh)
# In OUT: treebanks/, trees/ (train, valid, test; auto: the training text as parsers read it that never saw it), folds/N with the
# parser of each, shards/, tuning/MODEL_RATE_WEIGHT, runs/CONDITION-SEED, results/CONDITION-SEED/PASS.
# Killed, it is run again as it was: what is finished is not done again.
#
# Environment, with defaults:
#   STAGES="data tuning folds runs"   JOBS=1 at a time, on a thread each   SUITES=  BLIMP=  where the runs are to be scored
#   CONDITIONS="base pushdown base-head pushdown-auto"  which are run; what scores-trees/ holds already is not
set -eu
[ $# -eq 2 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
archives=$1
export OUT="$2"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
mkdir -p "$OUT/tuning" "$OUT/runs" "$OUT/results" "$OUT/folds" "$OUT/trees"
export SUITES="${SUITES:-}" BLIMP="${BLIMP:-}"

if staged data; then
    sh "$here/treebanks.sh" "$archives" "$OUT/treebanks"
    # Sentences of at most 100 words, which is what the parsers of the fourth condition read, in all conditions.
    for part in wsj gum/const craft cities; do
        name=$(dirname "$part/." | tr / -)
        [ -e "$OUT/labelled/$name" ] || {
            mkdir -p "$OUT/labelled"
            set --
            for file in "$OUT/treebanks/$part"/*; do
                case $file in *_reddit_*) ;; *) set -- "$@" "$file" ;; esac
            done
            pdtools parse "$@" --from treebank --binarize none --on-error skip --split 0.9,0.05,0.05 --quiet -o "$OUT/labelled/$name"
        }
    done
    for part in train valid test; do
        [ -e "$OUT/labelled/$part.trees" ] || {
            cat "$OUT"/labelled/*/$part.trees | awk '{ words = $0; if (gsub(/[^()]\)/, "", words) <= 100) print }' >"$OUT/labelled/$part.part"
            mv "$OUT/labelled/$part.part" "$OUT/labelled/$part.trees"
        }
        [ -e "$OUT/trees/$part.trees" ] || pdtools parse "$OUT/labelled/$part.trees" --from treebank --quiet -o "$OUT/trees/$part.trees"
        set -- --tokenizer bpe --vocab-size 8000
        [ $part = train ] || set -- --tokenizer "$OUT/shards/train"
        [ -e "$OUT/shards/$part" ] || pdtools tapes "$OUT/trees/$part.trees" "$@" --tape none --quiet -o "$OUT/shards/$part"
    done
fi
for part in valid test; do
    # 500 sentences of the part, evenly.
    [ -e "$OUT/$part-500" ] || {
        awk '{ line[NR] = $0 } END { for (i = 1; i <= 500; i++) print line[int((i - .5) * NR / 500) + 1] }' \
            "$OUT/trees/$part.trees" >"$OUT/$part-500.trees"
        pdtools tapes "$OUT/$part-500.trees" --tokenizer "$OUT/shards/train" --tape none --quiet -o "$OUT/$part-500"
    }
done
failed=0
if staged tuning; then
    # Six tries of each condition; the fourth takes the settings of the third.
    {
        for rate in 2e-3 4e-3 1e-3 1.4e-3 2.8e-3 5.6e-3; do echo "base $rate 1"; done
        for rate in 2e-3 4e-3; do
            for weight in 1 0.3 0.1; do
                echo "base-head $rate $weight"
                echo "pushdown $rate $weight"
            done
        done
    } | xargs -P "${JOBS:-1}" -n 3 sh "$here/trees-run.sh" try || failed=1
    if [ "$failed" = 0 ]; then
        python "$here/chosen.py" "$OUT/tuning" "$here/tried-trees.txt" >"$OUT/chosen.part"
        mv "$OUT/chosen.part" "$OUT/chosen"
    fi
fi
if staged folds; then
    [ -e "$OUT/folds/4/words.txt" ] || python "$here/folds.py" split "$OUT/labelled/train.trees" "$OUT/folds"
    for fold in 0 1 2 3 4; do echo "$fold"; done | xargs -P "${JOBS:-1}" -n 1 sh "$here/trees-run.sh" fold || failed=1
    [ "$failed" = 0 ] || finished 1
    [ -e "$OUT/trees/auto.trees" ] || {
        python "$here/folds.py" join "$OUT/labelled/train.trees" "$OUT/folds" -o "$OUT/labelled/auto.trees"
        pdtools parse "$OUT/labelled/auto.trees" --from treebank --quiet -o "$OUT/trees/auto.trees"
    }
    [ -e "$OUT/shards/auto" ] ||
        pdtools tapes "$OUT/trees/auto.trees" --tokenizer "$OUT/shards/train" --tape none --quiet -o "$OUT/shards/auto"
    [ -e "$OUT/results/auto" ] || pdtools eval-parse "$OUT/labelled/train.trees" "$OUT/labelled/auto.trees" --unlabeled \
        --binarize right --quiet -o "$OUT/results/auto" >/dev/null
fi
if staged runs && [ -e "$OUT/chosen" ]; then
    # The pair of the primary measures first.
    for pair in "base pushdown" "base-head pushdown-auto"; do
        for seed in 1 2 3 4 5 6; do
            for condition in $pair; do
                case " ${CONDITIONS:-$condition} " in *" $condition "*) echo "$condition $seed" ;; esac
            done
        done
    done | xargs -P "${JOBS:-1}" -n 2 sh "$here/trees-run.sh" run || failed=1
fi
finished "$failed"
