"""``studies/reading/sap.py`` on an archive of SAP's form, whose sentences and surprisals are made up."""

from __future__ import annotations

import math
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[2] / "studies" / "reading" / "sap.py"
ITEMS = {
    "ClassicGP": ",item,condition,disambPositionAmb,disambPositionUnamb,ambiguity,Sentence\n"
    "0,1,NPS_AMB,2,3,ambiguous,a b c\n0,1,NPS_UAMB,2,3,unambiguous,a that b c\n"
    "0,2,NPS_AMB,2,3,ambiguous,d e f\n0,2,NPS_UAMB,2,3,unambiguous,d that e f\n",
    "RelativeClause": ",item,condition,targetPosition,Sentence\n0,3,RC_Subj,1,g h\n0,3,RC_Obj,2,h g\n",
    "AttachmentAmbiguity": ",item,condition,disambPosition,Sentence,disambPosition_0idx\n"
    "0,4,AttachHigh,1,i j,1\n0,4,AttachLow,1,k j,1\n0,4,AttachMulti,1,l j,1\n",
    "Agreement": ",item,Condition,disambPosition,Sentence,disambPosition_0idx\n"
    "0,5,UNAGREE,2,m n,2\n0,5,AGREE,2,m o,2\n",
}
# As the RNNG's own table has it: one condition for both.
RNNG = "item,condition,disambPositionAmb,disambPositionUnamb,ambiguity,word_pos,sum_surprisal\n" + "".join(
    f"{item},NPS_UAMB,2,3,{kind},{place},{nats * math.log(2)}\n"
    for item in (1, 2)
    for kind, place, nats in (
        ("ambiguous", 1, 10 + item),
        ("ambiguous", 2, 99),
        ("unambiguous", 2, 4),
        ("unambiguous", 1, 99),
    )
)


def test_items_and_bits(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "sap.zip", "w") as archive:
        for subset, text in ITEMS.items():
            archive.writestr(f"Surprisals/data/items_{subset}.pivot.csv", text)
        archive.writestr("Surprisals/data/rnng/items_ClassicGP.rnng.csv", RNNG)
    command = [sys.executable, str(SCRIPT)]
    subprocess.run([*command, "items", "sap.zip", "items.csv"], cwd=tmp_path, check=True)
    items = pd.read_csv(tmp_path / "items.csv")
    assert items.columns.tolist() == ["subset", "item", "condition", "sentence", "critical"]
    critical = [row.sentence.split()[row.critical - 1] for row in items.itertuples()]
    assert critical == ["b", "b", "e", "e", "g", "g", "i", "k", "l", "n", "o"]
    # A model whose words have as many bits as their place in the alphabet.
    words = [
        {**row._asdict(), "model": "own", "word_number": number, "surprisal": float(ord(word[0]) - 96)}
        for row in items.itertuples(index=False)
        for number, word in enumerate(row.sentence.split(), 1)
    ]
    pd.DataFrame(words).to_csv(tmp_path / "words.csv", index=False)
    subprocess.run([*command, "bits", "sap.zip", "words.csv", "bits.csv"], cwd=tmp_path, check=True)
    bits = pd.read_csv(tmp_path / "bits.csv").set_index(["subset", "model", "of"])
    assert bits.loc[("RelativeClause", "own")].bits.to_dict() == {
        "RC_Obj": 7.0,
        "RC_Subj": 7.0,
        "RC_Obj - RC_Subj": 0.0,
    }
    assert bits.loc[("AttachmentAmbiguity", "own")].bits.to_dict() == {
        **{"AttachHigh": 9.0, "AttachMulti": 12.0, "AttachHigh - AttachMulti": -3.0},
        **{"AttachLow": 11.0, "AttachLow - AttachMulti": -1.0},
    }
    assert bits.loc[("Agreement", "own", "UNAGREE - AGREE"), "bits"] == -1.0
    found = bits.loc[("ClassicGP", "own", "NPS_AMB")]
    assert (found["items"], found.bits, found.low, found.high) == (2, 3.5, 2.0, 5.0)
    found = bits.loc[("ClassicGP", "rnng", "NPS_AMB - NPS_UAMB")]
    assert found.tolist() == pytest.approx([2, 7.5, 7.0, 8.0])
