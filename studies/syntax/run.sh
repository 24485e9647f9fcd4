#!/bin/sh
# Called by study.sh.
# Usage: run.sh rate MODEL      chooses the learning rate by validation loss, and writes it to OUT/rates/MODEL
#        run.sh run MODEL SEED  trains a model with one seed, then tests it
set -eu
trap 'exit 138' USR1
what=$1 model=$2 seed=${3:-0}
batch=$BATCH shape= search= parse= skip= trees=
case $model in
base) kind=transformer ;;
base-head | base-head-faint)
    kind=transformer shape="config.attachment_head=true" parse="--beam $BEAM --margin $MARGIN"
    [ "$model" = base-head ] || shape="$shape train.attachment_weight=0.1"
    ;;
pushdown | pushdown-auto) kind=pushdown search="--beam $BEAM --margin $MARGIN" parse=$search trees=${model#pushdown} ;;
plm) kind=plm batch=$((BATCH * 22 / 10)) search="--margin $ACTION_MARGIN" parse=$search ;;
plm-mask)
    kind=plm-mask batch=$((BATCH * 22 / 10)) search="--margin $ACTION_MARGIN" parse=$search
    shape="config.positions=learned config.max_length=1024" skip="--on-error skip"
    ;;
tg) kind=tg batch=$((BATCH * 29 / 10)) search="--margin $ACTION_MARGIN" parse=$search ;;
treereg) kind=transformer shape="config.treereg_layer=$LAYER" parse=" " ;;
scaffold) kind=sclm shape="config.scaffold=next" ;;
scaffold-past) kind=sclm shape="config.scaffold=past" ;;
*) # a variant of the Pushdown LM: its changes, joined by - (gather.py has their titles)
    kind=pushdown search="--beam $BEAM --margin $MARGIN" parse=$search
    for change in $(printf '%s\n' "$model" | tr - ' '); do
        case $change in
        late) shape="$shape config.pushdown_layers=last~1 config.head_reads=prefix" ;;
        late2) shape="$shape config.pushdown_layers=last~2 config.head_reads=prefix" ;;
        light) shape="$shape train.attachment_weight=0.3" ;;
        faint) shape="$shape train.attachment_weight=0.1" ;;
        distances) shape="$shape config.stack_distances=true config.head_slope=10.0" ;;
        gentle) shape="$shape config.stack_distances=true config.head_slope=0.1" ;;
        *) echo "$model: no such model" >&2; exit 255 ;;
        esac
    done
    ;;
esac
[ -z "$WIDTH" ] || shape="$shape config.d_model=$WIDTH config.d_ff=$((4 * WIDTH)) config.heads=4"
if [ -n "$DROPOUT" ]; then
    shape="$shape config.input_dropout=$DROPOUT config.attention_dropout=$DROPOUT config.output_dropout=$DROPOUT"
fi
device="--device $DEVICE --threads 1 --quiet"
set -- --valid "$OUT/shards/valid$trees" --config "$CONFIG" --model $kind --set train.patience=0 $device \
    --set "train.batch_tokens=$batch" --set train.batch_sentences=0 --set "train.precision=$PRECISION"
for setting in $shape; do
    set -- "$@" --set "$(echo "$setting" | tr '~' ' ')"
done

if [ "$what" = rate ]; then
    [ -e "$OUT/rates/$model" ] && exit 0
    case $RATES in
    *" "*)
        pdtools sweep "$OUT/shards/train$trees" "$@" $skip --grid "train.learning_rate=$(echo "$RATES" | tr ' ' ',')" \
            --name "{train.learning_rate}" --set "train.steps=$TUNE_STEPS" --set "train.eval_every=$TUNE_STEPS" \
            --set "train.warmup_steps=$((TUNE_STEPS / 10))" --set train.seed=0 --json -o "$OUT/tuning/$model" \
            > "$OUT/rates/$model.json" || exit 1
        python "$(dirname "$0")/report.py" rate "$OUT/rates/$model.json" > "$OUT/rates/$model.part"
        ;;
    *) echo "$RATES" > "$OUT/rates/$model.part" ;;
    esac
    mv "$OUT/rates/$model.part" "$OUT/rates/$model"
    exit 0
fi

run=$OUT/runs/$model-$seed results=$OUT/results/$model-$seed
pdtools train "$OUT/shards/train$trees" "$@" $skip --set "train.learning_rate=$(cat "$OUT/rates/$model")" \
    --set "train.steps=$STEPS" --set "train.eval_every=$EVERY" --set "train.warmup_steps=$((STEPS / 10))" \
    --set "train.seed=$seed" --resume -o "$run" || exit 1
set -- --model "$run" $device
[ -z "${SUITES:-}" ] || [ -e "$results/sg/results.json" ] ||
    pdtools eval-sg "$SUITES" "$@" $search --resume -o "$results/sg" >/dev/null || exit 1
[ -z "${BLIMP:-}" ] || [ -e "$results/blimp/results.json" ] ||
    pdtools eval-blimp "$BLIMP" --limit "$PAIRS" "$@" $search --resume -o "$results/blimp" >/dev/null || exit 1
[ -e "$results/ppl/results.json" ] ||
    pdtools eval-ppl "$OUT/shards/test" "$@" $search $skip --resume -o "$results/ppl" >/dev/null || exit 1
[ -z "$PARTICLES" ] || [ "$kind" != pushdown ] || [ -e "$results/particles/results.json" ] ||
    pdtools eval-ppl "$OUT/shards/test" "$@" --no-marginal --particles "$PARTICLES" --resume -o "$results/particles" \
        >/dev/null || exit 1
if [ -n "$parse" ] && [ ! -e "$results/parse/results.json" ]; then
    mkdir -p "$results"
    pdtools decode "$OUT/trees/test.trees" --from treebank "$@" $parse --resume -o "$results/parsed.trees" || exit 1
    pdtools eval-parse "$OUT/trees/test.trees" "$results/parsed.trees" --unlabeled --binarize right --quiet \
        --left-out "$results/parsed.trees.rejects.jsonl" -o "$results/parse" >/dev/null || exit 1
fi
case $model in
plm | plm-mask | tg)
    [ -e "$results/labeled/results.json" ] ||
        pdtools eval-parse "$OUT/trees/labeled.trees" "$results/parsed.trees" --quiet \
            --left-out "$results/parsed.trees.rejects.jsonl" -o "$results/labeled" >/dev/null || exit 1
    ;;
esac
