"""The R script of the examples on tables of surprisals, where R and its packages are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "data" / "scripts" / "stimuli.R"
PACKAGES = 'for (name in c("dplyr", "ggplot2", "lme4", "readr")) library(name, character.only = TRUE)'
RSCRIPT = shutil.which("Rscript")
BITS = {("1", "a"): 3.0, ("1", "b"): 5.5, ("2", "a"): 1.0, ("2", "b"): 2.0, ("3", "a"): 7.0, ("3", "b"): 11.0}


@pytest.fixture(scope="module", autouse=True)
def _packages() -> None:
    if RSCRIPT is None or subprocess.run([RSCRIPT, "-e", PACKAGES], capture_output=True).returncode:
        pytest.skip("R, or one of dplyr, ggplot2, lme4, readr is not installed")


def run_script(folder: Path, rows: list[str], header: str, *arguments: str) -> str:
    (folder / "t.csv").write_text("\n".join([header, *rows]) + "\n")
    assert RSCRIPT is not None
    command = [RSCRIPT, str(SCRIPT), "t.csv", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "NaNs produced" not in done.stderr
    assert (folder / "surprisals.pdf").read_bytes().startswith(b"%PDF")
    return done.stdout


def test_the_effect_is_the_mean_difference(tmp_path: Path) -> None:
    """Of one sentence for each item and condition, the fixed effect is the mean difference."""
    rows = [
        f"{item},{condition},m,{region},{bits if region == 2 else 9 + int(item)},0"
        for (item, condition), bits in BITS.items()
        for region in (1, 2)
    ]
    rows.append("1,b,n,1,4,0")
    rows.append("1,b,n,2,4,0")
    out = run_script(tmp_path, rows, "item,condition,model,region,surprisal,crossing")
    effect = next(line for line in out.splitlines() if line.startswith("conditionb"))
    assert float(effect.split()[1]) == pytest.approx((2.5 + 1 + 4) / 3, rel=1e-5)
    assert "one item or one condition: nothing to fit" in out
    assert "no region is given: the effect is that at region 2" in out
    out = run_script(tmp_path, rows, "item,condition,model,region,surprisal,crossing", "1")
    effect = next(line for line in out.splitlines() if line.startswith("conditionb"))
    assert float(effect.split()[1]) == pytest.approx(0, rel=2e-6, abs=1e-6)
    assert "no region is given" not in out
    in_nats = [f"{row},nats" for row in rows]
    out = run_script(tmp_path, in_nats, "item,condition,model,region,surprisal,crossing,unit", "2")
    effect = next(line for line in out.splitlines() if line.startswith("conditionb"))
    assert float(effect.split()[1]) == pytest.approx((2.5 + 1 + 4) / 3 / np.log(2), rel=1e-5)


def test_factors_and_odd_headers(tmp_path: Path) -> None:
    """Main effects and the interaction are differences of means; headers have any case, and occur twice."""
    rng = np.random.default_rng(0)
    bits = rng.normal(9, 2, (5, 2, 2))
    rows = [
        f"{i},x,{ambiguity},{length},i{i},n{i},m,Verb,{bits[i, a, b]},0"
        for i in range(5)
        for a, ambiguity in enumerate(("un", "amb"))
        for b, length in enumerate(("short", '"long, very"'))
    ]
    rows += [",,,,,,m,Verb,3,0", "9,x,amb,short,i9,n9,m,Verb,,0"]  # a filler, and a row without surprisal
    header = "Item,Note,Ambiguity,Region length,item,Note,model,region,surprisal,crossing"
    out = run_script(tmp_path, rows, header, "Verb", "ambiguity", "Region length")
    lines = out.split("t value")[1].splitlines()
    found = [float(line.split()[-3]) for line in lines if line.strip()]
    assert found[1:] == pytest.approx(
        [
            (bits[:, 1] - bits[:, 0]).mean(),
            (bits[..., 1] - bits[..., 0]).mean(),
            (bits[:, 1, 1] - bits[:, 0, 1] - bits[:, 1, 0] + bits[:, 0, 0]).mean(),
        ],
        rel=1e-5,
    )
    for arguments, message in {
        ("Verb", "ambi"): "Error: t.csv: no column ambi (there are Item, Note...2, Ambiguity, ",
        ("3", "ambiguity"): "Error: no region 3: there are Verb",
    }.items():
        done = subprocess.run(
            [str(RSCRIPT), str(SCRIPT), "t.csv", *arguments], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 1
        assert message in done.stderr


def test_whole_sentences(tmp_path: Path) -> None:
    rows = [f"{item},{condition},m,{bits},0" for (item, condition), bits in BITS.items()]
    out = run_script(tmp_path, rows, "Item,Condition,model,surprisal,crossing")
    assert "conditionb" in out


def test_the_chunks_of_the_quarto_document(tmp_path: Path) -> None:
    """Without Quarto: what its chunks ask for is there once the script is sourced."""
    rows = [f"{item},{condition},m,{bits},0" for (item, condition), bits in BITS.items()]
    (tmp_path / "surprisals.csv").write_text("\n".join(["item,condition,model,surprisal,crossing", *rows]))
    shutil.copy(SCRIPT, tmp_path)
    chunks = SCRIPT.with_suffix(".qmd").read_text("utf-8").split("```{r}\n")[1:]
    code = "".join(chunk.split("```")[0] for chunk in chunks).replace(
        "knitr::kable(means, digits = 2)", "means"
    )
    assert "knitr" not in code
    assert RSCRIPT is not None
    (tmp_path / "chunks.R").write_text(code)
    done = subprocess.run([RSCRIPT, "chunks.R"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "A tibble: 2" in done.stdout
