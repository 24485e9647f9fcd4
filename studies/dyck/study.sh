#!/bin/sh
# Table 1 of the Pushdown Layers paper (Murty et al. 2023): do models close brackets that were opened far away, or
# deep inside others? Generates, trains, evaluates, and writes a table, figures and results to a folder.
# Run again after a stop (Ctrl-C, a wall-time): it resumes.
#
# Usage: study.sh [OUTPUT FOLDER]
# Environment, with defaults:
#   SETTING=released-like   training strings: like the released validation file, or free: all that the automaton
#                  writes, from 6 to 598 tokens (3 times the time and more), or as-released: from 4 to 600, and
#                  nests with the fillers of the authors' code beside ours
#   POSITIONS=alibi   of all models; relative: Transformer-XL's, as in the released code
#   BATCHES=1      the 64 strings of a step come in this many batches (1, 2, 4, … 64), each of similar length. With 1 a
#                  token of a short string weighs more than one of a long string; on free strings 4 learn faster
#   SEEDS="1 2 3"  one run of each model for each; more can be added later
#   JOBS=2         runs at a time, on one thread each; on a GPU: JOBS=1 DEVICE=cuda
#   DEVICE=cpu  STEPS=10000  STRINGS=100000  PREFIXES=1008 (28 of each depth)  BEAM=50
#   HELD_OUT=1000  strings of validation, and as many of perplexity
#   PUSHDOWN_PREFIXES=72 (on a GPU: all)   how many Pushdown LMs are tested on that have no stack distances, or have
#                  them in one part alone, 5 to 10 s of a core each; free strings: how many of the deeper ones (SOURCES=40, and the nests)
#   MARGIN=8       nats; hypotheses of the beam that are so much less probable than the best are dropped
#   DEPENDENCIES="50 100 200 300"  MODELS="base base-attachment pushdown pushdown-distances"
#                  (also pushdown-attention, pushdown-head: distances in the stack in one of the two alone; and released,
#                  released-base: the authors' networks with their positions, batches and learning rates)
#   SOURCES="10 40"   brackets that may be open at once in the strings that these prefixes are cut from: as in
#                  training, and deeper, as in the authors' code
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
out=${1:-study-dyck}
export OUT="$out" STEPS="${STEPS:-10000}" BEAM="${BEAM:-50}" MARGIN="${MARGIN:-8}" DEVICE="${DEVICE:-cpu}"
export POSITIONS="${POSITIONS:-alibi}" BATCHES="${BATCHES:-1}"
[ "$DEVICE" != cpu ] || export PUSHDOWN_PREFIXES="${PUSHDOWN_PREFIXES:-72}"
export SETTING="${SETTING:-released-like}"
setting=$SETTING strings=${STRINGS:-100000} held_out=${HELD_OUT:-1000} prefixes=${PREFIXES:-1008}
case $BATCHES in
1 | 2 | 4 | 8 | 16 | 32 | 64) ;;
*) echo "BATCHES=$BATCHES: must divide 64, the strings of a step" >&2; exit 1 ;;
esac
for depth in ${SOURCES:-10 40}; do
    case $depth in
    10 | 40) ;;
    *) echo "SOURCES=$depth: must be of 10 and 40" >&2; exit 1 ;;
    esac
done
mkdir -p "$out/prefixes" "$out/runs" "$out/results"

settings="SETTING=$setting POSITIONS=$POSITIONS BATCHES=$BATCHES STEPS=$STEPS STRINGS=$strings PREFIXES=$prefixes"
settings="$settings BEAM=$BEAM MARGIN=$MARGIN"
settled "$out" "$settings"

# Strings for training, validation and perplexity; prefixes for the test. Seeds differ: independent draws.
case $setting in
released-like) set -- --setting released-like ;;
free) set -- --setting free --min-length 6 --max-length 598 ;;
as-released) set -- --setting free --min-length 4 --max-length 600 ;;
*) echo "SETTING=$setting: must be released-like, free or as-released" >&2; exit 1 ;;
esac
[ -e "$out/train" ] || pdtools generate dyck "$@" --number "$strings" --seed 1 --shards -o "$out/train"
[ -e "$out/valid" ] || pdtools generate dyck "$@" --number "$held_out" --seed 2 --shards -o "$out/valid"
[ -e "$out/test" ] || pdtools generate dyck "$@" --number "$held_out" --seed 4 --shards -o "$out/test"
for depth in ${SOURCES:-10 40}; do
    for least in ${DEPENDENCIES:-50 100 200 300}; do
        file="$out/prefixes/dependency-$least-depth-$depth.tsv"
        [ -e "$file" ] || pdtools generate dyck-prefixes --dependency "$least" --depth "$depth" \
            --number "$prefixes" --seed "$least" -o "$file"
    done
done
file="$out/prefixes/depth.tsv"
[ -e "$file" ] || pdtools generate dyck-prefixes --depths 15-50 --number "$prefixes" --seed 3 -o "$file"
file="$out/prefixes/nests-as-released.tsv"
[ "$setting" != as-released ] || [ -e "$file" ] || python "$here/authors_nests.py" "$prefixes" "$file"

# Every model for each seed, JOBS at a time. If one fails, the others go on, and the table has what there is.
failed=0
for seed in ${SEEDS:-1 2 3}; do
    for model in ${MODELS:-base base-attachment pushdown pushdown-distances}; do
        echo "$model $seed"
    done
done | xargs -P "${JOBS:-2}" -n 2 sh "$here/run.sh" || failed=1

python "$here/report.py" "$out"
finished "$failed"
