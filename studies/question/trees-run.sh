#!/bin/sh
# Called by trees.sh.
# Usage: trees-run.sh try MODEL RATE WEIGHT  one try of the tuning: two passes with seed 0, and its marginal perplexity
#        trees-run.sh fold N                 the parser of a fold, and what it makes of the fold's sentences
#        trees-run.sh run CONDITION SEED     seven passes; where SUITES and BLIMP are there the scores after two, four and seven
#                                            and the perplexity of 500 test sentences (scores-trees/CONDITION-SEED.csv.gz)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
pass=821 # steps of 2,048 positions

# train OUTPUT SHARDS MODEL STEPS RATE WEIGHT SEED KEEP
train() {
    case $3 in
    base) set -- "$@" transformer config.attachment_head=false ;;
    base-head) set -- "$@" transformer config.attachment_head=true ;;
    pushdown) set -- "$@" pushdown config.layers=4 ;;
    esac
    pdtools train "$2" --valid "$OUT/shards/valid" --config small --model "$9" --threads 1 --quiet --resume -o "$1" \
        --set config.d_model=128 --set config.d_ff=512 --set config.heads=4 --set config.layers=4 --set "${10}" \
        --set config.input_dropout=0.1 --set config.attention_dropout=0.1 --set config.output_dropout=0.1 \
        --set train.optimizer=muon --set train.batch_tokens=2048 --set train.batch_sentences=0 --set train.patience=0 \
        --set train.warmup_steps=200 --set train.eval_every=$pass --set "train.steps=$4" --set "train.learning_rate=$5" \
        --set "train.attachment_weight=$6" --set "train.seed=$7" --set "train.keep_at=[$8]"
}

case $1 in
try)
    try=$OUT/tuning/${2}_${3}_$4
    [ ! -e "$try/ppl/results.json" ] || exit 0
    ! grep -qs "^$2 $3 $4: " "$here/tried-trees.txt" || exit 0
    train "$try/run" "$OUT/shards/train" "$2" $((2 * pass)) "$3" "$4" 0 "" || exit 1
    perplexity "$OUT/valid-500" "$2" "$try/run/last" "$try/ppl" || exit 1
    ;;
fold)
    fold=$OUT/folds/$2
    [ -e "$fold/parser.pt" ] ||
        python "$here/../benepar_parser.py" "$fold/train.trees" "$fold/parser.pt" --steps 3000 --width 256 || exit 1
    [ -e "$fold/parsed.trees" ] ||
        pdtools parse "$fold/words.txt" --from tokens --model "$fold/parser.pt" --binarize none --threads 1 --quiet --resume \
            -o "$fold/parsed.trees" || exit 1
    ;;
run)
    [ ! -e "$here/scores-trees/$2-$3.csv.gz" ] || exit 0
    run=$OUT/runs/$2-$3 model=${2%-auto} shards=train
    [ "$model" = "$2" ] || shards=auto
    read -r rate weight <<SETTINGS
$(sed -n "s/^$model //p" "$OUT/chosen")
SETTINGS
    train "$run" "$OUT/shards/$shards" "$model" $((7 * pass)) "$rate" "$weight" "$3" \
        "\"$((2 * pass)) steps\", \"$((4 * pass)) steps\", \"$((7 * pass)) steps\"" || exit 1
    search=
    [ "$model" != pushdown ] || search="--beam 50"
    for passes in 2 4 7; do
        results=$OUT/results/$2-$3/$passes
        [ -z "$SUITES" ] || pdtools eval-sg "$SUITES" $search --model "$run/step-$((passes * pass))" --threads 1 --quiet --resume \
            -o "$results/sg" >/dev/null || exit 1
        [ -z "$BLIMP" ] || [ $passes != 7 ] || pdtools eval-blimp "$BLIMP" --limit 100 $search --model "$run/step-$((7 * pass))" \
            --threads 1 --quiet --resume -o "$results/blimp" >/dev/null || exit 1
    done
    [ -n "$SUITES" ] && [ -n "$BLIMP" ] || exit 0
    perplexity "$OUT/test-500" "$model" "$run/step-$((7 * pass))" "$OUT/results/$2-$3/7/ppl" || exit 1
    mkdir -p "$here/scores-trees"
    python "$here/margins.py" collect "$OUT/results/$2-$3" -o "$here/scores-trees/$2-$3.csv.gz"
    ;;
esac
