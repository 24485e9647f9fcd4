#!/bin/sh
# Models of dependencies beside models of constituents and a base LM, all of one treebank of Universal Dependencies:
# perplexity and parses of test sets, SG and BLiMP. Run again after a stop: it resumes.
#
#   SUITES=sg_suites.zip BLIMP=BLiMP.zip sh study.sh TRAIN.conllu VALID.conllu dependencies lines=TEST.conllu pud=TEST.conllu
#
# Environment, with defaults:
#   STAGES="data runs scores suites": of scores, perplexity and parses; SG and BLiMP are the suites
#   MODELS="transformer pushdown tg dtg gilt gilt-16" (gilt-N: GiLT whose scorer has width N)
#   SEEDS="1 2"   JOBS=2 runs at a time, on a thread each
#   CONFIG=small   WIDTH=128   LAYERS=4   DROPOUT=0.2   STEPS=800   SENTENCES=64 of a step   VOCABULARY=4000
#   TESTED=400 sentences of each test set, evenly from the whole
#   BEAM=100 of pushdown   GRAPH_BEAM=10 of gilt   ACTION_BEAM=100 of tg and dtg
#   SUITES_BEAM=5, SUITES_ACTION_BEAM=10 for SG and BLiMP   LIMIT=10 pairs of each paradigm; without SUITES or BLIMP
#   these are not scored
#   MARGIN=8 nats; hypotheses of the search that are so much less probable than the best are dropped
set -eu
[ $# -ge 4 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
train=$1 valid=$2
export OUT="$3" CONFIG="${CONFIG:-small}" WIDTH="${WIDTH:-128}" LAYERS="${LAYERS:-4}" DROPOUT="${DROPOUT:-0.2}"
export STEPS="${STEPS:-800}" SENTENCES="${SENTENCES:-64}" MARGIN="${MARGIN:-8}" LIMIT="${LIMIT:-10}"
export BEAM="${BEAM:-100}" GRAPH_BEAM="${GRAPH_BEAM:-10}" ACTION_BEAM="${ACTION_BEAM:-100}"
export SUITES_BEAM="${SUITES_BEAM:-5}" SUITES_ACTION_BEAM="${SUITES_ACTION_BEAM:-10}"
export SUITES="${SUITES:-}" BLIMP="${BLIMP:-}" TESTS=""
tested=${TESTED:-400} models=${MODELS:-transformer pushdown tg dtg gilt gilt-16}
shift 3
for test in "$@"; do TESTS="$TESTS ${test%%=*}"; done
mkdir -p "$OUT/conllu" "$OUT/trees" "$OUT/shards"
settled "$OUT" "CONFIG=$CONFIG WIDTH=$WIDTH LAYERS=$LAYERS DROPOUT=$DROPOUT STEPS=$STEPS SENTENCES=$SENTENCES \
VOCABULARY=${VOCABULARY:-4000} TESTED=$tested"
settled "$OUT" "BEAM=$BEAM GRAPH_BEAM=$GRAPH_BEAM ACTION_BEAM=$ACTION_BEAM SUITES_BEAM=$SUITES_BEAM \
SUITES_ACTION_BEAM=$SUITES_ACTION_BEAM LIMIT=$LIMIT MARGIN=$MARGIN" search-settings

# shards PART FILE TAPES-OPTIONS...: trees with their arcs, and shards
shards() {
    part=$1 file=$2
    shift 2
    [ -e "$OUT/trees/$part.trees" ] ||
        pdtools parse "$file" --from conllu --on-error skip --quiet -o "$OUT/trees/$part.trees"
    [ -e "$OUT/shards/$part" ] ||
        pdtools tapes "$OUT/trees/$part.trees" "$@" --quiet --resume -o "$OUT/shards/$part"
}

if staged data; then
    shards train "$train" --tokenizer bpe --vocab-size "${VOCABULARY:-4000}"
    shards valid "$valid" --tokenizer "$OUT/shards/train"
    for test in "$@"; do
        part=${test%%=*} file=${test#*=}
        [ -e "$OUT/conllu/$part.conllu" ] || {
            awk -v RS= -v ORS="\n\n" -v n="$tested" '
                { block[NR] = $0 }
                END { for (i = 1; i <= n && i <= NR; i++) print block[NR <= n ? i : int((i - .5) * NR / n) + 1] }' \
                "$file" >"$OUT/conllu/$part.part"
            mv "$OUT/conllu/$part.part" "$OUT/conllu/$part.conllu"
        }
        shards "$part" "$OUT/conllu/$part.conllu" --tokenizer "$OUT/shards/train"
    done
fi

failed=0
for stage in runs scores suites; do
    staged $stage || continue
    for seed in ${SEEDS:-1 2}; do
        for model in $models; do echo "$stage $model $seed"; done
    done | xargs -P "${JOBS:-2}" -n 3 sh "$here/run.sh" || failed=1
done

if staged scores; then
    set --
    for model in $models; do set -- "$@" --group "$model=$OUT/results/$model-[0-9]"; done
    pdtools compare "$@"
fi
finished "$failed"
