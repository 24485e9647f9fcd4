#!/bin/sh
# Natural language and memory-limited stacks (DuSell and Chiang 2022, section 5, tables 1, 3 and 4): models read a
# corpus as one text; perplexity of the text, SG scores of sentences. Trains, chooses the best draw of learning rate and
# clipping by validation, tests, and writes a table to a folder. Run again after a stop: it resumes.
#
# Usage: study.sh SHARDS [OUTPUT FOLDER]
#   SHARDS: a folder with train, valid and test, made by pdtools blocks or tapes (a vocabulary of 10,000, in lower case
#   as the paper's corpus is: --tokenizer word --vocab-size 10002 --min-count 1 --lower-case; <pad> and <root> are counted)
# Environment, with defaults for a CPU; FULL=1: the paper's, in parentheses.
#   MODELS="lstm jm-hidden jm-learned ns-1-2 rns-1-2" (and ns-1-11 rns-1-11 ns-3-4 rns-3-4)   ns-Q-S: Q states, S symbols
#   DRAWS=2 (10)   learning rates and clipping thresholds that are tried for each model; more can be added later
#   TESTED=best    the draw of each model that is tested; TESTED=all: every one, for figure 4
#   EPOCHS=2 (100) at most; a run ends after two epochs without a better validation loss
#   UNITS=64 (256) hidden units and size of embeddings; jm-hidden has 9 fewer, as in the paper
#   SUITES=        folder or zip of SG suites; without it there are no SG scores
#   JOBS=2         runs at a time, on one thread each; on a GPU: DEVICE=cuda
#   DEVICE=cpu
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
shards=${1:?name the folder of the shards}
out=${2:-study-ptb}
models="lstm jm-hidden jm-learned ns-1-2 rns-1-2"
if [ "${FULL:-0}" = 1 ]; then
    models="$models ns-1-11 rns-1-11 ns-3-4 rns-3-4" draws=10 epochs=100 units=256
else
    draws=2 epochs=2 units=64
fi
export OUT="$out" SHARDS="$shards" EPOCHS="${EPOCHS:-$epochs}" UNITS="${UNITS:-$units}" DEVICE="${DEVICE:-cpu}"
models=${MODELS:-$models} draws=${DRAWS:-$draws} tested=${TESTED:-best}
case $tested in best | all) ;; *) echo "TESTED is best or all, not $tested" >&2; exit 1 ;; esac
mkdir -p "$out/runs" "$out/results"

settings="EPOCHS=$EPOCHS UNITS=$UNITS TEST_STREAMS=32"
settled "$out" "$settings"

failed=0
for draw in $(seq "$draws"); do
    for model in $models; do
        echo "$model $draw"
    done
done | xargs -P "${JOBS:-2}" -n 2 sh "$here/run.sh" || failed=1

for model in $models; do
    python "$here/report.py" "$tested" "$out" "$model" > "$out/tested"
    while IFS= read -r run; do
        results="$out/results/$(basename "$run")"
        [ -e "$results-ppl/results.json" ] ||
            pdtools eval-ppl "$shards/test" --model "$run" --stream --streams 32 -o "$results-ppl" \
                --device "$DEVICE" --quiet >/dev/null </dev/null || failed=1
        if [ -n "${SUITES:-}" ] && [ ! -e "$results-sg/results.json" ]; then
            pdtools eval-sg "$SUITES" --model "$run" -o "$results-sg" --device "$DEVICE" --quiet \
                >/dev/null </dev/null || failed=1
        fi
    done < "$out/tested"
    rm "$out/tested"
done

python "$here/report.py" table "$out"
finished "$failed"
