#!/bin/sh
# One run: a model with one draw of learning rate and clipping threshold. Called by study.sh.
# Usage: run.sh lstm|jm-hidden|jm-learned|ns-Q-S|rns-Q-S DRAW
set -eu
model=$1 draw=$2
here=$(cd "$(dirname "$0")" && pwd)
units=$UNITS
case $model in
lstm) set -- stack=none ;;
jm-hidden) units=$((UNITS - 9)); set -- stack=superposition stack_push=hidden stack_depth=10 ;;
jm-learned) set -- stack=superposition stack_vector=22 stack_depth=10 ;;
ns-* | rns-*)
    sizes=${model#*-}
    is_rns=false
    [ "${model%%-*}" = ns ] || is_rns=true
    set -- "stack_states=${sizes%-*}" "stack_symbols=${sizes#*-}" "stack_unnormalized=$is_rns" \
        "stack_states_in_reading=$is_rns"
    ;;
*) echo "$model: no such model" >&2; exit 255 ;;
esac
for setting in "$@" "hidden_size=$units" "embedding_size=$units"; do
    set -- "$@" --set "config.$setting"
done
while [ "$1" != --set ]; do shift; done
# Learning rate, clipping threshold, steps of an epoch: the draws are the same for all models.
python "$here/report.py" draw "$SHARDS" "$draw" | {
    read -r rate clip epoch
    pdtools train "$SHARDS/train" --valid "$SHARDS/valid" --config ptb-rnn "$@" --set "train.learning_rate=$rate" \
        --set "train.clip=$clip" --set "train.eval_every=$epoch" --set "train.steps=$((EPOCHS * epoch))" \
        --set "train.seed=$draw" --device "$DEVICE" --threads 1 --resume --quiet -o "$OUT/runs/$model-$draw"
} || exit 1
