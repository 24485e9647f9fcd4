#!/bin/sh
# English from raw text: books become sentences, trees, shards, a Pushdown LM and the base LM of its shape, and their scores.
#
#   SUITES=sg BLIMP=blimp sh examples/english.sh books parser english
#
# books/   books-*.txt.xz train, books-test.txt.xz tests: in a book a paragraph a line, an empty line between chapters; a
#          line `# name` before each book. The books VALID validate and do not train.
# parser   of benepar (pdtools parse --model); english-parser.sh trains one
# In english/:
#   text/    the paragraphs: train.txt, valid.txt, and a file for each book of the test
#   trees/   a tree a sentence, the sentences beside them; what was excluded (over 100 words, for such a parser), and why
#   shards/  train with its tokenizer, valid, and 500 sentences of each book of the test
#   runs/    MODEL-SEED, with checkpoints along the way
#   models/  MODEL-SEED as it is given to others: weights in half precision, a card with its scores
#   results/ MODEL-SEED of models/: sg, blimp, and of each book of the test ppl
# Killed, it is run again as it was: what is finished is not done again.
#
# Environment, with defaults:
#   STAGES="text trees shards runs scores"
#   VALID="h-g-wells_the-invisible-man stephen-crane_the-red-badge-of-courage"
#   VOCABULARY=10000   WORKERS=2 processes that parse
#   MODELS="base pushdown"  SEEDS="1 2 3"  JOBS=2 runs at a time, on a thread each
#   STEPS=6800 (a pass over nine million words)  BATCH=2048 positions  RATE=1e-3  DROPOUT=0  ATTACHMENT_WEIGHT=1
#   KEEP="1M 2M 5M" words after which checkpoints are kept
#   FROM= a folder with models MODEL-SEED of an earlier pass, to go on from with their tokenizer and other books
#   SMALL="config.layers=1" other settings of all models, for a try
#   SENTENCES=500 of each book of the test  PARTICLES=100  BEAM=300 for these
#   BLIMP_BEAM=50 for BLiMP and the suites  BLIMP_LIMIT= pairs of each paradigm (all)
#   ABOUT= a paragraph for the cards
set -eu
[ $# -eq 3 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
books=$1 parser=$2
export OUT="$3"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../studies/common.sh"
trap 'exit 138' USR1
valid=${VALID:-h-g-wells_the-invisible-man stephen-crane_the-red-badge-of-courage}
mkdir -p "$OUT/text" "$OUT/trees" "$OUT/shards" "$OUT/runs" "$OUT/models" "$OUT/results"
settled "$OUT" "VALID=$valid VOCABULARY=${VOCABULARY:-10000} SENTENCES=${SENTENCES:-500}${FROM:+ FROM=$FROM}"

# whole FILE: standard input as a file that is there whole or not at all
whole() { cat > "$1.part" && mv "$1.part" "$1"; }

if staged text; then
    for part in train valid; do
        [ -e "$OUT/text/$part.txt" ] || for file in "$books"/books-*.txt.xz; do
            case $file in *-test.txt.xz) ;; *) xz -dc "$file" ;; esac
        done | awk -v part="$part" -v valid=" $valid " '
            /^# / { of = index(valid, " " $2 " ") ? "valid" : "train"; next }
            of == part' | whole "$OUT/text/$part.txt"
    done
    [ -e "$OUT/text/tests" ] || {
        xz -dc "$books/books-test.txt.xz" | awk -v out="$OUT/text" '
            /^# / { file = out "/test-" $2 ".txt"; printf "" > file; print "test-" $2; next }
            { print > file }' | whole "$OUT/text/tests"
    }
fi

if staged trees; then
    for part in train valid $(cat "$OUT/text/tests"); do
        [ -e "$OUT/trees/$part.trees" ] ||
            pdtools parse "$OUT/text/$part.txt" --split-sentences --model "$parser" --threads 1 \
                --workers "${WORKERS:-2}" --resume -o "$OUT/trees/$part.trees"
    done
fi

if staged shards; then
    if [ -n "${FROM:-}" ]; then
        for earlier in "$FROM"/*; do set -- --tokenizer "$earlier"; done
    else
        set -- --tokenizer bpe --vocab-size "${VOCABULARY:-10000}" --text-style typed
    fi
    [ -e "$OUT/shards/train" ] ||
        pdtools tapes "$OUT/trees/train.trees" "$@" --tape none --resume -o "$OUT/shards/train"
    for part in valid $(cat "$OUT/text/tests"); do
        [ ! -e "$OUT/shards/$part" ] || continue
        if [ "$part" != valid ]; then
            # Evenly from the whole book, parsed sentences alone.
            pasted=$(printf '\t')
            paste "$OUT/trees/$part.trees" "$OUT/trees/$part.trees.text" | grep -v '^(X ' | awk -v n="${SENTENCES:-500}" '
                { line[NR] = $0 }
                END { for (i = 1; i <= n && i <= NR; i++) print line[NR <= n ? i : int((i - .5) * NR / n) + 1] }' |
                whole "$OUT/trees/$part.some"
            cut -d "$pasted" -f 2 "$OUT/trees/$part.some" | whole "$OUT/trees/$part.some.trees.text"
            cut -d "$pasted" -f 1 "$OUT/trees/$part.some" | whole "$OUT/trees/$part.some.trees"
            trees=$OUT/trees/$part.some.trees
        else
            trees=$OUT/trees/$part.trees
        fi
        pdtools tapes "$trees" --tokenizer "$OUT/shards/train" --tape none --resume -o "$OUT/shards/$part"
    done
fi

# run MODEL SEED, by xargs
export STEPS="${STEPS:-6800}" BATCH="${BATCH:-2048}" RATE="${RATE:-1e-3}" DROPOUT="${DROPOUT:-0}"
export ATTACHMENT_WEIGHT="${ATTACHMENT_WEIGHT:-1}" KEEP="${KEEP:-1M 2M 5M}" SUITES="${SUITES:-}" BLIMP="${BLIMP:-}"
export PARTICLES="${PARTICLES:-100}" BEAM="${BEAM:-300}" BLIMP_BEAM="${BLIMP_BEAM:-50}"
export BLIMP_LIMIT="${BLIMP_LIMIT:-}" ABOUT="${ABOUT:-}"
export SMALL="${SMALL:-}" FROM="${FROM:-}"
failed=0
for stage in runs scores; do
    staged $stage || continue
    for seed in ${SEEDS:-1 2 3}; do
        for model in ${MODELS:-base pushdown}; do echo "$stage $model $seed"; done
    done | xargs -P "${JOBS:-2}" -n 3 sh "$here/english-run.sh" || failed=1
done
finished "$failed"
