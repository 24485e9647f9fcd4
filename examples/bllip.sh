#!/bin/sh
# Tables 2, 4 and figures 3, 5, 6 of Murty et al. 2023 on their corpus, for those who have BLLIP 1987-89 (LDC2000T43):
# its sections become the trees of BLLIP-LG (Hu et al. 2020), and these go to studies/syntax/study.sh with the paper's
# shapes: every model, three seeds, all evaluations, a table.
#
#   SUITES=sg BLIMP=blimp sh examples/bllip.sh bliip_87_89_wsj bllip
#
# bliip_87_89_wsj/ is the corpus as it is distributed: folders of sections, 1987/w7_001/ to 1989/w9_041/, of files, an
# article each. BLLIP-LG: of the first section of each year (w7_001, w8_001, w9_010) the first 500 sentences validate,
# of the second the first 1,000 test; the other 261 sections train, 1.8 million sentences. The first are those of the
# first files by name: the papers give no order. In bllip/:
#   own/      the corpus's trees, without traces, function tags and marks of coreference; what was excluded, and why
#   words/    their words, a sentence a line
#   parsed/   a parser's trees of these: the paper trains and tests on a parser's, not on the corpus's own
#   study/    of studies/syntax/study.sh: table.md, results.json
# Killed, it is run again as it was: what is finished is not done again. In a Slurm cluster: examples/bllip.slurm.
#
# Environment, with defaults, beside that of studies/syntax/study.sh (SUITES, BLIMP, MODELS, SEEDS, ...):
#   PARSER=benepar   or a trained model's folder; corpus: the corpus's own trees, nothing is parsed
#   MODEL=           of benepar: a path or an installed name
#   TRAIN=  VALID=  TEST=   files of other sections, one a line, such as 1987/w7_071
#   VALID_SENTENCES=500  TEST_SENTENCES=1000   of each section
#   FULL=1           0: shapes for a CPU
#   DEVICE=auto  JOBS=1 run at a time  WORKERS=1 process that makes trees
#   STAGES="trees data rates runs table"
set -eu
[ $# -eq 2 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
corpus=$1 out=$2 parser=${PARSER:-benepar}
studies=$(cd "$(dirname "$0")/../studies" && pwd)
. "$studies/common.sh"
export FULL="${FULL:-1}" DEVICE="${DEVICE:-auto}" JOBS="${JOBS:-1}"
trees=$out/parsed
[ "$parser" != corpus ] || trees=$out/own
# Asked to stop (Slurm, before the time is up), pdtools stops, and keeps what it has; then this ends too.
trap 'exit 138' USR1

fail() { echo "$1" >&2; exit 1; }

# listed PART FILE: its sections, those of the file or BLLIP-LG's.
listed() {
    if [ -n "$2" ]; then
        [ -s "$2" ] || fail "$2: no such file, or an empty one; it would list sections for $1, one a line, such as 1987/w7_071"
        tr -d ' \r' <"$2"
        return
    fi
    case $1 in
    train) seq -f 1987/w7_%03g 3 127; seq -f 1988/w8_%03g 3 108; seq -f 1989/w9_%03g 12 41 ;;
    valid) echo 1987/w7_001 1988/w8_001 1989/w9_010 ;;
    test) echo 1987/w7_002 1988/w8_002 1989/w9_011 ;;
    esac
}

# parse TREES INPUTS OPTIONS...
parse() {
    made=$1
    shift
    [ -e "$made" ] || pdtools parse "$@" --on-error skip --workers "${WORKERS:-1}" --resume -o "$made"
}

if staged trees; then
    [ -d "$corpus" ] || fail "$corpus: no such folder"
    train=$(listed train "${TRAIN:-}")
    valid=$(listed valid "${VALID:-}")
    test=$(listed test "${TEST:-}")
    twice=$(printf '%s\n' $train $valid $test | sort | uniq -d | head -n 1)
    [ -z "$twice" ] || fail "$twice: a section is named twice, in one list of sections or in two"
    set -- $(for section in $train $valid $test; do [ -d "$corpus/$section" ] || echo "$section"; done)
    [ $# = 0 ] || fail "$corpus: $# sections are missing, the first is $1; name the folder that has 1987, 1988 and \
1989 in it, or list other sections (TRAIN=, VALID=, TEST=)"
    mkdir -p "$out/own" "$out/words" "$out/parsed"
    sections=$(echo "$train / $valid / $test" | cksum)
    settings="PARSER=$parser MODEL=${MODEL:-} TRAIN=${TRAIN:-} VALID=${VALID:-} TEST=${TEST:-} (${sections% *})"
    settled "$out" "$settings VALID_SENTENCES=${VALID_SENTENCES:-500} TEST_SENTENCES=${TEST_SENTENCES:-1000}"

    # 1. The corpus's trees.
    set --
    for section in $train; do set -- "$@" "$corpus/$section/*"; done
    parse "$out/own/train.trees" "$@" --from treebank
    for part in valid test; do
        case $part in
        valid) sections=$valid first=${VALID_SENTENCES:-500} ;;
        test) sections=$test first=${TEST_SENTENCES:-1000} ;;
        esac
        for section in $sections; do
            whole=$out/own/$(echo "$section" | tr / -).trees
            parse "$whole" "$corpus/$section/*" --from treebank
            head -n "$first" "$whole"
        done >"$out/own/$part.part"
        mv "$out/own/$part.part" "$out/own/$part.trees"
    done

    # 2. A parser's trees of the same words.
    for part in train valid test; do
        [ "$parser" != corpus ] || break
        if [ ! -e "$out/words/$part.txt" ]; then
            sed 's/([^ ()]* //g; s/)//g' "$out/own/$part.trees" >"$out/words/part"
            mv "$out/words/part" "$out/words/$part.txt"
        fi
        parse "$trees/$part.trees" "$out/words/$part.txt" --from tokens --parser "$parser" \
            ${MODEL:+--model "$MODEL"} --device "$DEVICE"
    done
    wc -l "$trees/train.trees" "$trees/valid.trees" "$trees/test.trees" >&2
fi

sh "$studies/syntax/study.sh" "$trees" "$out/study"
