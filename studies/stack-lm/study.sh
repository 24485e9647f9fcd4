#!/bin/sh
# Table 3 of "A Transformer with Stack Attention" (Li et al. 2024): language models without and with stack attention.
# Usage: study.sh TRAIN VALID TEST [FOLDER]: text, words between spaces, a line a sentence or paragraph (a treebank's:
# pdtools show SHARDS --words). Run again, it resumes. Settings, as environment variables:
#   FULL=1         the paper's configurations (gpt2-stack, roberta-stack), 5 seeds, until five epochs bring nothing;
#                  for a GPU, with DEVICE=cuda. Otherwise 4 layers, width 128, 4 heads, a vocabulary of 4000, and:
#   EPOCHS=3       at most   LEARNING_RATE=1e-3 (from pretrained weights: 2e-5)   BATCH=32 blocks of LENGTH=128 tokens
#   SEEDS="1 2 3"  one run of each model for each   OBJECTIVES="masked causal"   KINDS="vanilla stack"
#   GPT2=DIR ROBERTA=DIR   start from these weights, with their tokenizers   SCRATCH=1: take the tokenizers alone
#   JOBS=2         runs at a time, on one thread each   DEVICE=cpu
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
[ $# -ge 3 ] || { sed -n '3,5p' "$0" >&2; exit 2; }
train=$1 valid=$2 test=$3 out=${4:-study-stack-lm}
if [ "${FULL:-0}" = 1 ]; then
    : "${SEEDS:=1 2 3 4 5}" "${EPOCHS:=100}" "${LEARNING_RATE:=2e-5}"
fi
export OUT="$out" DEVICE="${DEVICE:-cpu}" FULL="${FULL:-0}" BATCH="${BATCH:-32}" EPOCHS="${EPOCHS:-3}"
export SCRATCH_RATE="${LEARNING_RATE:-1e-3}" PRETRAINED_RATE="${LEARNING_RATE:-2e-5}"
export GPT2="${GPT2:-}" ROBERTA="${ROBERTA:-}" SCRATCH="${SCRATCH:-0}"
length=${LENGTH:-128} objectives=${OBJECTIVES:-masked causal}
mkdir -p "$out/blocks" "$out/runs" "$out/results"

settings="FULL=$FULL EPOCHS=$EPOCHS BATCH=$BATCH LEARNING_RATE=$SCRATCH_RATE LENGTH=$length GPT2=$GPT2 ROBERTA=$ROBERTA"
settings="$settings SCRATCH=$SCRATCH"
settings="$settings TRAIN=$train VALID=$valid TEST=$test"
if [ "$SCRATCH" = 0 ] && [ -n "$GPT2$ROBERTA" ] && [ "$PRETRAINED_RATE" != "$SCRATCH_RATE" ]; then
    settings="$settings PRETRAINED_RATE=$PRETRAINED_RATE"
fi
settled "$out" "$settings"

for objective in $objectives; do
    case $objective in masked) pretrained=$ROBERTA ;; *) pretrained=$GPT2 ;; esac
    folder="$out/blocks/$objective"
    if [ -n "$pretrained" ]; then set -- --tokenizer "$pretrained" --text-style raw; else
        size=4000
        [ "$FULL" = 0 ] || size=30000
        set -- --tokenizer bpe --vocab-size "$size"
    fi
    [ -e "$folder/train" ] || pdtools blocks "$train" -o "$folder/train" --length "$length" --quiet "$@"
    [ -e "$folder/valid" ] ||
        pdtools blocks "$valid" -o "$folder/valid" --length "$length" --quiet --tokenizer "$folder/train"
    [ -e "$folder/test" ] ||
        pdtools blocks "$test" -o "$folder/test" --length "$length" --quiet --tokenizer "$folder/train"
done

failed=0
for seed in ${SEEDS:-1 2 3}; do
    for objective in $objectives; do
        for kind in ${KINDS:-vanilla stack}; do echo "$objective $kind $seed"; done
    done
done | xargs -P "${JOBS:-2}" -n 3 sh "$here/run.sh" || failed=1

python "$here/report.py" "$out"
finished "$failed"
