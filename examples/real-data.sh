#!/bin/sh
# A real pipeline: a treebank of yours (Penn Treebank brackets), BLiMP and the SG suites.
# Usage: real-data.sh TREEBANK-FOLDER BLiMP.zip SG-SUITES OUTPUT-FOLDER
#   TREEBANK-FOLDER  *.mrg, *.ptb, *.tree ... (nltk's sample: python -m nltk.downloader treebank)
#   BLiMP.zip        from github.com/alexwarstadt/blimp
#   SG-SUITES        test_suites/json from github.com/cpllab/syntactic-generalization, a folder or a zip
set -eu
treebank=$1 blimp=$2 suites=$3 out=$4
mkdir -p "$out"

# Broken trees are left out, counted, and written to *.rejects.jsonl; identical sentences share a split.
pdtools parse "$treebank" --from treebank --split 0.9,0.05,0.05 --on-error skip -o "$out/trees"

pdtools tapes "$out/trees/train.trees" --tokenizer bpe --vocab-size 8000 -o "$out/shards/train"
for split in valid test; do
    pdtools tapes "$out/trees/$split.trees" --tokenizer "$out/shards/train" -o "$out/shards/$split"
done

for model in transformer pushdown; do
    pdtools train "$out/shards/train" --valid "$out/shards/valid" --config small --model $model -o "$out/$model"
    pdtools eval-ppl "$out/shards/test" --model "$out/$model" --beam 10 -o "$out/results/$model/ppl"
    pdtools eval-blimp "$blimp" --model "$out/$model" --beam 10 -o "$out/results/$model/blimp"
    pdtools eval-sg "$suites" --model "$out/$model" --beam 10 -o "$out/results/$model/sg"
done

# The pushdown model's parses, by the paper's measure.
pdtools decode "$out/trees/test.trees" --from treebank --model "$out/pushdown" --beam 10 -o "$out/parsed.trees"
pdtools eval-parse "$out/trees/test.trees" "$out/parsed.trees" --unlabeled --binarize right \
    --left-out "$out/parsed.trees.rejects.jsonl" -o "$out/results/pushdown/parse"

# Where do the two differ, and is it more than chance?
pdtools compare "$out/results/transformer/blimp" "$out/results/pushdown/blimp"
pdtools compare "$out/results/transformer/sg" "$out/results/pushdown/sg"
pdtools compare "$out/results/transformer" "$out/results/pushdown"
