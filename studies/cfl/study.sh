#!/bin/sh
# Context-free languages and differentiable stacks (DuSell and Chiang 2022, section 4): seven models on five languages,
# cross-entropy against the exact bound. Generates, trains, chooses by validation, tests, and writes a table, figures
# and results to a folder. Run again after a stop (Ctrl-C, a wall-time): it resumes.
#
# Usage: study.sh [OUTPUT FOLDER]
# Environment, with defaults: a budget for two CPU cores and some hours. FULL=1: the paper's, in parentheses.
#   LANGUAGES="marked-reversal unmarked-reversal padded-reversal dyck hardest"   also dyck-released
#   MODELS="lstm gref jm ns ns-s ns-u rns"
#   EPOCHS=20 (200)  at most; they end early as in the paper; more can be added later
#   RATES="0.005" ("0.01 0.005 0.001 0.0005")   initial learning rates
#   SIZES="20" ("2 20 40")   elements' sizes of gref and jm
#   RESTARTS="1" ("1 2 3 4 5")   each with weights and training strings of its own; more can be added later
#   STRINGS=10000 (10000)   for training, in batches of ten
#   PER_LENGTH=20 (100)   for the test, of every length from 40 to 100
#   WATCHED=20 (30)   epochs of figure 3; 0: no figure 3
#   AT_ONCE=20     runs of a sweep (a model on a language) that are computed as one
#   JOBS=2         sweeps at a time, on one thread each
#   DEVICE=cpu     or cuda
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
out=${1:-study-cfl}
if [ "${FULL:-0}" = 1 ]; then
    epochs=200 rates="0.01 0.005 0.001 0.0005" sizes="2 20 40" restarts="1 2 3 4 5" per_length=100 watched=30
else
    epochs=20 rates=0.005 sizes=20 restarts=1 per_length=20 watched=20
fi
export OUT="$out" EPOCHS="${EPOCHS:-$epochs}" STRINGS="${STRINGS:-10000}" DEVICE="${DEVICE:-cpu}"
export WATCHED="${WATCHED:-$watched}" AT_ONCE="${AT_ONCE:-20}"
export RATES="${RATES:-$rates}" RESTARTS="${RESTARTS:-$restarts}"
sizes=${SIZES:-$sizes} per_length=${PER_LENGTH:-$per_length}
languages=${LANGUAGES:-marked-reversal unmarked-reversal padded-reversal dyck hardest}
models=${MODELS:-lstm gref jm ns ns-s ns-u rns}
mkdir -p "$out"

settings="STRINGS=$STRINGS PER_LENGTH=$per_length WATCHED=$WATCHED"
settled "$out" "$settings"

# Every restart has strings of its own, the same for all models; the test strings are the same for all. Validation
# sets are a tenth of the training sets. Seeds differ: independent draws.
for language in $languages; do
    data="$out/data/$language"
    mkdir -p "$data"
    [ -e "$data/test" ] ||
        pdtools generate cfl "$language" --per-length "$per_length" --lengths 40-100 --seed 0 --shards --quiet \
            -o "$data/test"
    for restart in $RESTARTS; do
        [ -e "$data/train-$restart" ] ||
            pdtools generate cfl "$language" --number "$STRINGS" --seed "$((2 * restart - 1))" --shards --quiet \
                -o "$data/train-$restart"
        [ -e "$data/valid-$restart" ] ||
            pdtools generate cfl "$language" --number "$((STRINGS / 10))" --seed "$((2 * restart))" --shards \
                --quiet -o "$data/valid-$restart"
        [ -e "$data/bound-$restart" ] ||
            pdtools eval-formal cfl "$data/valid-$restart" --quiet -o "$data/bound-$restart" >/dev/null
    done
done

# JOBS at a time. If one fails, the others go on, and the table has what there is. On a CPU nondeterministic stacks are
# computed in C, one string after the other: nothing to gain by computing their runs as one, so that they are divided.
failed=0
# shellcheck disable=SC2086  # words, however many spaces are between them
together=$(echo $RESTARTS | tr ' ' ,)
for language in $languages; do
    for model in $models; do
        case $DEVICE-$model in
        *-gref | *-jm) for size in $sizes; do echo "$language $model $size $together"; done ;;
        cpu-*ns*) for restart in $RESTARTS; do echo "$language $model 0 $restart"; done ;;
        *) echo "$language $model 0 $together" ;;
        esac
    done
done | xargs -P "${JOBS:-2}" -n 4 sh "$here/run.sh" || failed=1

# Of each model on each language, the run with the lowest validation difference is tested.
python "$here/report.py" best "$out" | xargs -r -P "${JOBS:-2}" -n 4 sh "$here/test.sh" || failed=1
python "$here/report.py" table "$out"
finished "$failed"
