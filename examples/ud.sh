#!/bin/sh
# A language from its Universal Dependencies: a base LM and a Pushdown LM, perplexity by both, F1 of the latter's parses.
#
#   sh examples/ud.sh train.conllu valid.conllu test.conllu french
#
# Dependencies become constituents, factored outward from their heads. F1 of right-branching trees is printed too, as a floor.
# Killed, it is run again as it was.
#
# Environment, with defaults:
#   SEEDS="1 2"   VOCABULARY=4000   BEAM=100   STEPS=600 of CONFIG=tiny   SETTINGS="" other settings of the models
set -eu
[ $# -eq 4 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
train=$1 valid=$2 test=$3 out=$4
. "$(dirname "$0")/../studies/common.sh"
mkdir -p "$out"
settled "$out" "VOCABULARY=${VOCABULARY:-4000} BEAM=${BEAM:-100} STEPS=${STEPS:-600} CONFIG=${CONFIG:-tiny} ${SETTINGS:-}"

for part in train valid test; do
    eval "file=\$$part"
    [ -e "$out/$part.trees" ] ||
        pdtools parse "$file" --from conllu --binarize head --on-error skip --quiet -o "$out/$part.trees"
done
[ -e "$out/shards/train" ] || pdtools tapes "$out/train.trees" --tokenizer bpe --vocab-size "${VOCABULARY:-4000}" \
    --text-style raw --quiet -o "$out/shards/train"
for part in valid test; do
    [ -e "$out/shards/$part" ] ||
        pdtools tapes "$out/$part.trees" --tokenizer "$out/shards/train" --quiet -o "$out/shards/$part"
done

for seed in ${SEEDS:-1 2}; do
    for model in transformer pushdown; do
        name=$model-$seed
        set -- --set "train.seed=$seed" --set "train.steps=${STEPS:-600}"
        for setting in ${SETTINGS:-}; do set -- "$@" --set "$setting"; done
        pdtools train "$out/shards/train" --valid "$out/shards/valid" --config "${CONFIG:-tiny}" --model $model "$@" \
            --quiet --resume -o "$out/runs/$name"
        [ -e "$out/results/$name/ppl" ] || pdtools eval-ppl "$out/shards/test" --model "$out/runs/$name" \
            $([ $model = transformer ] || echo --beam "${BEAM:-100}") --quiet -o "$out/results/$name/ppl" >/dev/null
    done
    [ -e "$out/parsed-$seed.trees" ] || pdtools decode "$out/test.trees" --from treebank --model "$out/runs/pushdown-$seed" \
        --beam "${BEAM:-100}" --quiet -o "$out/parsed-$seed.trees"
    [ -e "$out/results/pushdown-$seed/parse" ] || pdtools eval-parse "$out/test.trees" "$out/parsed-$seed.trees" \
        --unlabeled --left-out "$out/parsed-$seed.trees.rejects.jsonl" --quiet -o "$out/results/pushdown-$seed/parse" >/dev/null
done
# A floor for F1: the words of the test branching to the right.
[ -e "$out/right-branching.trees" ] ||
    pdtools parse "$out/test.trees" --from treebank --parser right-branching --quiet -o "$out/right-branching.trees"
pdtools eval-parse "$out/test.trees" "$out/right-branching.trees" --unlabeled -o "$out/right-branching" --overwrite --quiet >&2

pdtools compare "$out"/results/transformer-* "$out"/results/pushdown-*
