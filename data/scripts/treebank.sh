#!/bin/sh
# Models of a treebank: each model with each seed, its scores, one table.
#
#   sh treebank.sh TREEBANK OUTPUT
#   sh treebank.sh TRAIN VALID TEST OUTPUT
#
# TREEBANK  a file or a folder; identical sentences stay together when it is split into training, validation and test
# TRAIN VALID TEST  the three parts of a treebank that is split already, such as one of Universal Dependencies
# In OUTPUT/:
#   trees/    train.trees, valid.trees, test.trees; what could not be read, and why, in files of rejects.jsonl
#   shards/   train with its tokenizer, valid, test
#   runs/     MODEL-SEED
#   results/  MODEL-SEED: ppl, parse (models that parse), and blimp, sg, if asked for;
#             right-branching: parse, a floor for F1
#   table.txt means and deviations over seeds; tests of the differences
# Killed, it is run again as it was: what is finished is not done again. On a Slurm cluster: treebank.slurm.
#
# Environment, with defaults:
#   FROM=treebank  form of the trees (pdtools parse --from)    BINARIZE=right  head for dependencies
#   STYLE=ptb   text of the models: raw for sentences as they are written (pdtools tapes --text-style)
#   MODELS="transformer pushdown tg"  SEEDS="1 2 3"  CONFIG=small  VOCABULARY=8000
#               head: a transformer with an attachment head, which parses too
#   SETTINGS=   more settings of all models: "train.steps=5000 config.layers=6"
#   BEAM=100    hypotheses of models of attachments (pushdown, head)
#   BLIMP=      BLiMP.zip, or a folder of pairs    LIMIT=  pairs of each paradigm (all)
#   SUITES=     a zip or a folder of SG suites
#   STAGES="trees runs table"
set -eu
[ $# -eq 2 ] || [ $# -eq 4 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
eval "out=\$$#"
trap 'exit 138' USR1 # from Slurm, before the time is up: pdtools has kept what it had

# compared MODEL: options of eval-parse. Binary trees that do not branch to the right are compared as they are;
# trees of other models than these have no nodes of a binarization.
compared() {
    case $1-${BINARIZE:-right} in
        pushdown-head | pushdown-left | head-head | head-left | right-branching-head | right-branching-left) ;;
        *) echo --binarize right ;;
    esac
}

# trees INPUT OPTIONS...
trees() {
    pdtools parse "$@" --from "${FROM:-treebank}" --binarize "${BINARIZE:-right}" --on-error skip
}

# score NAME COMMAND DATA OPTIONS...: into results/RUN/NAME, once
score() {
    scored=$results/$1
    shift
    [ -e "$scored" ] || pdtools "$@" --quiet -o "$scored" >/dev/null
}

staged() { case " ${STAGES:-$1} " in *" $1 "*) ;; *) return 1 ;; esac; }

if staged trees; then
    if [ $# -eq 2 ]; then
        [ -e "$out/trees" ] || trees "$1" --split 0.9,0.05,0.05 -o "$out/trees"
    else
        mkdir -p "$out/trees"
        for part in train valid test; do
            [ -e "$out/trees/$part.trees" ] || trees "$1" --resume -o "$out/trees/$part.trees"
            shift
        done
    fi
    [ -e "$out/shards/train" ] || pdtools tapes "$out/trees/train.trees" --tokenizer bpe --text-style "${STYLE:-ptb}" \
        --vocab-size "${VOCABULARY:-8000}" --resume -o "$out/shards/train"
    for part in valid test; do
        [ -e "$out/shards/$part" ] ||
            pdtools tapes "$out/trees/$part.trees" --tokenizer "$out/shards/train" --resume -o "$out/shards/$part"
    done
    results=$out/results/right-branching parsed=$out/parsed/right-branching.trees
    mkdir -p "$out/parsed"
    [ -e "$parsed" ] ||
        pdtools parse "$out/trees/test.trees" --from treebank --parser right-branching --quiet --resume -o "$parsed"
    score parse eval-parse "$out/trees/test.trees" "$parsed" --unlabeled $(compared right-branching)
fi

if staged runs; then
    for seed in ${SEEDS:-1 2 3}; do
        for model in ${MODELS:-transformer pushdown tg}; do
            run=$out/runs/$model-$seed results=$out/results/$model-$seed parsed=$out/parsed/$model-$seed.trees
            set -- --config "${CONFIG:-small}" --set "train.seed=$seed"
            case $model in
                head) set -- "$@" --model transformer --set config.attachment_head=true ;;
                *) set -- "$@" --model "$model" ;;
            esac
            for setting in ${SETTINGS:-}; do set -- "$@" --set "$setting"; done
            pdtools train "$out/shards/train" --valid "$out/shards/valid" "$@" --resume -o "$run"

            set -- --model "$run"
            case $model in pushdown | head) set -- "$@" --beam "${BEAM:-100}" ;; esac
            score ppl eval-ppl "$out/shards/test" "$@" --resume
            [ -z "${BLIMP:-}" ] || score blimp eval-blimp "$BLIMP" "$@" ${LIMIT:+--limit "$LIMIT"} --resume
            [ -z "${SUITES:-}" ] || score sg eval-sg "$SUITES" "$@" --resume
            [ "$model" != transformer ] || continue
            mkdir -p "$out/parsed"
            [ -e "$parsed" ] ||
                pdtools decode "$out/trees/test.trees" --from treebank "$@" --quiet --resume -o "$parsed"
            score parse eval-parse "$out/trees/test.trees" "$parsed" --unlabeled $(compared "$model") \
                --left-out "$parsed.rejects.jsonl"
        done
    done
fi

if staged table; then
    pdtools compare "$out"/results/* | tee "$out/table.txt"
fi
