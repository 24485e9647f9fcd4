#!/bin/sh
# The whole pipeline on the bundled data: two models, trained, parsed with, and scored at the same time, a thread each.
# Under four minutes on 2 cores.
# Usage: demo.sh [OUTPUT FOLDER]
set -eu
cd "$(dirname "$0")/.."
out=${1:-demo-output}
rm -rf "$out"
mkdir -p "$out/results"

# Does one step for both models. The first that fails ends the other one and the demo, as Ctrl-C does.
both() {
    "$1" transformer & one=$!
    "$1" pushdown & two=$!
    running="$one $two"
    while kill -0 $one && kill -0 $two; do sleep 1; done 2> /dev/null
    if kill -0 $one 2> /dev/null; then wait $two; wait $one; else wait $one; wait $two; fi
    running=
}
running=
trap 'kill $running 2> /dev/null || true; wait' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# 1. A treebank in PTB style (traces, function tags, wrappers) becomes binarized trees, one a line.
for split in train valid test; do
    pdtools parse data/treebank/$split.mrg --from treebank -o "$out/$split.trees" --quiet
done

# 2. Trees become shards: tokens, attachments, stack tapes. The paper trains without <unk>.
pdtools tapes "$out/train.trees" --tokenizer word --no-unk -o "$out/shards/train" --quiet
for split in valid test; do
    pdtools tapes "$out/$split.trees" --tokenizer "$out/shards/train" -o "$out/shards/$split" --quiet
done

# 3. The same shape twice, without and with the stack tape. Both get the attachment head, so both can parse.
train() {
    quiet=
    [ "$1" = pushdown ] || quiet=--quiet # there is one line for a bar
    exec pdtools train "$out/shards/train" --valid "$out/shards/valid" --config tiny --model "$1" \
        --set config.attachment_head=true -o "$out/$1" --threads 1 $quiet
}
both train

# 4. Parse the test sentences, and score the trees; then perplexity, mini BLiMP, mini SG.
parse() {
    exec pdtools decode "$out/test.trees" --from treebank --model "$out/$1" --beam 10 -o "$out/$1.trees" \
        --threads 1 --quiet
}
# The paper's measure: unlabeled F1 over binarized gold trees, without sentences that have unknown words.
score_parses() {
    exec pdtools eval-parse "$out/test.trees" "$out/$1.trees" --unlabeled --binarize right \
        --left-out "$out/$1.trees.rejects.jsonl" -o "$out/results/$1/parse" > "$out/results/$1.parse.txt"
}
score() {
    name=$1 data=$2 model=$3
    exec pdtools "eval-$name" "$data" --model "$out/$model" --beam 10 -o "$out/results/$model/$name" \
        --threads 1 --quiet > "$out/results/$model.$name.txt"
}
perplexity() { score ppl "$out/shards/test" "$1"; }
blimp() { score blimp data/blimp "$1"; }
suites() { score sg data/sg "$1"; }
for step in parse score_parses perplexity blimp suites; do both $step; done

# 5. One table for both.
echo
pdtools compare "$out/results/transformer" "$out/results/pushdown"
