#!/bin/sh
# The four treebanks of both experiments, as examples/english-parser.sh reads them.
#
#   sh treebanks.sh ARCHIVES treebanks
#
# ARCHIVES: a folder with nltk_treebank.zip, gum_const.zip, craft_penn.zip and two-cities-benepar.tar.gz.
# In treebanks/: wsj/*.mrg, gum/const/*.ptb with gum/splits.md, craft/*.tree, cities/train.txt, valid.txt, test.txt.
set -eu
archives=$1 out=$2
[ ! -e "$out" ] || exit 0
rm -rf "$out.part"
mkdir -p "$out.part/cities"
python - "$archives" "$out.part" <<'PYTHON'
import sys, zipfile
from pathlib import Path

archives, out = map(Path, sys.argv[1:])
for archive, suffixes, folder in (
    ("nltk_treebank.zip", (".mrg",), "wsj"),
    ("gum_const.zip", (".ptb", "splits.md"), "gum"),
    ("craft_penn.zip", (".tree",), "craft"),
):
    with zipfile.ZipFile(archives / archive) as zipped:
        for name in sorted(zipped.namelist()):
            if name.endswith(suffixes):
                inside = "const" if name.endswith(".ptb") else ""
                path = out / folder / inside / Path(name).name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(zipped.read(name))
PYTHON
tar -xzf "$archives/two-cities-benepar.tar.gz" -C "$out.part/cities"
mv "$out.part" "$out"
