#!/bin/sh
# One cell of the grid: a model, trained on one set of strings. Called by study.sh.
# Usage: run.sh LANGUAGE lstm|gref|jm|ns|ns-s|ns-u|rns RATE RESTART SIZE (of gref and jm; else 0)
set -eu
language=$1 model=$2 rate=$3 restart=$4 size=$5
here=$(cd "$(dirname "$0")" && pwd)
data="$OUT/data/$language"
name="lr$rate-$restart"
[ "$size" = 0 ] || name="size$size-$name"
run="$OUT/runs/$language/$model/$name"

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
set -- "$@" --set "train.learning_rate=$rate" --set "train.steps=$steps" --set "train.eval_every=$epoch" \
    --set "train.seed=$restart"

mkdir -p "$(dirname "$run")"
# Figure 3: the first epochs of two runs are watched. What is left of them is then done as in any other run.
case $language-$model-$rate-$restart in
marked-reversal-ns-s-0.005-1 | marked-reversal-rns-0.005-1)
    [ "$WATCHED" = 0 ] || python "$here/watch.py" "$data" "$run" "$WATCHED" "$@" ;;
esac
# A finished run is left as it is, unless it was started with other settings: then it is an error.
pdtools train "$data/train-$restart" --valid "$data/valid-$restart" --config cfl "$@" --device "$DEVICE" \
    --threads 1 --resume --quiet -o "$run"
echo "$language, $model, $name: done"
