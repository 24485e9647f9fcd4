#!/bin/sh
# Does a stack help a language model learn syntax? Tables 2, 4 and figures 3, 5, 6 of Murty et al. 2023, with every model
# here on the same trees: base LM, base LM with an attachment head, Pushdown LM, PLM, PLM-mask, Transformer Grammar,
# TreeReg, structural scaffold. Rates are chosen for each model on validation data; then seeds are trained and scored.
# Run again after a stop: it resumes. Cells (model, seed) may be added later, by MODELS and SEEDS, to the same folder.
#
# Usage: study.sh TREES [OUTPUT FOLDER]
#   TREES: a treebank, of which nine tenths train, or a folder with train.trees, valid.trees, test.trees
# Environment, with defaults for a CPU; FULL=1: the paper's, in parentheses.
#   MODELS="base base-head pushdown plm plm-mask tg treereg scaffold"   SEEDS="1 2" (1 2 3)
#   also base-head-faint (an attachment loss with a weight of 0.1), scaffold-past (of the actions before a token),
#   and variants of the Pushdown LM, whose names may be joined, as late-light: late, late2: a tape in the last layer, or two,
#   only, and the attachment head reads what the others make of a token; light, faint: the attachment loss with a weight of
#   0.3, 0.1; distances, gentle: stack distances, whose penalty in the attachment head begins at 10 nats, or 0.1
#   AUTO_PARSER=  of benepar (../benepar_parser.py trains one): for the model pushdown-auto, which learns from its trees
#   CONFIG=small (bllip)   WIDTH=128 (the recipe's)   LAYER=3 (12): the one whose states TreeReg is a loss of
#   DROPOUT= of all models, in place of the recipe's
#   VOCABULARY=8000 (10000) of byte-level BPE
#   STEPS=500 (300000)   EVERY=250 (2000) steps an evaluation
#   BATCH=4096 (16384) positions a step; action models have 2.2 and 2.9 times as many, for as many sentences
#   RATES="1e-3 2e-3 4e-3" (1e-4 3e-4 6e-4)  TUNE_STEPS=200 (10000): of each, with seed 0; RATES="2e-3" chooses nothing
#   SUITES=  BLIMP=  folders or zips (halves.py halves them); without one of them it is left out   PAIRS=20 (1000) of each paradigm
#   SENTENCES=200 (all) of the test part, evenly spaced, for perplexity and parses
#   BEAM=100 (300)  MARGIN=5 (8) nats   ACTION_MARGIN=8 of action models
#   PARTICLES=100 (300) of the estimate of a Pushdown LM's log p(x) beside the beam's; PARTICLES= leaves it out
#   JOBS=2        runs at a time, on one thread each; on a GPU: DEVICE=cuda JOBS=1
#   DEVICE=cpu   PRECISION=auto of training (see train.precision): bf16 takes 0.8 of the time on processors that have AMX
#   STAGES="data rates runs table", for the jobs of a cluster (examples/bllip.slurm); on SIGUSR1 it ends with 138
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
trap 'exit 138' USR1
trees=${1:?name the treebank}
out=${2:-study-syntax}
if [ "${FULL:-0}" = 1 ]; then
    config=bllip width= layer=12 vocabulary=10000 steps=300000 every=2000 batch=16384 rates="1e-4 3e-4 6e-4"
    tune=10000 pairs=1000 sentences= beam=300 margin=8 particles=300 seeds="1 2 3"
else
    config=small width=128 layer=3 vocabulary=8000 steps=500 every=250 batch=4096 rates="1e-3 2e-3 4e-3"
    tune=200 pairs=20 sentences=200 beam=100 margin=5 particles=100 seeds="1 2"
fi
export OUT="$out" CONFIG="${CONFIG:-$config}" WIDTH="${WIDTH-$width}" LAYER="${LAYER:-$layer}" DEVICE="${DEVICE:-cpu}"
export STEPS="${STEPS:-$steps}" EVERY="${EVERY:-$every}" BATCH="${BATCH:-$batch}" RATES="${RATES:-$rates}"
export TUNE_STEPS="${TUNE_STEPS:-$tune}" PAIRS="${PAIRS:-$pairs}" BEAM="${BEAM:-$beam}" MARGIN="${MARGIN:-$margin}"
export ACTION_MARGIN="${ACTION_MARGIN:-8}" PRECISION="${PRECISION:-auto}" DROPOUT="${DROPOUT:-}"
export PARTICLES="${PARTICLES-$particles}"
vocabulary=${VOCABULARY:-$vocabulary} sentences=${SENTENCES-$sentences}
mkdir -p "$out/runs" "$out/results" "$out/shards" "$out/rates"

settings="CONFIG=$CONFIG WIDTH=$WIDTH LAYER=$LAYER VOCABULARY=$vocabulary STEPS=$STEPS BATCH=$BATCH RATES=$RATES"
settings="$settings TUNE_STEPS=$TUNE_STEPS PAIRS=$PAIRS SENTENCES=$sentences BEAM=$BEAM MARGIN=$MARGIN"
settled "$out" "$settings ACTION_MARGIN=$ACTION_MARGIN PRECISION=$PRECISION DROPOUT=$DROPOUT PARTICLES=$PARTICLES"
settled "$out" "EVERY=$EVERY" every
# Suites may come later, but are then the same for all.
[ -z "${SUITES:-}" ] || settled "$out" "SUITES=$SUITES" suites
[ -z "${BLIMP:-}" ] || settled "$out" "BLIMP=$BLIMP" blimp

if staged data && [ ! -e "$out/trees" ]; then
    if [ -e "$trees/train.trees" ]; then
        mkdir -p "$out/trees.part" && cp "$trees/train.trees" "$trees/valid.trees" "$trees/test.trees" "$out/trees.part"
    else
        pdtools parse "$trees" --from treebank --on-error skip --split 0.9,0.05,0.05 --overwrite -o "$out/trees.part"
    fi
    if [ -n "$sentences" ]; then
        # Evenly from all of the treebanks: files come one after the other.
        every=$(($(wc -l < "$out/trees.part/test.trees") / sentences))
        awk -v every="$every" 'every < 2 || NR % every == 1' "$out/trees.part/test.trees" | head -n "$sentences" > "$out/some"
        mv "$out/some" "$out/trees.part/test.trees"
    fi
    mv "$out/trees.part" "$out/trees"
fi
# The same sentences as constituents with labels: unary chains are one.
! staged data || [ -e "$out/trees/labeled.trees" ] ||
    pdtools parse "$out/trees/test.trees" --from treebank --binarize none -o "$out/trees/labeled.trees"
for part in train valid test; do
    staged data && [ ! -e "$out/shards/$part" ] || continue
    if [ "$part" = train ]; then
        set -- --tokenizer bpe --vocab-size "$vocabulary"
    else
        set -- --tokenizer "$out/shards/train"
    fi
    pdtools tapes "$out/trees/$part.trees" --tape none "$@" --resume -o "$out/shards/$part"
done

models=${MODELS:-base base-head pushdown plm plm-mask tg treereg scaffold}
case " $models " in
*"-auto "*)
    parser=${AUTO_PARSER:?names a parser}
    for part in train valid test; do
        staged data && [ ! -e "$out/trees/$part-auto.trees" ] || continue
        sed 's/([^ ()]* //g; s/)//g' "$out/trees/$part.trees" > "$out/trees/$part.words"
        [ "$part" != test ] && how=right || how=none
        pdtools parse "$out/trees/$part.words" --from tokens --model "$parser" --binarize "$how" --resume \
            -o "$out/trees/$part-auto.trees"
    done
    for part in train valid; do
        staged data && [ ! -e "$out/shards/$part-auto" ] || continue
        pdtools tapes "$out/trees/$part-auto.trees" --tape none --tokenizer "$out/shards/train" --resume \
            -o "$out/shards/$part-auto"
    done
    if staged data && [ ! -e "$out/results/benepar-1" ]; then
        # Without its tags, which are not what is compared: the gold ones say what punctuation is, as for the models.
        sed -E 's/\([^ ()]+ ([^ ()]+)\)/(XX \1)/g' "$out/trees/test-auto.trees" > "$out/trees/test-parsed.trees"
        pdtools eval-parse "$out/trees/test.trees" "$out/trees/test-parsed.trees" --unlabeled --binarize right --quiet \
            -o "$out/results/benepar-1/parse" >/dev/null
        pdtools eval-parse "$out/trees/labeled.trees" "$out/trees/test-parsed.trees" --quiet \
            -o "$out/results/benepar-1/labeled" >/dev/null
    fi
    ;;
esac

failed=0
if staged rates; then
    for model in $models; do echo "$model"; done | xargs -P "${JOBS:-2}" -n 1 sh "$here/run.sh" rate || failed=1
fi
if staged runs; then
    for seed in ${SEEDS:-$seeds}; do
        for model in $models; do
            echo "$model $seed"
        done
    done | xargs -P "${JOBS:-2}" -n 2 sh "$here/run.sh" run || failed=1
fi
# Attention to distractors, all seeds together: anew when there are more of them.
set --
for run in "$out"/runs/base-[0-9]* "$out"/runs/pushdown-[0-9]*; do
    if grep -qs '"number_src"' "$out/results/${run##*/}/sg/results.json"; then
        set -- "$@" --model "$run"
    fi
done
if staged table && [ -n "${SUITES:-}" ] && [ $# -gt 0 ] && [ "$*" != "$(cat "$out/attention.models" 2>/dev/null)" ]; then
    if pdtools eval-attention "$SUITES" "$@" --at matrix_v --suite number_orc --suite number_prep --suite number_src \
        --beam "$BEAM" --margin "$MARGIN" --device "$DEVICE" --threads 1 --quiet --overwrite -o "$out/attention" >/dev/null
    then
        echo "$*" > "$out/attention.models"
    else
        failed=1
    fi
fi

! staged table || python "$here/report.py" table "$out"
finished "$failed"
