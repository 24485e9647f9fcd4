#!/bin/sh
# Sample efficiency (Murty et al. 2023, section 4.3, figure 4): how many tokens of running text does a base LM need to
# score what a Pushdown LM scores on SG test suites and BLiMP? Both are trained on nested subsets of whole documents,
# in windows, and tested; writes a table, figures and results to a folder. Run again after a stop: it resumes.
#
# Usage: study.sh TREES [OUTPUT FOLDER]
#   TREES: a folder of tree files, such as treebanks or what pdtools parse wrote; each file is a document, and whole
#   files are in a subset or not (by DOCUMENTS=blank, blank lines end documents too)
# Environment, with defaults for a CPU; FULL=1: the paper's, in parentheses.
#   SHARES="1/8 1/4 1/2 1" (1/10 1/2 1)   of the bytes of all documents but those of validation
#   SEEDS="1 2"   MODELS="base pushdown"
#   CONFIG=small (gpt2-small-last6)   a recipe; on a CPU narrower: WIDTH=128, 4 layers, LAST=2 of them pushdown layers
#   WINDOW=256 (512)   VOCABULARY=4000 (50257) of byte-level BPE, made from all documents but those of validation;
#                      TOKENIZER=FOLDER: that of a model or of other shards
#   STEPS=600 (100000) at most   EVERY=50 (1000) steps an evaluation   PATIENCE=3 (5) evaluations without a lower loss
#   SUITES=  BLIMP=    folders or zips; without one of them it is left out    PAIRS=50 (1000) of each paradigm
#   BEAM=100 (300)  MARGIN=5 (8) nats
#   JOBS=2        runs at a time, on one thread each; on a GPU: DEVICE=cuda JOBS=1
#   DEVICE=cpu
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
trees=${1:?name the folder of the trees}
out=${2:-study-efficiency}
if [ "${FULL:-0}" = 1 ]; then
    shares="1/10 1/2 1" config=gpt2-small-last6 width= last= window=512 vocabulary=50257
    steps=100000 every=1000 patience=5 pairs=1000 beam=300 margin=8
else
    shares="1/8 1/4 1/2 1" config=small width=128 last=2 window=256 vocabulary=4000
    steps=600 every=50 patience=3 pairs=50 beam=100 margin=5
fi
export OUT="$out" CONFIG="${CONFIG:-$config}" WIDTH="${WIDTH-$width}" LAST="${LAST-$last}" DEVICE="${DEVICE:-cpu}"
export STEPS="${STEPS:-$steps}" EVERY="${EVERY:-$every}" PATIENCE="${PATIENCE:-$patience}"
export BEAM="${BEAM:-$beam}" MARGIN="${MARGIN:-$margin}" PAIRS="${PAIRS:-$pairs}"
shares=${SHARES:-$shares} window=${WINDOW:-$window} documents=${DOCUMENTS:-file}
tokenizer=${TOKENIZER:-bpe} vocabulary=${VOCABULARY:-$vocabulary}
mkdir -p "$out/runs" "$out/results" "$out/shards"

settings="CONFIG=$CONFIG WIDTH=$WIDTH LAST=$LAST WINDOW=$window VOCABULARY=$vocabulary TOKENIZER=$tokenizer"
settings="$settings DOCUMENTS=$documents STEPS=$STEPS EVERY=$EVERY PATIENCE=$PATIENCE"
settled "$out" "$settings BEAM=$BEAM MARGIN=$MARGIN PAIRS=$PAIRS"

# The whole first: its tokenizer is that of all subsets.
python "$here/report.py" documents "$trees" "$out/documents" 1 $shares
for subset in 1 $shares valid; do
    name=$(echo "$subset" | tr / -)
    [ -e "$out/shards/$name" ] && continue
    if [ "$subset" = 1 ] && [ "$tokenizer" = bpe ]; then
        set -- --tokenizer bpe --vocab-size "$vocabulary"
    elif [ "$subset" = 1 ]; then
        set -- --tokenizer "$tokenizer"
    else
        set -- --tokenizer "$out/shards/1"
    fi
    pdtools tapes "$out/documents/$name" --layout window --window "$window" --documents "$documents" --on-error skip \
        "$@" -o "$out/shards/$name"
done

failed=0
for seed in ${SEEDS:-1 2}; do
    for subset in $shares; do
        for model in ${MODELS:-base pushdown}; do
            echo "$model $subset $seed"
        done
    done
done | xargs -P "${JOBS:-2}" -n 3 sh "$here/run.sh" || failed=1

python "$here/report.py" table "$out"
finished "$failed"
