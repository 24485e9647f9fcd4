#!/bin/sh
# One run: a model trained on one subset with one seed, then tested. Called by study.sh.
# Usage: run.sh base|pushdown SHARE SEED  (SHARE as 1/8)
set -eu
model=$1 subset=$(echo "$2" | tr / -) seed=$3
name=$model-$subset-$seed
set -- --device "$DEVICE" --threads 1 --quiet
case $model in
base) kind=transformer search= ;;
pushdown) kind=pushdown search="--beam $BEAM --margin $MARGIN" ;;
*) echo "$model: no such model" >&2; exit 255 ;;
esac
shape=
[ -z "$WIDTH" ] || shape="config.d_model=$WIDTH config.d_ff=$((4 * WIDTH)) config.heads=4
    train.learning_rate=2e-3 train.warmup_steps=50"
[ -z "$LAST" ] || [ "$model" = base ] || shape="$shape config.pushdown_layers=last~$LAST"
for part in input attention output; do
    shape="$shape config.${part}_dropout=0.2"
done
for setting in $shape "train.steps=$STEPS" "train.eval_every=$EVERY" "train.patience=$PATIENCE" "train.seed=$seed"; do
    set -- "$@" --set "$(echo "$setting" | tr '~' ' ')"
done
run=$OUT/runs/$name
pdtools train "$OUT/shards/$subset" --valid "$OUT/shards/valid" --config "$CONFIG" --model "$kind" "$@" --resume \
    -o "$run" || exit 1
results=$OUT/results/$name
set -- --model "$run" --device "$DEVICE" --threads 1 --quiet $search
[ -z "${SUITES:-}" ] || [ -e "$results/sg/results.json" ] ||
    pdtools eval-sg "$SUITES" "$@" -o "$results/sg" >/dev/null || exit 1
[ -z "${BLIMP:-}" ] || [ -e "$results/blimp/results.json" ] ||
    pdtools eval-blimp "$BLIMP" --limit "$PAIRS" "$@" -o "$results/blimp" >/dev/null || exit 1
