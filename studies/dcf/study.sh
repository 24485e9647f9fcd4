#!/bin/sh
# Tables 1 and 2 of "A Transformer with Stack Attention" (Li et al. 2024): four deterministic context-free tasks.
# Usage: study.sh [FOLDER]; run again, it resumes. Settings, as environment variables:
#   FULL=1         the paper's budget: 100,000 steps of 32 strings (rs, sm), 1,000,000 of 128 (ma, se), 512 test
#                  strings of each length, 5 seeds; for a GPU, with DEVICE=cuda and JOBS=4 or so. Otherwise:
#   STEPS_RS=4000  STEPS_SM=4000    steps of rs and sm   BATCH=32   strings in each
#   STEPS_ARITHMETIC=1000           of ma and se         BATCH_ARITHMETIC=128
#   LEARNING_RATE=1e-3  SCHEDULE=linear   falling to a tenth of it; FULL: 1e-4, constant
#   LENGTHS=1-40 (se: from 3, but not where it is as released)
#   EVAL_EVERY=1000   steps between what a stopped run can resume from
#   TEST_LENGTHS=41-100  NUMBER=16 test strings of each length   NUMBER_ARITHMETIC=256, whose y is one symbol
#   SEEDS="1 2 3"  one run of each row for each; more can be added later
#   TASKS="rs sm ma se"  OBJECTIVES="masked causal"
#   MODELS="rnn stack-rnn vanilla-none stack-none ..." (run.sh says which there are)
#   LIST=1         only print the runs
#   JOBS=2         runs at a time, on one thread each   DEVICE=cpu
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
out=${1:-study-dcf}
if [ "${FULL:-0}" = 1 ]; then
    : "${STEPS_RS:=100000}" "${STEPS_SM:=100000}" "${STEPS_ARITHMETIC:=1000000}"
    : "${NUMBER:=512}" "${NUMBER_ARITHMETIC:=512}" "${SEEDS:=1 2 3 4 5}" "${EVAL_EVERY:=10000}" "${LEARNING_RATE:=1e-4}"
    : "${SCHEDULE:=constant}"
fi
export OUT="$out" DEVICE="${DEVICE:-cpu}"
export STEPS_RS="${STEPS_RS:-4000}" STEPS_SM="${STEPS_SM:-4000}" STEPS_ARITHMETIC="${STEPS_ARITHMETIC:-1000}"
export BATCH="${BATCH:-32}" BATCH_ARITHMETIC="${BATCH_ARITHMETIC:-128}" LEARNING_RATE="${LEARNING_RATE:-1e-3}"
export SCHEDULE="${SCHEDULE:-linear}" LENGTHS="${LENGTHS:-1-40}" EVAL_EVERY="${EVAL_EVERY:-1000}"
number=${NUMBER:-16} arithmetic=${NUMBER_ARITHMETIC:-256} test_lengths=${TEST_LENGTHS:-41-100}
tasks=${TASKS:-rs sm ma se}
default="rnn stack-rnn rnn-released stack-rnn-released
    vanilla-none stack-none vanilla-none-released stack-none-released
    vanilla-sincos stack-sincos vanilla-relative stack-relative vanilla-rotary stack-rotary vanilla-alibi stack-alibi"
runs() {
    for seed in ${SEEDS:-1 2 3}; do
        for model in ${MODELS:-$default}; do
            for task in $tasks; do
                for objective in ${OBJECTIVES:-masked causal}; do
                    case $objective-$model in causal-rnn* | causal-stack-rnn*) continue ;; esac
                    echo "$task $objective $model $seed"
                done
            done
        done
    done
}
if [ "${LIST:-0}" = 1 ]; then
    runs
    exit 0
fi
mkdir -p "$out/tests" "$out/runs" "$out/results"

settings="STEPS_RS=$STEPS_RS STEPS_SM=$STEPS_SM STEPS_ARITHMETIC=$STEPS_ARITHMETIC BATCH=$BATCH"
settings="$settings BATCH_ARITHMETIC=$BATCH_ARITHMETIC LEARNING_RATE=$LEARNING_RATE SCHEDULE=$SCHEDULE"
settings="$settings LENGTHS=$LENGTHS PADDING=END TEST_LENGTHS=$test_lengths NUMBER=$number"
settings="$settings NUMBER_ARITHMETIC=$arithmetic EVAL_EVERY=$EVAL_EVERY"
settled "$out" "$settings"

for task in $tasks; do
    file="$out/tests/$task.tsv"
    case $task in ma | se) strings=$arithmetic ;; *) strings=$number ;; esac
    [ -e "$file" ] ||
        pdtools generate task "$task" --lengths "$test_lengths" --number "$strings" --seed 100 --quiet -o "$file"
done

# Every model for each seed, JOBS at a time. If one fails, the others go on, and the table has what there is.
failed=0
runs | xargs -P "${JOBS:-2}" -n 4 sh "$here/run.sh" || failed=1

python "$here/report.py" "$out"
finished "$failed"
