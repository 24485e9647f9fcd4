#!/bin/sh
# Called by agreement.sh.
# Usage: agreement-run.sh try MODEL RATE OTHER   one try of the tuning, at 300,000 words with seed 0, and its marginal perplexity
#        agreement-run.sh run MODEL WORDS SEED   one run, its pairs and its perplexity of 500 test sentences
#                                                (scores-agreement/MODEL-WORDS-SEED.csv.gz)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"

# train OUTPUT MODEL WORDS RATE OTHER SEED
train() {
    kind=transformer head=config.attachment_head=true weight=$5 dropout=0.1
    case $2 in
    base) head=config.attachment_head=false weight=1 dropout=$5 ;;
    pushdown) kind=pushdown head=config.layers=4 ;;
    esac
    pdtools train "$OUT/shards/train-$3" --valid "$OUT/shards/valid" --config small --model $kind --threads 1 --quiet --resume \
        -o "$1" --set config.d_model=64 --set config.d_ff=256 --set config.heads=4 --set $head \
        --set "config.input_dropout=$dropout" --set "config.attention_dropout=$dropout" --set "config.output_dropout=$dropout" \
        --set train.optimizer=muon --set train.batch_tokens=2048 --set train.patience=0 --set train.steps=2000 \
        --set train.eval_every=50 --set "train.learning_rate=$4" --set "train.attachment_weight=$weight" --set "train.seed=$6"
}

case $1 in
try)
    try=$OUT/tuning/${2}_${3}_$4
    [ ! -e "$try/ppl/results.json" ] || exit 0
    ! grep -qs "^$2 $3 $4: " "$here/tried-agreement.txt" || exit 0
    train "$try/run" "$2" 300000 "$3" "$4" 0 || exit 1
    perplexity "$OUT/shards/valid" "$2" "$try/run" "$try/ppl" || exit 1
    ;;
run)
    name=$2-$3-$4
    [ ! -e "$here/scores-agreement/$name.csv.gz" ] || exit 0
    read -r rate other <<SETTINGS
$(sed -n "s/^$2 //p" "$OUT/chosen")
SETTINGS
    train "$OUT/runs/$name" "$2" "$3" "$rate" "$other" "$4" || exit 1
    search=
    [ "$2" != pushdown ] || search="--beam 50"
    pdtools eval-blimp "$OUT/text/pairs" $search --model "$OUT/runs/$name" --threads 1 --quiet --resume \
        -o "$OUT/results/$name/blimp" >/dev/null || exit 1
    perplexity "$OUT/shards/test" "$2" "$OUT/runs/$name" "$OUT/results/$name/ppl" || exit 1
    mkdir -p "$here/scores-agreement"
    python "$here/margins.py" collect "$OUT/results/$name" -o "$here/scores-agreement/$name.csv.gz"
    ;;
esac
