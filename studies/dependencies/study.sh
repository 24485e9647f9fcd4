#!/bin/sh
# Models of dependencies beside models of constituents and a base LM, all of one treebank of Universal Dependencies:
# perplexity, arcs or constituents of a test set, SG and BLiMP. Run again after a stop: it resumes.
#
#   SUITES=sg_suites.zip BLIMP=BLiMP.zip sh study.sh TRAIN.conllu VALID.conllu TEST.conllu dependencies
#
# Environment, with defaults:
#   MODELS="transformer pushdown tg dtg gilt"   SEEDS="1 2"   JOBS=2 runs at a time, on a thread each
#   CONFIG=small   WIDTH=128   LAYERS=4   DROPOUT=0.2   STEPS=600   VOCABULARY=4000   SCORER=128 (GiLT's scorer_width)
#   BEAM=100 of pushdown and gilt   LIMIT=20 pairs of each paradigm; without SUITES or BLIMP these are not scored
set -eu
[ $# -eq 4 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
train=$1 valid=$2 test=$3
export OUT="$4" TEST="$test" CONFIG="${CONFIG:-small}" WIDTH="${WIDTH:-128}" LAYERS="${LAYERS:-4}"
export DROPOUT="${DROPOUT:-0.2}" STEPS="${STEPS:-600}" SCORER="${SCORER:-128}" BEAM="${BEAM:-100}" LIMIT="${LIMIT:-20}"
export SUITES="${SUITES:-}" BLIMP="${BLIMP:-}"
mkdir -p "$OUT/trees" "$OUT/shards"
settled "$OUT" "CONFIG=$CONFIG WIDTH=$WIDTH LAYERS=$LAYERS DROPOUT=$DROPOUT STEPS=$STEPS SCORER=$SCORER BEAM=$BEAM \
LIMIT=$LIMIT VOCABULARY=${VOCABULARY:-4000}"

for part in train valid test; do
    eval "file=\$$part"
    [ -e "$OUT/trees/$part.trees" ] ||
        pdtools parse "$file" --from conllu --binarize head --on-error skip --quiet -o "$OUT/trees/$part.trees"
    if [ "$part" = train ]; then
        set -- --tokenizer bpe --vocab-size "${VOCABULARY:-4000}"
    else
        set -- --tokenizer "$OUT/shards/train"
    fi
    [ -e "$OUT/shards/$part" ] ||
        pdtools tapes "$OUT/trees/$part.trees" "$@" --quiet --resume -o "$OUT/shards/$part"
done

failed=0
for seed in ${SEEDS:-1 2}; do
    for model in ${MODELS:-transformer pushdown tg dtg gilt}; do echo "$model $seed"; done
done | xargs -P "${JOBS:-2}" -n 2 sh "$here/run.sh" || failed=1

set --
for model in ${MODELS:-transformer pushdown tg dtg gilt}; do set -- "$@" --group "$model=$OUT/results/$model-*"; done
pdtools compare "$@"
finished "$failed"
