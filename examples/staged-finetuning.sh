#!/bin/sh
# GPT-2 with pushdown layers beside the plain GPT-2, finetuned in stages (Murty et al. 2023, section 4.3, table 3).
#
#   TOKENIZER=hf:gpt2-medium WINDOW=1023 sh examples/wikitrees.sh wiki.train.raw wiki/train    # and wiki/valid
#   sh examples/staged-finetuning.sh hf:gpt2-medium wiki/train/windows wiki/valid/windows staged \
#       rte=GLUE/RTE mrpc=GLUE/MRPC sst5=sst stsb=GLUE/STS-B
#
# hf:gpt2-medium is the model, or its folder; a task is a bundled one or a TOML file (agreement.toml=data). In staged/:
#   stage1/ARM/SEED           both arms, pushdown and plain, as language models on the same windows
#   TASK/*.jsonl, TASK/trees  the prompts, and their parses by stage1/pushdown/SEED
#   TASK/ARM/SEED             stage 3: both arms on the prompts with these parses (which the plain arm does not see)
#   results/TASK/ARM-SEED     the answers to the split TEST; staged.md: the table
# A tenth of the train split is held out, to choose checkpoints by. Killed, it is run again as it was: what is finished
# is not done again. In a Slurm cluster: examples/staged-finetuning.slurm.
#
# Environment, with defaults:
#   SEEDS="1 2 3"   ARMS="pushdown plain"   STAGES="prompts 1 2 3 table"
#   CONFIG=gpt2-medium-last12   GLUE=glue       recipes of stages 1 and 3
#   SET1=  SET3=    settings of these stages more, such as "train.steps=5000 train.batch_sentences=8"
#   HEAD_WARMUP=0   first steps of stage 1 in which the attachment head alone learns
#   TEST=dev        the split that the table is of (GLUE's test sets have no labels)
#   WINDOW=512      of prompts; longer ones are excluded, and counted
#   BEAM=300  DEVICE=auto  WORKERS=1  THREADS=0
set -eu
[ $# -ge 5 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
gpt2=$1 train=$2 valid=$3 out=$4
shift 4
seeds=${SEEDS:-1 2 3} arms=${ARMS:-pushdown plain} split=${TEST:-dev}
mkdir -p "$out"
# Asked to stop (Slurm, before the time is up), pdtools stops after its step; then this ends too.
trap 'exit 138' USR1

staged() { case " ${STAGES:-prompts 1 2 3 table} " in *" $1 "*) ;; *) return 1 ;; esac; }
name_of() { basename "${1%%=*}" .toml; }
common="--device ${DEVICE:-auto} --threads ${THREADS:-0}"

# sweep ARM STAGE CONFIG SHARDS VALID INIT OUTPUT: a run for each seed; finished ones are left as they are.
sweep() {
    arm=$1 settings=$2
    case $arm in pushdown) model=pushdown ;; plain) model=transformer ;; *) echo "$arm: no such arm" >&2; exit 2 ;; esac
    shift 2
    config=$1 data=$2 valid_data=$3 init=$4 runs=$5
    set --
    for setting in $settings; do set -- "$@" --set "$setting"; done
    pdtools sweep "$data" --valid "$valid_data" --init "$init" --config "$config" --model "$model" "$@" \
        --grid "train.seed=$(echo $seeds | tr ' ' ,)" --name '{train.seed}' $common -o "$runs"
}

# Prompts of every task: train, a tenth of it, and the split of the table.
if staged prompts; then
    for task; do
        name=$(name_of "$task")
        mkdir -p "$out/$name"
        [ -e "$out/$name/train.jsonl" ] || pdtools prompts "${task#*=}" --task "${task%%=*}" --split train \
            --hold-out "$out/$name/valid.jsonl" --overwrite -o "$out/$name/train.jsonl"
        [ -e "$out/$name/test.jsonl" ] || pdtools prompts "${task#*=}" --task "${task%%=*}" --split "$split" \
            -o "$out/$name/test.jsonl"
    done
fi

# Stage 1: language models on parsed text.
if staged 1; then
    for arm in $arms; do
        warmup=
        [ "$arm" = plain ] || warmup="train.head_warmup_steps=${HEAD_WARMUP:-0}"
        sweep "$arm" "$warmup ${SET1:-}" "${CONFIG:-gpt2-medium-last12}" "$train" "$valid" "$gpt2" "$out/stage1/$arm"
    done
fi

# Stage 2: parses of the prompts by the Pushdown LM of each seed, and shards.
if staged 2; then
    for task; do
        folder=$out/$(name_of "$task")
        mkdir -p "$folder/trees" "$folder/shards"
        for seed in $seeds; do
            for part in train valid test; do
                made=$part-$seed
                [ -e "$folder/trees/$made.trees" ] || pdtools decode "$folder/$part.jsonl" --from parts --resume \
                    --model "$out/stage1/pushdown/$seed" --beam "${BEAM:-300}" --workers "${WORKERS:-1}" $common \
                    -o "$folder/trees/$made.trees"
                [ -e "$folder/shards/$made" ] || pdtools tapes "$folder/trees/$made.trees" --tokenizer "$train" \
                    --prompts "$folder/$part.jsonl" --layout window --window "${WINDOW:-512}" --on-error skip \
                    -o "$folder/shards/$made"
            done
        done
    done
fi

# Stage 3: both arms on the prompts, and their answers.
if staged 3; then
    for task; do
        name=$(name_of "$task")
        folder=$out/$name
        for arm in $arms; do
            sweep "$arm" "${SET3:-}" "${GLUE:-glue}" "$folder/shards/train-{train.seed}" \
                "$folder/shards/valid-{train.seed}" "$out/stage1/$arm/{train.seed}" "$folder/$arm"
            for seed in $seeds; do
                results=$out/results/$name/$arm-$seed
                [ -e "$results/results.json" ] || pdtools eval-classify "$folder/shards/test-$seed" --resume \
                    --model "$folder/$arm/$seed" $common -o "$results" >/dev/null
            done
        done
    done
fi

# Table 3: means over seeds, and each seed. The folder decides what is in it.
if staged table; then
    python - "$out" <<'END' | tee "$out/staged.md"
import json, sys
from pathlib import Path
from statistics import mean

ARMS = {"plain": "GPT2", "pushdown": "Pushdown-GPT2"}
SCORES = {"accuracy": ("accuracy",), "f1": ("f1", "accuracy"), "spearman": ("spearman", "pearson")}
found, scored = {}, {}
for file in sorted(Path(sys.argv[1], "results").glob("*/*/results.json")):
    document = json.loads(file.read_text())
    task, arm = file.parts[-3], file.parts[-2].rpartition("-")[0]
    scored[task] = SCORES[document["settings"]["metric"]]
    found.setdefault((arm, task), []).append([100 * document["scores"][score] for score in scored[task]])
print("| | " + " | ".join(f"{task} ({'/'.join(names)})" for task, names in scored.items()) + " |")
print("|---" * (len(scored) + 1) + "|")
for arm, title in ARMS.items():
    cells = []
    for task in scored:
        seeds = found.get((arm, task), [])
        shown = ["/".join(f"{mean(values):.1f}" for values in zip(*seeds))]
        shown += [", ".join("/".join(f"{value:.1f}" for value in seed) for seed in seeds)] * (len(seeds) > 1)
        cells.append(f"{shown[0]} ({shown[1]})" if len(shown) > 1 else shown[0])
    print(f"| {title} | " + " | ".join(cells) + " |")
END
fi
