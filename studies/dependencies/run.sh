#!/bin/sh
# One stage of one run: a model trained with one seed, or its scores. Called by study.sh.
# Usage: run.sh runs|scores|suites MODEL SEED
set -eu
stage=$1 model=$2 seed=$3
run=$OUT/runs/$model-$seed results=$OUT/results/$model-$seed

if [ "$stage" = runs ]; then
    set -- --set "train.seed=$seed" --set "train.steps=$STEPS" --set "train.batch_sentences=$SENTENCES" \
        --set train.batch_tokens=0 --set train.eval_every=100 --set "config.layers=$LAYERS" \
        --set "config.d_model=$WIDTH" --set "config.d_ff=$((4 * WIDTH))" --set config.heads=4
    for part in input attention output; do set -- "$@" --set "config.${part}_dropout=$DROPOUT"; done
    case $model in
    dtg) set -- "$@" --set config.lift=true ;;
    gilt*) set -- "$@" --set config.arcs=set ;;
    esac
    case $model in gilt-*) set -- "$@" --set "config.scorer_width=${model#gilt-}" ;; esac
    exec pdtools train "$OUT/shards/train" --valid "$OUT/shards/valid" --config "$CONFIG" --model "${model%-[0-9]*}" "$@" \
        --threads 1 --quiet --resume -o "$run"
fi

case $model in
pushdown) beam=$BEAM suites_beam=$SUITES_BEAM ;;
gilt*) beam=$GRAPH_BEAM suites_beam=$SUITES_BEAM ;;
*) beam=$ACTION_BEAM suites_beam=$SUITES_ACTION_BEAM ;;
esac
[ "$stage" = scores ] || beam=$suites_beam
set -- --model "$run" --threads 1 --quiet --resume
[ "$model" = transformer ] || set -- "$@" --beam "$beam" --margin "$MARGIN"
# once NAME COMMAND...: into results/RUN/NAME
once() {
    scored=$results/$1
    shift
    [ -e "$scored" ] || pdtools "$@" -o "$scored" >/dev/null
}
if [ "$stage" = suites ]; then
    [ -z "$SUITES" ] || once sg eval-sg "$SUITES" "$@"
    [ -z "$BLIMP" ] || once blimp eval-blimp "$BLIMP" --limit "$LIMIT" "$@"
    exit
fi
mkdir -p "$OUT/parsed"
for test in $TESTS; do
    once "ppl-$test" eval-ppl "$OUT/shards/$test" "$@" --on-error skip
    [ "$model" != transformer ] || continue
    parsed=$OUT/parsed/$model-$seed-$test
    case $model in dtg | gilt*) parsed=$parsed.conllu ;; *) parsed=$parsed.trees ;; esac
    [ -e "$parsed" ] || pdtools decode "$OUT/trees/$test.trees" --from treebank "$@" -o "$parsed"
    case $model in
    dtg | gilt*) once "arcs-$test" eval-parse "$OUT/conllu/$test.conllu" "$parsed" ;;
    *) once "parse-$test" eval-parse "$OUT/trees/$test.trees" "$parsed" --unlabeled --binarize right \
        --left-out "$parsed.rejects.jsonl" --quiet ;;
    esac
done
