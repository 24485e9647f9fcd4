# What the studies share; read by each study.sh. A long study is run from an installed copy of pdtools of its own: after a
# change of the code, evaluations that were stopped are not resumed.

# settled FOLDER SETTINGS [FILE]: writes down what the results in the folder are made with, or ends the study if they
# were made with other settings, since both would end up in the same table.
settled() {
    set -- "$1" "$2" "$1/${3:-settings}"
    [ -e "$3" ] || echo "$2" >"$3"
    if [ "$2" != "$(cat "$3")" ]; then
        echo "$1 was begun with $(cat "$3"), not $2: name another folder" >&2
        exit 1
    fi
}

# staged NAME: whether STAGES names this stage; without STAGES all are to be done.
staged() { case " ${STAGES:-$1} " in *" $1 "*) ;; *) return 1 ;; esac; }

# finished FAILED: ends the study; 1 where runs have failed or were stopped.
finished() {
    [ "$1" = 0 ] || echo "Not all runs are done; the same command resumes them." >&2
    exit "$1"
}

# perplexity SHARDS MODEL CHECKPOINT OUTPUT: marginal, exact or, of a model named pushdown, by 100 particles.
perplexity() {
    particles=
    [ "$2" != pushdown ] || particles="--no-marginal --particles 100"
    pdtools eval-ppl "$1" --model "$3" --threads 1 --quiet $particles --resume -o "$4" >/dev/null
}
