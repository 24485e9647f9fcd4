#!/bin/sh
# One language model with one seed: trained on blocks, then its perplexity. Called by study.sh.
# Usage: run.sh masked|causal vanilla|stack SEED
set -eu
objective=$1 kind=$2 seed=$3
name="$objective-$kind-$seed" blocks="$OUT/blocks/$objective"
run="$OUT/runs/$name" results="$OUT/results/$name"
[ ! -d "$results" ] || exit 0

case $objective in masked) config=roberta-stack pretrained=$ROBERTA ;; *) config=gpt2-stack pretrained=$GPT2 ;; esac
set -- --config "$config"
rate=$SCRATCH_RATE
[ "$kind" = stack ] || set -- "$@" --set config.stack_layers=none
if [ -n "$pretrained" ] && [ "$SCRATCH" = 0 ]; then
    set -- "$@" --init "$pretrained"
    rate=$PRETRAINED_RATE
elif [ "$FULL" = 0 ]; then
    set -- "$@" --set config.layers=4 --set config.d_model=128 --set config.heads=4 --set config.d_ff=512 \
        --set config.max_length=512
fi
rows=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["counts"]["sentences"])' "$blocks/train/manifest.json")
epoch=$(((rows + BATCH - 1) / BATCH))
pdtools train "$blocks/train" --valid "$blocks/valid" "$@" --set "train.batch_sentences=$BATCH" \
    --set "train.learning_rate=$rate" --set "train.eval_every=$epoch" --set "train.steps=$((epoch * EPOCHS))" \
    --seed "$seed" --device "$DEVICE" --threads 1 --resume --quiet -o "$run"
pdtools eval-ppl "$blocks/test" --model "$run" --device "$DEVICE" --threads 1 --quiet -o "$results" \
    >"$OUT/results/$name.txt"
