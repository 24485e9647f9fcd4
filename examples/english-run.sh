#!/bin/sh
# Called by english.sh.
# Usage: english-run.sh runs MODEL SEED    trains a model with one seed
#        english-run.sh scores MODEL SEED  scores it
set -eu
trap 'exit 138' USR1
run=$OUT/runs/$2-$3 results=$OUT/results/$2-$3
case $2 in
base) kind=transformer search= words= ;;
pushdown) kind=pushdown search="--beam $BLIMP_BEAM" words="--beam $BEAM" ;;
*) echo "$2: no such model" >&2; exit 255 ;;
esac
case $1 in
runs)
    set --
    for words in $KEEP; do set -- "$@" "\"$words words\""; done
    keep=$(IFS=,; echo "$*")
    set --
    for setting in ${SMALL:-}; do set -- "$@" --set "$setting"; done
    pdtools train "$OUT/shards/train" --valid "$OUT/shards/valid" --config english --model $kind --threads 1 --quiet \
        --set "train.seed=${run##*-}" --set "train.steps=$STEPS" --set "train.batch_tokens=$BATCH" \
        --set "train.learning_rate=$RATE" --set "train.attachment_weight=$ATTACHMENT_WEIGHT" \
        --set "config.input_dropout=$DROPOUT" --set "config.attention_dropout=$DROPOUT" \
        --set "config.output_dropout=$DROPOUT" --set "train.keep_at=[$keep]" ${FROM:+--init "$FROM/${run##*/}"} "$@" \
        --resume -o "$run" || exit 1
    ;;
scores)
    model=$OUT/models/$2-$3
    [ -e "$model" ] || pdtools export "$run" -o "$model" --dtype float16 --quiet || exit 1
    set -- --model "$model" --threads 1 --quiet --resume
    [ -z "$SUITES" ] || pdtools eval-sg "$SUITES" "$@" $search -o "$results/sg" >/dev/null || exit 1
    [ -z "$BLIMP" ] || pdtools eval-blimp "$BLIMP" "$@" ${BLIMP_LIMIT:+--limit "$BLIMP_LIMIT"} $search \
        -o "$results/blimp" >/dev/null || exit 1
    while read -r book; do
        pdtools eval-ppl "$OUT/shards/$book" "$@" $words -o "$results/ppl/$book" >/dev/null || exit 1
        [ "$kind" = transformer ] || pdtools eval-ppl "$OUT/shards/$book" "$@" --no-marginal \
            --particles "$PARTICLES" -o "$results/particles/$book" >/dev/null || exit 1
    done < "$OUT/text/tests"
    set -- "$run" -o "$model" --dtype float16 --overwrite --quiet ${ABOUT:+--about "$ABOUT"}
    for scored in "$results/sg" "$results/blimp" "$results"/ppl/*; do
        [ ! -e "$scored" ] || set -- "$@" --results "$scored"
    done
    pdtools export "$@" || exit 1
    ;;
esac
