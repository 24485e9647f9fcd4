#!/bin/sh
# The models to try that come with pdtools (data/models/): the same shape with and without the stack tape, trained on
# trees of the bundled grammar. About five minutes on a core.
# Usage: demo-model.sh [OUTPUT FOLDER]
set -eu
cd "$(dirname "$0")/.."
sample=$PWD/data
mkdir -p "${1:-demo-model}"
cd "${1:-demo-model}"
rm -rf shards run-pushdown run-transformer demo demo-base results blimp sg
cp -R "$sample/blimp" "$sample/sg" .

python -m pdtools.data.more_trees -o train.mrg
pdtools parse train.mrg --from treebank -o train.trees --overwrite --quiet
pdtools parse "$sample/treebank/valid.mrg" --from treebank -o valid.trees --overwrite --quiet
pdtools tapes train.trees --tokenizer word --no-unk --tape none -o shards/train --quiet
pdtools tapes valid.trees --tokenizer shards/train --tape none -o shards/valid --quiet

about="One of the two models to try that come with pdtools. It knows only the words of the bundled grammar
(\`pdtools.data\`), of which it has read 24,000 sentences, none of them in the sample's test and evaluation data; the
other one is the same without the stack tape, or with it. Made by \`make demo-model\`."
for model in pushdown transformer; do
    pdtools train shards/train --valid shards/valid --config tiny --model $model \
        --set config.attachment_head=true --set config.d_ff=256 --set train.steps=1500 --set train.warmup_steps=100 \
        --set train.eval_every=500 --set train.learning_rate=3e-3 -o run-$model --threads 1
    name=demo
    [ $model = pushdown ] || name=demo-base
    # What is scored is what comes with pdtools: weights in half precision.
    pdtools export run-$model -o $name --dtype float16 --quiet
    pdtools eval-blimp blimp --model ./$name -o results/$name/blimp --threads 1 --quiet > /dev/null
    pdtools eval-sg sg --model ./$name -o results/$name/sg --threads 1 --quiet > /dev/null
    pdtools export run-$model -o $name --dtype float16 --about "$about" \
        --results results/$name/blimp --results results/$name/sg --overwrite
done
