#!/bin/sh
# What a newcomer does first, with the wheel and with the source distribution: a new environment, no compiler on the
# path, and a few commands. Usage: smoke.sh FOLDER OF DISTRIBUTIONS [PYTHON [FILES, such as '*.whl']]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
dist=$(cd "${1:?name the folder of the distributions}" && pwd)
python=${2:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# constraints.txt is for Python 3.11 and newer: older ones get their own versions of all but torch.
pins=$here/constraints.txt
if "$python" -c 'import sys; sys.exit(sys.version_info >= (3, 11))'; then
    grep '^torch==' "$pins" > "$work/pins.txt"
    pins=$work/pins.txt
fi
cd "$work"  # not where pdtools/ is a folder

for file in "$dist"/pushdown_tools-${3:-*[lz]}; do
    "$python" -m venv --clear environment
    environment/bin/python -m pip install --quiet --disable-pip-version-check \
        --constraint "$pins" "$file"
    mkdir -p path && ln -sf "$work/environment/bin/pdtools" path/pdtools
    for tool in cat ls mkdir rm; do ln -sf "$(command -v $tool)" path/$tool; done
    (
        PATH="$work/path"
        mkdir tried
        cd tried
        pdtools --version
        pdtools surprisal --text "The dog that chased the cats barks." --model demo --quiet
        mkdir treebank
        echo '(S (NP (DT the) (NN dog)) (VP (VBZ barks)))' > treebank/one.mrg
        pdtools parse treebank --from treebank -o one.trees
        pdtools tapes one.trees --tokenizer word --min-count 1 -o shards
        pdtools train shards --config tiny --set train.steps=2 -o run 2> said
        cat said
        case $(cat said) in *"no C compiler"*) ;; *) echo "a missing compiler was not said" && exit 1 ;; esac
        pdtools surprisal --text "the dog barks" --model run
        pdtools eval-blimp "$here/data/blimp" --model run --limit 1 -o results --quiet
        cd ..
        rm -r tried
    )
    echo "$(basename "$file"): works with $("$python" --version)"
done
