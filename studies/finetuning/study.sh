#!/bin/sh
# Staged finetuning (Murty et al. 2023, section 4.3, table 3) at a CPU's scale: a small GPT-2 made on the spot gets
# pushdown layers, or not, is trained on parsed text, and then on prompts of a task that needs structure: whether the
# subject of a sentence is one or many. Writes a table and results to a folder. Run again after a stop: it resumes.
#
# Usage: study.sh [OUTPUT FOLDER]
# Environment, with defaults:
#   TREES=             files, folders or archives of trees whose words the GPT-2 reads too, beside those of the grammar
#   GPT2_STEPS=1000    that it is trained for      ITEMS=3600   of the task; a third as many are the test
#   PARSED=data/treebank   a folder with train.mrg and valid.mrg, the parsed text of stage 1
#   SEEDS="1 2 3"      of stages 1 and 3           HEAD_WARMUP=20   BEAM=10
#   SET1=  SET3=       settings of stages 1 and 3 other than those of stage1.toml and stage3.toml
#   DEVICE=cpu
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
out=${1:-study-finetuning}
trees=${TREES:-} steps=${GPT2_STEPS:-1000} items=${ITEMS:-3600}
export SEEDS="${SEEDS:-1 2 3}" HEAD_WARMUP="${HEAD_WARMUP:-20}" BEAM="${BEAM:-10}" DEVICE="${DEVICE:-cpu}" THREADS=1
export CONFIG="$here/stage1.toml" GLUE="$here/stage3.toml" WINDOW=63
mkdir -p "$out"
settled "$out" "GPT2_STEPS=$steps ITEMS=$items HEAD_WARMUP=$HEAD_WARMUP BEAM=$BEAM SET1=${SET1:-} SET3=${SET3:-} TREES=${trees:+given}"

[ -e "$out/gpt2" ] || python "$here/make.py" gpt2 "$out/gpt2" --steps "$steps" ${trees:+--trees $trees}
[ -e "$out/data" ] || python "$here/make.py" task "$out/data" --items "$items"
# GPT-2 has 64 positions; the plain model also predicts the ROOT after a window.
for part in train valid; do
    [ -e "$out/windows/$part" ] || pdtools tapes "${PARSED:-$here/../../data/treebank}/$part.mrg" --layout window --window 63 \
        --documents none --text-style raw --tokenizer "$out/gpt2" -o "$out/windows/$part"
done
sh "$here/../../examples/staged-finetuning.sh" "$out/gpt2" "$out/windows/train" "$out/windows/valid" "$out" \
    "$here/subject.toml=$out/data" >/dev/null
python "$here/report.py" table "$out"
