#!/bin/sh
# One run: a model trained with one seed, then scored. Called by study.sh.
# Usage: run.sh MODEL SEED
set -eu
model=$1 seed=$2
run=$OUT/runs/$model-$seed results=$OUT/results/$model-$seed
set -- --set "train.seed=$seed" --set "train.steps=$STEPS" --set "config.d_model=$WIDTH" --set "config.d_ff=$((4 * WIDTH))" \
    --set config.heads=4 --set "config.layers=$LAYERS"
for part in input attention output; do set -- "$@" --set "config.${part}_dropout=$DROPOUT"; done
case $model in
dtg) set -- "$@" --set config.lift=true ;;
gilt) set -- "$@" --set config.arcs=set --set "config.scorer_width=$SCORER" ;;
esac
pdtools train "$OUT/shards/train" --valid "$OUT/shards/valid" --config "$CONFIG" --model "$model" "$@" --threads 1 --quiet \
    --resume -o "$run"

set -- --model "$run" --threads 1 --quiet
case $model in pushdown | gilt) set -- "$@" --beam "$BEAM" ;; esac
# once NAME COMMAND...: into results/RUN/NAME
once() {
    scored=$results/$1
    shift
    [ -e "$scored" ] || pdtools "$@" -o "$scored" >/dev/null
}
once ppl eval-ppl "$OUT/shards/test" "$@" --on-error skip --resume
[ -z "$SUITES" ] || once sg eval-sg "$SUITES" "$@" --resume
[ -z "$BLIMP" ] || once blimp eval-blimp "$BLIMP" --limit "$LIMIT" "$@" --resume
case $model in
transformer) ;;
dtg | gilt)
    parsed=$OUT/parsed/$model-$seed.conllu
    mkdir -p "$OUT/parsed"
    [ -e "$parsed" ] || pdtools decode "$OUT/trees/test.trees" --from treebank "$@" --resume -o "$parsed"
    once arcs eval-parse "$TEST" "$parsed"
    ;;
*)
    parsed=$OUT/parsed/$model-$seed.trees
    mkdir -p "$OUT/parsed"
    [ -e "$parsed" ] || pdtools decode "$OUT/trees/test.trees" --from treebank "$@" --resume -o "$parsed"
    once parse eval-parse "$OUT/trees/test.trees" "$parsed" --unlabeled --binarize right \
        --left-out "$parsed.rejects.jsonl" --quiet
    ;;
esac
