#!/bin/sh
# One model with one seed: trained, then tested on every set of prefixes. Called by study.sh.
# Usage: run.sh base|base-attachment|pushdown|pushdown-distances|pushdown-attention|pushdown-head SEED
# (the last two: distances in the stack in attention alone, in the attachment head alone)
set -eu
model=$1 seed=$2
run="$OUT/runs/$model-$seed"
results="$OUT/results/$model-$seed"

# They differ in nothing else: layers, sizes, positions, steps and learning rates are those of configs/dyck.toml.
case $model in
base) set -- --model transformer ;;
base-attachment) set -- --model transformer --set config.attachment_head=true ;;
pushdown) set -- --model pushdown ;;
pushdown-distances) set -- --model pushdown --set config.stack_distances=true ;;
pushdown-attention | pushdown-head)
    set -- --model pushdown --set config.stack_distances=true --set "config.distances_in=${model#pushdown-}"
    ;;
*) echo "$model: no such model" >&2; exit 255 ;;
esac

# A finished run is left as it is, unless it was started with other settings: then it is an error.
pdtools train "$OUT/train" --valid "$OUT/valid" --config dyck "$@" --set "config.positions=$POSITIONS" \
    --set "train.steps=$STEPS" --set "train.batch_sentences=$((64 / BATCHES))" --set "train.accumulate=$BATCHES" \
    --seed "$seed" --device "$DEVICE" --threads 1 --resume --quiet -o "$run"
# With the depths, how far the model is from the automaton on strings that neither training nor the choice of a
# checkpoint has seen: perplexity against the exact entropy.
for file in "$OUT"/prefixes/*.tsv; do
    name=$(basename "$file" .tsv)
    if [ "$name" = depth ]; then set -- --strings "$OUT/test"; else set --; fi
    # Of strings unlike those of training it is unsure, and fills the beam with attachments: many times slower.
    case $SETTING:$model:$name in
    free:*-depth-10) ;;
    *:pushdown:* | *:pushdown-attention:* | *:pushdown-head:*)
        set -- "$@" ${PUSHDOWN_PREFIXES:+--limit "$PUSHDOWN_PREFIXES"}
        ;;
    esac
    [ -e "$results/$name" ] || pdtools eval-formal dyck "$file" "$@" --model "$run" --beam "$BEAM" --margin "$MARGIN" \
        --device "$DEVICE" --threads 1 --resume --quiet -o "$results/$name" >/dev/null
done
echo "$model, seed $seed: done"
