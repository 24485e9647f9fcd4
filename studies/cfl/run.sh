#!/bin/sh
# One model on one language: a run for every learning rate and each of some restarts. Called by study.sh.
# Usage: run.sh LANGUAGE lstm|gref|jm|ns|ns-s|ns-u|rns SIZE (of gref and jm; else 0) RESTART,RESTART,...
set -eu
language=$1 model=$2 size=$3 restarts=$4
here=$(cd "$(dirname "$0")" && pwd)
data="$OUT/data/$language"
runs="$OUT/runs/$language/$model"
name="lr{train.learning_rate}-{train.seed}" cell="$language, $model, restart $restarts"
[ "$size" = 0 ] || name="size$size-$name" cell="$cell, size $size"

# The paper's automata: three states where the language needs them.
case $language in padded-reversal | hardest) states=3 ;; *) states=2 ;; esac
case $model in
lstm) set -- stack=none ;;
gref) set -- stack=stratification "stack_vector=$size" ;;
jm) set -- stack=superposition "stack_vector=$size" ;;
ns) set -- "stack_states=$states" stack_unnormalized=false stack_states_in_reading=false ;;
ns-s) set -- "stack_states=$states" stack_unnormalized=false stack_states_in_reading=true ;;
ns-u) set -- "stack_states=$states" stack_unnormalized=true stack_states_in_reading=false ;;
rns) set -- "stack_states=$states" stack_unnormalized=true stack_states_in_reading=true ;;
*) echo "$model: no such model" >&2; exit 255 ;;
esac
epoch=$((STRINGS / 10))
steps=$((EPOCHS * epoch))
for setting in "$@"; do
    set -- "$@" --set "config.$setting"
    shift
done
set -- "$@" --set "train.steps=$steps" --set "train.eval_every=$epoch"

mkdir -p "$runs"
# Figure 3: the first epochs of two runs are watched. What is left of them is then done as in any other run.
case "$language-$model- $RATES -,$restarts," in
marked-reversal-ns-s-*" 0.005 "*-*,1,* | marked-reversal-rns-*" 0.005 "*-*,1,*)
    [ "$WATCHED" = 0 ] || python "$here/watch.py" "$data" "$runs/lr0.005-1" "$WATCHED" "$@" \
        --set train.learning_rate=0.005 --set train.seed=1 ;;
esac
case $DEVICE-$model in cpu-*ns*) AT_ONCE=1 ;; esac # see study.sh
# Finished runs are left as they are, unless they were started with other settings: then it is an error.
# shellcheck disable=SC2086  # words, however many spaces are between them
pdtools sweep "$data/train-{train.seed}" --valid "$data/valid-{train.seed}" --config cfl "$@" \
    --grid "train.learning_rate=$(echo $RATES | tr ' ' ,)" --grid "train.seed=$restarts" \
    --at-once "$AT_ONCE" --name "$name" --device "$DEVICE" --threads 1 --quiet -o "$runs" >/dev/null
echo "$cell: done"
