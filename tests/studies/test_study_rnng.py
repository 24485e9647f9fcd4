"""The study of RNNGs: its tables from results written by hand, and its commands, resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from shell import script

STUDY = Path(__file__).resolve().parents[2] / "studies" / "rnng"
SAP = "subset,of,model,items,bits,low,high\n"


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return script(STUDY / "report.py")


def write_results(folder: Path, **scores: object) -> None:
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"scores": scores}))


def test_tables(report: ModuleType, tmp_path: Path) -> None:
    for rate, losses in (("2e-3", (9.0, 7.5)), ("4e-3", (6.0, 7.25)), ("8e-3", (8.0, 7.75))):
        (tmp_path / "rates" / rate).mkdir(parents=True)
        rows = [{"kind": "valid", "step": step, "loss": loss} for step, loss in enumerate(losses, 1)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "rates" / rate / "metrics.jsonl").write_text(lines)
    (tmp_path / "rates" / ".2e-3.lock").touch()
    assert report.best_rate(tmp_path) == "4e-3"

    for name, perplexity, sg, f1 in (
        ("base-1", 300.0, 0.30, None),
        ("base-2", 310.0, 0.34, None),
        ("tg-1", 400.0, 0.42, 70.0),
        ("rnng-1", 350.0, 0.45, 71.0),
        ("rnng-2", 360.25, 0.40, 72.5),
    ):
        results = tmp_path / "results" / name
        write_results(results / "ppl", ppl_word_marginal=perplexity, ppl_word_given_trees=perplexity / 2)
        write_results(results / "sg", sg_31=sg, by_circuit={"Agreement": 0.5}, margin_bits={"overall": sg})
        if f1 is not None:
            write_results(results / "labelled", f1=f1)
        costs = f"ClassicGP,NPS_AMB - NPS_UAMB,{name},24,{10 * sg},0,1\n"
        published = "ClassicGP,NPS_AMB - NPS_UAMB,rnng,24,3.52,2.09,5.06\n"
        (results / "sap.csv").write_text(SAP + costs + published + published.replace("rnng", "lstm"))

    scores = report.gathered(tmp_path)
    assert scores["runs"]["rnng"]["2"]["circuits"] == {"Agreement": 0.5}
    *_, row = report.table(scores).splitlines()
    values = "355.1 (350.0, 360.2) | 177.6 (175.0, 180.1) | 42.5 (45.0, 40.0) | 0.43 (0.45, 0.40)"
    assert row == f"| RNNG | {values} | 71.8 (71.0, 72.5) |  |"
    assert "| NP/S garden path | 3.2 |  | 4.2 | 4.2 | 3.5 (2.1 to 5.1) |" in report.sap(scores)
    assert report.relation(scores, "perplexity") == "above the base LM, below TG"
    assert report.relation(scores, "sg") == "above the base LM, not told apart from TG"
    assert report.rates(scores) == "7.50 at 2e-3, 7.25 at 4e-3, 7.75 at 8e-3"
    assert report.finding(scores) == (
        "Scored so far: 5 of 8 runs. The RNNG's perplexity is above the base LM, below TG;"
        " its SG score is above the base LM, not told apart from TG; its labelled F1 is above TG."
    )
    del scores["runs"]["rnng"]
    assert report.finding(scores) == "Scored so far: 3 of 8 runs."


# A pdtools that writes down how it is called, and makes what the study looks for.
PDTOOLS = """#!/bin/sh
echo "$*" >>"$RECORD"
for argument; do output=$argument; done
mkdir -p "$(dirname "$output")"
case $1 in
decode | surprisal) touch "$output" ;;
train)
    mkdir -p "$output"
    echo '{"kind": "valid", "step": 1, "loss": 2.0}' >"$output/metrics.jsonl"
    ;;
*)
    mkdir -p "$output"
    echo '{"scores": {"ppl_word_marginal": 2, "ppl_word_given_trees": 1, "f1": 50}}' >"$output/results.json"
    ;;
esac
[ "$1" != "$FAILS" ]
"""


def test_commands(tmp_path: Path) -> None:
    record = tmp_path / "record"
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    (tmp_path / "pdtools").write_text(PDTOOLS)
    (tmp_path / "pdtools").chmod(0o755)
    (tmp_path / "data" / "labelled").mkdir(parents=True)
    trees = "".join(f"(S (NN {number}))\n" for number in range(10))
    (tmp_path / "data" / "labelled" / "test.trees").write_text(trees)

    def study(**settings: str) -> subprocess.CompletedProcess[str]:
        record.write_text("")
        environment = {**os.environ, "PATH": path, "RECORD": str(record)}
        environment |= {"FAILS": "", "SEEDS": "1", "SENTENCES": "5", **settings}
        command = ["sh", str(STUDY / "study.sh"), "data", "a_study"]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    done = study(FAILS="decode")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Not all runs are done; the same command resumes them."
    assert (tmp_path / "a_study" / "test.trees").read_text() == "".join(trees.splitlines(True)[1::2])

    done = study()
    assert done.returncode == 0, done.stderr
    calls = record.read_text().splitlines()
    # What is finished is asked to resume, or not done again; rates are chosen once.
    assert all("--resume" in call for call in calls if call.startswith("train"))
    assert not [call for call in calls if "rates/" in call or call.startswith("tapes")]
    trained = [call for call in calls if call.startswith("train")]
    assert [call.partition("-o ")[2] for call in trained] == [
        f"a_study/runs/{model}-1" for model in ("base", "rnng", "pushdown", "tg")
    ]
    assert "--config rnng-small" in trained[1]
    assert "train.learning_rate=2e-3" in trained[1]
    labelled = [call for call in calls if call.endswith("/labelled")]
    assert ["rnng" in labelled[0], "tg" in labelled[1], len(labelled)] == [True, True, 2]
    scores = json.loads((tmp_path / "a_study" / "scores.json").read_text())
    assert list(scores["runs"]) == ["base", "pushdown", "rnng", "tg"]
    assert study().returncode == 0
    assert "decode" not in record.read_text()
    done = study(BEAM="5")
    assert (done.returncode, "name another folder" in done.stderr) == (1, True)
