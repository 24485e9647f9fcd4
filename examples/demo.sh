#!/bin/sh
# The whole pipeline on the bundled data: two models, trained, parsed with, and scored. About four minutes on 2 cores.
# Usage: demo.sh [OUTPUT FOLDER]
set -eu
cd "$(dirname "$0")/.."
out=${1:-demo-output}
rm -rf "$out"
mkdir -p "$out"

# 1. A treebank in PTB style (traces, function tags, wrappers) becomes binarized trees, one a line.
for split in train valid test; do
    pdtools parse data/treebank/$split.mrg --from treebank -o "$out/$split.trees" --quiet
done

# 2. Trees become shards: tokens, attachments, stack tapes. The paper trains without <unk>.
pdtools tapes "$out/train.trees" --tokenizer word --no-unk -o "$out/shards/train" --quiet
for split in valid test; do
    pdtools tapes "$out/$split.trees" --tokenizer "$out/shards/train" -o "$out/shards/$split" --quiet
done

# The test sentences as plain text, one a line, for the models to parse.
pdtools show "$out/shards/test" --text > "$out/test.txt"

for model in transformer pushdown; do
    # 3. The same shape twice: without and with the stack tape. Both get the attachment loss.
    pdtools train "$out/shards/train" --valid "$out/shards/valid" --config tiny --model $model -o "$out/$model"

    # 4. Parse the test sentences, and score the trees; then perplexity, mini BLiMP, mini SG.
    results="$out/results/$model"
    pdtools decode "$out/test.txt" --from tokens --model "$out/$model" --beam 10 -o "$out/$model.trees" --quiet
    pdtools eval-parse "$out/test.trees" "$out/$model.trees" --unlabeled -o "$results/parse" --quiet
    pdtools eval-ppl "$out/shards/test" --model "$out/$model" --beam 10 -o "$results/ppl" --quiet
    pdtools eval-blimp data/blimp --model "$out/$model" --beam 10 -o "$results/blimp" --quiet
    pdtools eval-sg data/sg --model "$out/$model" --beam 10 -o "$results/sg" --quiet
done

# 5. One table for both.
python examples/demo_table.py "$out/results"
