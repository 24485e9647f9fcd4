#!/bin/sh
# Called by english.sh.
# Usage: english-try.sh MODEL RATE OTHER   one try of the tuning: a quarter of a pass with seed 0, and its marginal perplexity
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
model=$1 rate=$2 other=$3
try=$OUT/tuning/${model}_${rate}_$other weight=1 dropout=0
case $model in
base) kind=transformer dropout=$other ;;
pushdown) kind=pushdown weight=$other ;;
esac
[ ! -e "$try/ppl/results.json" ] || exit 0
! grep -qs "^$model $rate $other: " "$here/tried-english.txt" || exit 0
set --
for setting in $SHAPE; do set -- "$@" --set "$setting"; done
pdtools train "$OUT/english/shards/train" --valid "$OUT/english/shards/valid" --config english --model $kind --threads 1 --quiet \
    --set train.seed=0 --set train.steps=1700 --set train.eval_every=1700 --set train.batch_tokens=2048 \
    --set "train.learning_rate=$rate" --set "train.attachment_weight=$weight" --set "config.input_dropout=$dropout" \
    --set "config.attention_dropout=$dropout" --set "config.output_dropout=$dropout" "$@" --resume -o "$try/run" || exit 1
perplexity "$OUT/valid-500" "$model" "$try/run" "$try/ppl" || exit 1
