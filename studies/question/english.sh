#!/bin/sh
# Experiment B: both models of English tuned with equal effort, then three seeds of each. README.md has the plan.
#
#   sh studies/question/english.sh ARCHIVES BOOKS OUT
#
# ARCHIVES  the treebanks (treebanks.sh); BOOKS: the folder of books-*.txt.xz
# In OUT: treebanks/, parser/, english/ (text, trees, shards, runs, results), and tuning/MODEL_RATE_OTHER with ppl/ of each try.
# Killed, it is run again as it was: what is finished is not done again.
#
# Environment, with defaults:
#   STAGES="parser trees tuning runs"   JOBS=1 of tuning and runs at a time, on a thread each
#   SUITES=  BLIMP=  where the runs are to be scored
set -eu
[ $# -eq 3 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
archives=$1 books=$2
export OUT="$3"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
export VALID=h-g-wells_the-invisible-man VOCABULARY=8000 WORKERS="${JOBS:-1}"
export SHAPE="config.d_model=192 config.d_ff=768 train.optimizer=muon"
mkdir -p "$OUT/tuning"

if staged parser; then
    sh "$here/treebanks.sh" "$archives" "$OUT/treebanks"
    STEPS=3000 sh "$here/../../examples/english-parser.sh" "$OUT/treebanks" "$OUT/parser"
fi
if staged trees; then
    STAGES="text trees shards" sh "$here/../../examples/english.sh" "$books" "$OUT/parser/parser.pt" "$OUT/english"
    # 500 sentences of the validation book, evenly, as english.sh takes them of the test books.
    [ -e "$OUT/valid-500" ] || {
        paste "$OUT/english/trees/valid.trees" "$OUT/english/trees/valid.trees.text" | grep -v '^(X ' |
            awk '{ line[NR] = $0 } END { for (i = 1; i <= 500; i++) print line[int((i - .5) * NR / 500) + 1] }' >"$OUT/valid-500.both"
        cut -f 2 "$OUT/valid-500.both" >"$OUT/valid-500.trees.text"
        cut -f 1 "$OUT/valid-500.both" >"$OUT/valid-500.trees"
        pdtools tapes "$OUT/valid-500.trees" --tokenizer "$OUT/english/shards/train" --tape none --resume --quiet -o "$OUT/valid-500"
    }
fi
failed=0
if staged tuning; then
    # Nine tries of each: rate and weight of attachments; rate and dropout.
    for rate in 3e-3 1.5e-3 6e-3; do
        for other in 1 0.3 0.1; do echo "pushdown $rate $other"; done
        for other in 0 0.05 0.1; do echo "base $rate $other"; done
    done | xargs -P "${JOBS:-1}" -n 3 sh "$here/english-try.sh" || failed=1
    if [ "$failed" = 0 ]; then
        python "$here/chosen.py" "$OUT/tuning" "$here/tried-english.txt" >"$OUT/chosen.part"
        mv "$OUT/chosen.part" "$OUT/chosen"
    fi
fi
if staged runs && [ -e "$OUT/chosen" ]; then
    while read -r model rate other; do
        # The tokenizer, the shards and the tests are shared; each model has its own settings.
        weight=1 dropout=0
        case $model in base) dropout=$other ;; pushdown) weight=$other ;; esac
        MODELS=$model SEEDS="11 12 13" STEPS=6800 RATE=$rate ATTACHMENT_WEIGHT=$weight DROPOUT=$dropout JOBS="${JOBS:-1}" \
            BEAM=100 BLIMP_LIMIT=100 SMALL="$SHAPE train.eval_every=500" STAGES="runs scores" \
            sh "$here/../../examples/english.sh" "$books" "$OUT/parser/parser.pt" "$OUT/english" || failed=1
    done <"$OUT/chosen"
fi
finished "$failed"
