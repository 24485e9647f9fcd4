#!/bin/sh
# Called by study.sh.
# Usage: run.sh rate RATE         a try of RNNG's learning rate, with seed 0
#        run.sh run MODEL SEED    trains a model with one seed, then scores its last step
set -eu

# train OUTPUT MODEL STEPS EVERY SENTENCES SEED OPTION…
train() {
    output=$1 model=$2 steps=$3 every=$4 batch=$5 seed=$6
    shift 6
    case $model in
    rnng) set -- "$@" --config rnng-small --set "config.d_model=$RNNG_WIDTH" --set config.dropout=0.1 ;;
    *)
        kind=$model
        [ "$model" != base ] || kind=transformer
        set -- "$@" --config small --model "$kind" --set "config.d_model=$WIDTH" --set "config.d_ff=$((4 * WIDTH))" \
            --set config.heads=4 --set train.optimizer=muon --set train.learning_rate=4e-3
        [ "$model" != pushdown ] || set -- "$@" --set train.attachment_weight=0.3
        ;;
    esac
    # Every 200 steps a checkpoint, from which a run that was stopped goes on.
    pdtools train "$DATA/shards/train" "$@" --set train.batch_tokens=0 --set "train.batch_sentences=$batch" \
        --set train.patience=0 --set "train.eval_every=$every" --set "train.steps=$steps" --set "train.seed=$seed" --threads 1 --quiet --resume \
        -o "$output"
}

case $1 in
rate)
    train "$OUT/rates/$2" rnng "$RATE_STEPS" "$RATE_STEPS" 64 0 --valid "$DATA/shards/valid" --set "train.learning_rate=$2" \
        --set train.warmup_steps=50 || exit 1
    ;;
run)
    run=$OUT/runs/$2-$3 results=$OUT/results/$2-$3
    rate=
    [ "$2" != rnng ] || rate="--set train.learning_rate=$(cat "$OUT/rate")"
    train "$run" "$2" "$STEPS" 200 32 "$3" $rate || exit 1
    search=
    [ "$2" = base ] || search="--beam $BEAM"
    # score NAME COMMAND INPUT: the results of an evaluation
    score() { pdtools "$2" "$3" --model "$run/last" $search --threads 1 --quiet --resume -o "$results/$1" >/dev/null; }
    score ppl eval-ppl "$OUT/test" || exit 1
    if [ "$2" != base ] && [ ! -e "$results/unlabeled" ]; then
        pdtools decode "$OUT/test.trees" --from treebank --model "$run/last" $search --threads 1 --quiet --resume \
            -o "$results/parsed.trees" || exit 1
        left="--left-out $results/parsed.trees.rejects.jsonl"
        [ "$2" = pushdown ] || [ -e "$results/labelled" ] ||
            pdtools eval-parse "$OUT/test.trees" "$results/parsed.trees" $left --quiet -o "$results/labelled" >/dev/null || exit 1
        pdtools eval-parse "$OUT/test.trees" "$results/parsed.trees" $left --unlabeled --binarize right --quiet \
            -o "$results/unlabeled" >/dev/null || exit 1
    fi
    if [ -n "$SAP" ] && [ ! -e "$results/sap.csv" ]; then
        pdtools surprisal "$OUT/sap.csv" --words --model "$run/last" $search --threads 1 --quiet --resume -o "$results/words.csv" ||
            exit 1
        python "$(dirname "$0")/../reading/sap.py" bits "$SAP" "$results/words.csv" "$results/sap.part" || exit 1
        mv "$results/sap.part" "$results/sap.csv"
    fi
    [ -z "$SUITES" ] || score sg eval-sg "$SUITES" || exit 1
    ;;
esac
