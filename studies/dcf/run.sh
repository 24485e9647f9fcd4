#!/bin/sh
# One model on one task with one seed: trained, then tested on longer strings. Called by study.sh.
# Usage: run.sh rs|sm|ma|se masked|causal MODEL SEED
#   MODEL: vanilla-POSITIONS or stack-POSITIONS (none, sincos, relative, rotary, alibi), the same with -released
#   behind it, rnn, or stack-rnn (masked alone)
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
lengths=$LENGTHS released="" tested=""
case $model in
rnn) set -- --config dcf-rnn --set config.stack=none ;;
stack-rnn) set -- --config dcf-rnn ;;
*)
    positions=${model#*-}
    case $positions in
    *-released)
        positions=${positions%-released}
        set -- --set config.as_released=true
        released=--as-released tested=--dropout
        ;;
    *) set -- ;;
    esac
    case $model in
    vanilla-*) set -- "$@" --set config.stack_layers=none ;;
    stack-*) set -- "$@" --set config.stack_layers=all ;;
    *) echo "$model: no such model" >&2; exit 1 ;;
    esac
    # The released code drops out inputs where it adds positions to them, and nowhere else.
    [ "$positions" != sincos ] || set -- "$@" --set config.input_dropout=0.1
    set -- --config dcf "$@" --set "config.positions=$positions"
    ;;
esac

# The shortest equation has three symbols; the released code trains on shorter ones too, which are of zeros.
if [ "$task" = se ] && [ -z "$released" ] && [ "${LENGTHS%-*}" -lt 3 ]; then lengths="3-${LENGTHS#*-}"; fi

# shellcheck disable=SC2086  # options that may be empty
pdtools train --task "$task" --lengths "$lengths" $released "$@" --set "config.objective=$objective" \
    --set "train.steps=$steps" --set "train.batch_sentences=$batch" --set "train.learning_rate=$LEARNING_RATE" \
    --set "train.eval_every=$EVAL_EVERY" --seed "$seed" --device "$DEVICE" --threads 1 --resume --quiet -o "$run"
# shellcheck disable=SC2086
pdtools eval-task "$OUT/tests/$task.tsv" --model "$run/last" $tested --seed "$seed" --device "$DEVICE" \
    --threads 1 --quiet -o "$results" >"$OUT/results/$name.txt"
