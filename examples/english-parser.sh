#!/bin/sh
# The parser of english.sh: benepar's with a character LSTM, trained on four treebanks, and its F1 on each of them and by genre.
#
#   sh examples/english-parser.sh treebanks parser
#
# treebanks/  wsj/*.mrg (nltk's sample of the Penn Treebank), gum/const/*.ptb and gum/splits.md, craft/*.tree, and
#             cities/train.txt, valid.txt, test.txt
# In parser/: trees/ with labels, parser.pt, and scores/PART-NAME of labelled and of unlabeled, binarized trees, PART being
# valid or test. GUM's trees are another parser's, by tags that people gave, and those of the novel benepar's: on these
# two the scores tell how far the parsers agree.
# Killed, it is run again as it was.
#
# Environment, with defaults:  STEPS=6000   WIDTH=256   CRAFT=5 (every fifth sentence trains)
set -eu
[ $# -eq 2 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
treebanks=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../studies/common.sh"
mkdir -p "$out/trees" "$out/parsed" "$out/scores"
settled "$out" "STEPS=${STEPS:-6000} WIDTH=${WIDTH:-256} CRAFT=${CRAFT:-5}"

# trees NAME FILES...
trees() {
    made=$out/trees/$1.trees
    shift
    [ -e "$made" ] || pdtools parse "$@" --from treebank --binarize none --on-error skip --quiet -o "$made"
}

# GUM's documents: PART NAME, those of the forum without its words left out, and those of other genres too.
awk '/^## / { part = $2 } /^ *\* GUM_/ && !/reddit/ { print part, $2 }' "$treebanks/gum/splits.md" >"$out/held-out"
for part in valid test; do
    of=$part
    [ $part = test ] || of=dev
    for genre in $(sed -n "s/^$of GUM_\([a-z]*\)_.*/\1/p" "$out/held-out" | sort -u); do
        trees "$part-gum-$genre" $(sed -n "s|^$of \(GUM_${genre}_.*\)|$treebanks/gum/const/\1.ptb|p" "$out/held-out")
    done
    trees "$part-cities" "$treebanks/cities/$part.txt"
done
trees train-cities "$treebanks/cities/train.txt"
trees train-gum $(for file in "$treebanks"/gum/const/GUM_*.ptb; do
    name=$(basename "$file" .ptb)
    case $name in *_reddit_*) continue ;; esac
    grep -Eq "^(dev|test) $name\$" "$out/held-out" || echo "$file"
done)
for name in wsj craft; do
    [ -e "$out/$name" ] || pdtools parse "$treebanks/$name" --from treebank --binarize none --on-error skip --quiet \
        --split 0.9,0.05,0.05 -o "$out/$name"
    for part in valid test; do cp "$out/$name/$part.trees" "$out/trees/$part-$name.trees"; done
done
cat "$out/wsj/train.trees" "$out/trees/train-gum.trees" "$out/trees/train-cities.trees" >"$out/trees/train.trees"
awk -v every="${CRAFT:-5}" 'NR % every == 0' "$out/craft/train.trees" >>"$out/trees/train.trees"

[ -e "$out/parser.pt" ] || python "$here/../studies/benepar_parser.py" "$out/trees/train.trees" "$out/parser.pt" \
    --steps "${STEPS:-6000}" --width "${WIDTH:-256}"

for gold in "$out"/trees/valid-*.trees "$out"/trees/test-*.trees; do
    name=$(basename "$gold" .trees)
    if [ ! -e "$out/parsed/$name.trees" ]; then
        sed 's/([^ ()]* //g; s/)//g' "$gold" >"$out/parsed/$name.txt"
        pdtools parse "$out/parsed/$name.txt" --from tokens --model "$out/parser.pt" --binarize none --threads 1 --quiet \
            --resume -o "$out/parsed/$name.trees"
    fi
    [ -e "$out/scores/$name" ] || pdtools eval-parse "$gold" "$out/parsed/$name.trees" --quiet -o "$out/scores/$name" >/dev/null
    [ -e "$out/scores/$name-unlabeled" ] || pdtools eval-parse "$gold" "$out/parsed/$name.trees" --unlabeled \
        --binarize right --quiet -o "$out/scores/$name-unlabeled" >/dev/null
done
