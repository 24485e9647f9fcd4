#!/bin/sh
# An RNNG beside a base LM, a Pushdown LM and a Transformer Grammar on the same trees. README.md has the plan.
#
#   sh studies/rnng/study.sh DATA OUT
#
# DATA  what STAGES=data sh studies/question/trees.sh ARCHIVES DATA makes
# In OUT: test.trees and test (its shards), rates/RATE of RNNG, runs/MODEL-SEED, results/MODEL-SEED, scores.json.
# Killed, it is run again as it was: what is finished is not done again.
#
# Environment, with defaults:
#   SUITES=  SAP=  archives of SG and SAP; what is not given is left out
#   MODELS="base rnng pushdown tg"   SEEDS="1 2"   JOBS=1 at a time, on a thread each
#   STEPS=1596   RATE_STEPS=200   RATES="2e-3 4e-3 8e-3"   WIDTH=128   RNNG_WIDTH=144   SENTENCES=300   BEAM=100
set -eu
[ $# -eq 2 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
export DATA="$1" OUT="$2"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
export STEPS="${STEPS:-1596}" RATE_STEPS="${RATE_STEPS:-200}" WIDTH="${WIDTH:-128}" RNNG_WIDTH="${RNNG_WIDTH:-144}"
export BEAM="${BEAM:-100}" SUITES="${SUITES:-}" SAP="${SAP:-}"
rates=${RATES:-2e-3 4e-3 8e-3} sentences=${SENTENCES:-300}
mkdir -p "$OUT/rates" "$OUT/runs" "$OUT/results"
settled "$OUT" "STEPS=$STEPS RATE_STEPS=$RATE_STEPS RATES=$rates WIDTH=$WIDTH,$RNNG_WIDTH SENTENCES=$sentences BEAM=$BEAM"

if [ ! -e "$OUT/test" ]; then
    awk -v of="$sentences" '{ line[NR] = $0 } END { for (i = 1; i <= of; i++) print line[int((i - .5) * NR / of) + 1] }' \
        "$DATA/labelled/test.trees" >"$OUT/test.trees"
    pdtools tapes "$OUT/test.trees" --tokenizer "$DATA/shards/train" --tape none --quiet -o "$OUT/test"
fi
[ -z "$SAP" ] || [ -e "$OUT/sap.csv" ] || {
    python "$here/../reading/sap.py" items "$SAP" "$OUT/sap.part"
    mv "$OUT/sap.part" "$OUT/sap.csv"
}
failed=0
if [ ! -e "$OUT/rate" ]; then
    printf '%s\n' $rates | xargs -P "${JOBS:-1}" -n 1 sh "$here/run.sh" rate || failed=1
    [ "$failed" = 0 ] || finished 1
    python "$here/report.py" rate "$OUT" >"$OUT/rate.part"
    mv "$OUT/rate.part" "$OUT/rate"
fi
for seed in ${SEEDS:-1 2}; do
    for model in ${MODELS:-base rnng pushdown tg}; do echo "$model $seed"; done
done | xargs -P "${JOBS:-1}" -n 2 sh "$here/run.sh" run || failed=1
python "$here/report.py" gather "$OUT" >"$OUT/scores.part"
mv "$OUT/scores.part" "$OUT/scores.json"
finished "$failed"
