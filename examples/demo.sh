#!/bin/sh
# The whole pipeline on the bundled data: two models, trained, parsed with, and scored. About three minutes on 2 cores.
# Usage: demo.sh [OUTPUT FOLDER]
set -eu
cd "$(dirname "$0")/.."
out=${1:-demo-output}
rm -rf "$out"
mkdir -p "$out/results"

# 1. A treebank in PTB style (traces, function tags, wrappers) becomes binarized trees, one a line.
for split in train valid test; do
    pdtools parse data/treebank/$split.mrg --from treebank -o "$out/$split.trees" --quiet
done

# 2. Trees become shards: tokens, attachments, stack tapes. The paper trains without <unk>.
pdtools tapes "$out/train.trees" --tokenizer word --no-unk -o "$out/shards/train" --quiet
for split in valid test; do
    pdtools tapes "$out/$split.trees" --tokenizer "$out/shards/train" -o "$out/shards/$split" --quiet
done

for model in transformer pushdown; do
    # 3. The same shape twice, without and with the stack tape. Both get the attachment head, so both can parse.
    pdtools train "$out/shards/train" --valid "$out/shards/valid" --config tiny --model $model \
        --set config.attachment_head=true -o "$out/$model"

    # 4. Parse the test sentences, and score the trees; then perplexity, mini BLiMP, mini SG.
    trees="$out/$model.trees"
    results="$out/results/$model"
    pdtools decode "$out/test.trees" --from treebank --model "$out/$model" --beam 10 -o "$trees" --quiet
    # The paper's measure: unlabeled F1 over binarized gold trees, without sentences that have unknown words.
    pdtools eval-parse "$out/test.trees" "$trees" --unlabeled --binarize right \
        --left-out "$trees.rejects.jsonl" -o "$results/parse" > "$results.parse.txt"
    pdtools eval-ppl "$out/shards/test" --model "$out/$model" --beam 10 -o "$results/ppl" --quiet > "$results.ppl.txt"
    pdtools eval-blimp data/blimp --model "$out/$model" --beam 10 -o "$results/blimp" --quiet > "$results.blimp.txt"
    pdtools eval-sg data/sg --model "$out/$model" --beam 10 -o "$results/sg" --quiet > "$results.sg.txt"
done

# 5. One table for both.
echo
pdtools compare "$out/results/transformer" "$out/results/pushdown"
