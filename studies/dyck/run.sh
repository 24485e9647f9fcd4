#!/bin/sh
# One model with one seed: trained, then tested on every set of prefixes. Called by study.sh.
# Usage: run.sh MODEL SEED
# MODEL  base|base-attachment|pushdown|pushdown-distances, pushdown-attention|pushdown-head (distances in the stack in
#        attention alone, in the attachment head alone), or released|released-base: the released networks and their training
set -eu
model=$1 seed=$2
here=$(cd "$(dirname "$0")" && pwd)
run="$OUT/runs/$model-$seed"

config=dyck
case $model in
base) set -- --model transformer ;;
base-attachment) set -- --model transformer --set config.attachment_head=true ;;
pushdown) set -- --model pushdown ;;
pushdown-distances) set -- --model pushdown --set config.stack_distances=true ;;
pushdown-attention | pushdown-head)
    set -- --model pushdown --set config.stack_distances=true --set "config.distances_in=${model#pushdown-}"
    ;;
released | released-base) set -- && config=dyck-$model ;;
*) echo "$model: no such model" >&2; exit 255 ;;
esac
# Those of configs/dyck.toml differ in nothing else: layers, sizes, positions, steps and learning rates are the same.
[ $config != dyck ] || set -- "$@" --set "config.positions=$POSITIONS" --set "train.batch_sentences=$((64 / BATCHES))" \
    --set "train.accumulate=$BATCHES"

# A finished run is left as it is, unless it was started with other settings: then it is an error.
pdtools train "$OUT/train" --valid "$OUT/valid" --config $config "$@" --set "train.steps=$STEPS" \
    --seed "$seed" --device "$DEVICE" --threads 1 --resume --quiet -o "$run"

# close MODEL CHECKPOINT
close() {
    of=$1 checkpoint=$2 results="$OUT/results/$1-$seed"
    # With the depths, how far the model is from the automaton on strings that neither training nor the choice of a
    # checkpoint has seen: perplexity against the exact entropy.
    for file in "$OUT"/prefixes/*.tsv; do
        name=$(basename "$file" .tsv)
        set --
        case $of:$name in
        released-all:depend* | released-allowed:depend*) continue ;;
        released-all:* | released-allowed:*) ;;
        *:depth) set -- --strings "$OUT/test" ;;
        esac
        # Of strings unlike those of training it is unsure, and fills the beam with attachments: many times slower.
        case $SETTING:$of:$name in
        free:*-depth-10 | as-released:*-depth-10 | *:released:nests-as-released) ;;
        *:pushdown:* | *:pushdown-attention:* | *:pushdown-head:* | *:released:* | *:released-all:* | *:released-allowed:*)
            set -- "$@" ${PUSHDOWN_PREFIXES:+--limit "$PUSHDOWN_PREFIXES"}
            ;;
        esac
        [ -e "$results/$name" ] || pdtools eval-formal dyck "$file" "$@" --model "$checkpoint" --beam "$BEAM" \
            --margin "$MARGIN" --device "$DEVICE" --threads 1 --resume --quiet -o "$results/$name" >/dev/null
    done
}
close "$model" "$run"
# The released search never attaches to what is closed; here are its attachments normalised in other ways.
[ "$model" != released ] || for normalize in all allowed; do
    python "$here/renormalized.py" "$run" $normalize "$OUT/runs/released-$normalize-$seed"
    close "released-$normalize" "$OUT/runs/released-$normalize-$seed"
done
echo "$model, seed $seed: done"
