#!/bin/sh
# From text in WikiText's style to shards of windows: clean it, split it into sentences, parse these, pack the trees.
#
#   sh examples/wikitrees.sh wiki.train.raw wiki/train                     # parsed by benepar
#   WORKERS=8 PARSER=runs/pushdown sh examples/wikitrees.sh wiki.train.raw wiki/train
#   TOKENIZER=wiki/train/windows sh examples/wikitrees.sh wiki.valid.raw wiki/valid
#   JOBS=64 sh examples/wikitrees.sh wiki.train.raw wiki/train             # parsed by a Slurm array
#
# Killed, it is run again as it was: what is finished is not done again.
# MODEL (a benepar model), WINDOW (512), VOCAB_SIZE (32000): as below.
set -eu
text=$1
out=$2
parser=${PARSER:-benepar}
mkdir -p "$out"

# 1. Headings end documents, and so become blank lines; "twenty @-@ one" is "twenty-one", "1 @,@ 000" is "1,000".
if [ ! -e "$out/text.txt" ]; then
    sed -E -e 's/^[[:space:]]*=[[:space:]].*[[:space:]]=[[:space:]]*$//' -e 's/ @([-,.])@ /\1/g' "$text" > "$out/text.part"
    mv "$out/text.part" "$out/text.txt"
fi

# 2. One tree a line; (X (-NONE- *)) where a document ends.
parse() {
    set -- parse "$out/text.txt" --split-sentences --parser "$parser" ${MODEL:+--model "$MODEL"} --on-error skip \
        -o "$out/trees.zst" "$@"
    if [ "${JOBS:-1}" -gt 1 ]; then
        job=$(sbatch --parsable --wait --array="0-$((JOBS - 1))" "$(dirname "$0")/array.slurm" "$@")
        echo "parsed by job $job" >&2
        pdtools merge "$out/trees.zst"
    else
        pdtools "$@" --workers "${WORKERS:-1}"
    fi
}
[ -e "$out/trees.zst" ] || parse --resume

# 3. Windows of whole sentences, none over the end of a document.
size=
case ${TOKENIZER:=bpe} in bpe) size="--vocab-size ${VOCAB_SIZE:-32000}" ;; esac
pdtools tapes "$out/trees.zst" --layout window --window "${WINDOW:-512}" --documents blank --text-style raw \
    --tokenizer "$TOKENIZER" $size -o "$out/windows" --workers "${WORKERS:-1}" --resume
