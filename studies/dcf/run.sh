#!/bin/sh
# One model on one task with one seed: trained, then tested on longer strings. Called by study.sh.
# Usage: run.sh rs|sm|ma|se masked|causal MODEL SEED
#   MODEL: vanilla-POSITIONS or stack-POSITIONS (none, sincos, relative, rotary, alibi), rnn or stack-rnn (these masked
#   alone); or the same with -released behind it
set -eu
task=$1 objective=$2 model=$3 seed=$4
name="$task-$objective-$model-$seed"
run="$OUT/runs/$name" results="$OUT/results/$name"
[ ! -d "$results" ] || exit 0

case $task in
rs) steps=$STEPS_RS batch=$BATCH ;;
sm) steps=$STEPS_SM batch=$BATCH ;;
*) steps=$STEPS_ARITHMETIC batch=$BATCH_ARITHMETIC ;;
esac
lengths=$LENGTHS released="" tested="" plain=${model%-released}
[ "$plain" = "$model" ] || released=--as-released
case $plain in
rnn | stack-rnn)
    set -- --config dcf-rnn
    [ "$plain" = stack-rnn ] || set -- "$@" --set config.stack=none
    [ -z "$released" ] || set -- "$@" --set config.controller=rnn-relu --set config.stack_push=linear
    ;;
vanilla-* | stack-*)
    positions=${plain#*-}
    set -- --config dcf --set "config.positions=$positions"
    case $plain in
    vanilla-*) set -- "$@" --set config.stack_layers=none ;;
    stack-*) set -- "$@" --set config.stack_layers=all ;;
    esac
    # The released code drops out inputs where it adds positions to them, and nowhere else.
    [ "$positions" != sincos ] || set -- "$@" --set config.input_dropout=0.1
    if [ -n "$released" ]; then
        set -- "$@" --set config.as_released=true
        tested=--dropout
    fi
    ;;
*) echo "$model: no such model" >&2; exit 1 ;;
esac

# The shortest equation has three symbols; the released code trains on shorter ones too, which are of zeros.
if [ "$task" = se ] && [ -z "$released" ] && [ "${LENGTHS%-*}" -lt 3 ]; then lengths="3-${LENGTHS#*-}"; fi

# shellcheck disable=SC2086  # options that may be empty
pdtools train --task "$task" --lengths "$lengths" $released "$@" --set "config.objective=$objective" \
    --set "train.steps=$steps" --set "train.batch_sentences=$batch" --set "train.learning_rate=$LEARNING_RATE" \
    --set "train.schedule=$SCHEDULE" --set train.min_learning_rate_ratio=0.1 \
    --set "train.eval_every=$EVAL_EVERY" --seed "$seed" --device "$DEVICE" --threads 1 --resume --quiet -o "$run"
# shellcheck disable=SC2086
pdtools eval-formal task "$OUT/tests/$task.tsv" --model "$run/last" $tested --seed "$seed" --device "$DEVICE" \
    --threads 1 --quiet -o "$results" >"$OUT/results/$name.txt"
