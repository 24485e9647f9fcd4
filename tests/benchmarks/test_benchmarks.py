"""The benchmarks: the plain formulation is the same model, inputs are legal, and what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pdtools.models import build_model, legal_attachments, make_config, tape_from_attachments
from pdtools.search.options import SearchOptions


def options(**changes: Any) -> Any:
    from measure import Options

    return Options(**{"device": "cpu", "dtype": torch.float32, "threads": 1, "repeats": 1, **changes})


def test_the_plain_formulation_has_the_same_loss_and_gradients() -> None:
    from measure import treebank_batch
    from plain import pushdown as plain_pushdown

    batch = treebank_batch(2, 40, vocab_size=20)
    dropout = dict.fromkeys(("input_dropout", "attention_dropout", "output_dropout"), 0.0)
    shape = {"vocab_size": 20, "pad_id": 0, "root_id": 1, "eos_id": 2, "layers": 2, "d_model": 16, "heads": 4}
    settings = {**shape, **dropout, "positions": "learned", "depths": 4}
    torch.manual_seed(0)
    model = build_model("pushdown", make_config("pushdown", settings)).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    assert int(tape_from_attachments(batch.attach).max()) >= 4  # some are deeper than the table

    parts = model.loss(batch)
    ours = parts.sums["token_nll"] + parts.sums["attachment_nll"]
    plain = plain_pushdown.loss(model, batch)
    torch.testing.assert_close(plain, ours, rtol=1e-6, atol=0, check_dtype=False)
    parameters = list(model.parameters())
    for one, other in zip(
        torch.autograd.grad(plain, parameters), torch.autograd.grad(ours, parameters), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)  # our loss is in single precision


def test_rows_are_full_and_legal() -> None:
    from measure import treebank_batch

    batch = treebank_batch(3, 70, vocab_size=20)
    assert batch.lengths.tolist() == [70] * 3
    legal = legal_attachments(tape_from_attachments(batch.attach))
    chosen = legal.gather(2, batch.attach[:, :, None])[:, :, 0]
    assert bool(chosen[batch.attached()].all())
    shifts = batch.attach == torch.arange(70)
    assert 0.2 < float(shifts.float().mean()) < 0.8


def test_peak_memory_is_that_of_tensors_held_at_once() -> None:
    from measure import peak_memory

    def run() -> None:
        first = torch.empty(3 << 18)  # 3 MiB
        second = torch.empty_like(first)
        del first, second
        torch.empty(1 << 18)

    assert peak_memory(run, "cpu") == pytest.approx(6, rel=0.01)


def test_whole_evaluations_are_measured_on_bundled_suites_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minicons")
    import suite
    from train_step import TRUNK

    monkeypatch.setenv("PDTOOLS_TEST_DATA", "nowhere")
    monkeypatch.setattr(suite, "SAMPLES", {1: 4, 5: 4})
    monkeypatch.setattr(suite, "SHARED_BEAM", 5)
    monkeypatch.setattr(suite, "PEER_BATCHES", (16,))
    monkeypatch.setattr(suite, "VOCABULARY", 400)
    monkeypatch.setattr(suite, "WHOLE_BLIMP_HOURS", {("beam 5", torch.float32): 0.1})
    for name, size in {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 32}.items():
        monkeypatch.setitem(TRUNK, name, size)
    found = {figure.name: figure for figure in suite.figures(options())}
    assert len(found) == 3 + 2 * 3 + 3 + 1
    assert all(figure.value > 0 for figure in found.values())
    assert all("no test data" in figure.settings["suites"] for figure in found.values())
    assert found["eval-blimp, GPT-2 architecture"].settings["largest_difference_nats"] < 1e-4
    whole, speed = (found[f"{name}, beam 5"] for name in ("all of BLiMP", "eval-blimp"))
    assert whole.value == pytest.approx(134_000 / speed.value / 3600)
    assert (whole.ratio, whole.bar) == (pytest.approx(whole.value / 0.1), 1)
    assert found["all of BLiMP, beam 1"].bar is None
    shared = found["shared prefixes, SG, beam 5"]
    assert 0 < shared.settings["hypotheses_saved"] < shared.settings["tokens_saved"] < 1


def test_models_of_actions_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    import grammar_models
    from train_step import TRUNK

    for name, size in {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 32, "vocab_size": 50}.items():
        for trunk in (TRUNK, grammar_models.SMALL_TRUNK):
            monkeypatch.setitem(trunk, name, size)
    monkeypatch.setattr(grammar_models, "ROWS", 2)
    monkeypatch.setattr(grammar_models, "WORDS", 4)
    monkeypatch.setattr(grammar_models, "SENTENCES", 1)
    monkeypatch.setattr(
        grammar_models, "SearchOptions", lambda: SearchOptions(beam=4, word_beam=2, fast_track=1)
    )
    asked, string_of = [], grammar_models.string_of
    monkeypatch.setattr(
        grammar_models, "string_of", lambda words, *more: asked.append(words) or string_of(words, *more)
    )
    found = {figure.name: figure for figure in grammar_models.figures(options())}
    assert {"training step, tg", "training step, plm-mask", "training step, plm"} < set(found)
    assert all(figure.value > 0 and figure.ratio is not None for figure in found.values())
    assert found["training step, tg"].settings["shape"][0] == 2
    assert asked == [4, 24]
    small = found["search, tg, 24 words, d 16"]
    assert small.ratio == pytest.approx(small.value / 1.1)


def test_where_the_time_of_a_training_run_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    import loop

    for name, value in (("STEPS", 6), ("FIRST", 2), ("LAST", 5)):
        monkeypatch.setattr(loop, name, value)
    monkeypatch.setattr(loop, "CPU_MODEL", {"layers": 1, "d_model": 32, "heads": 2, "d_ff": 64})
    found = {figure.name: figure for figure in loop.figures(options())}
    assert len(found) == 2 * 3
    assert all(0 < figure.value < 100 for figure in found.values())
    assert found["loop: pushdown, padding"].settings["recorded_steps"] == 3


def test_every_form_of_treebank_is_measured(tmp_path: Path) -> None:
    import forms

    from pdtools.trees import Tree
    from pdtools.trees.forms import FORMS

    texts = ["(S (NP (DT The) (NN dog)) (VP (V barks)) (. .))", "(S (ADV So) (NP (N it)) (VP (V did)))"]
    trees = [Tree.from_brackets(text) for text in texts]
    assert forms.WRITERS.keys() == {"treebank", *FORMS}
    for name, write in forms.WRITERS.items():
        (tmp_path / name).write_text(write(trees))
        assert forms.read(name, str(tmp_path / name)) == 7, name


def test_sweeps_are_drawn_a_panel_each(monkeypatch: pytest.MonkeyPatch) -> None:
    import sweep

    drawn: list[dict[str, Any]] = []
    monkeypatch.setattr("pdtools.report.view.vega.save_chart", lambda _, chart: drawn.append(chart))
    names = [f"training step by length, {n}, {model}" for n in (32, 64) for model in sweep.MODELS]
    names += [f"tapes by corpus, {n}" for n in (10, 100)]
    lines = [
        {"name": name, "value": k + 1.5, "settings": {"x": int(name.split(", ")[1])}}
        for k, name in enumerate(names)
    ]
    sweep.plot(lines, "growth.svg")
    (figure,) = drawn
    times, tapes = figure["concat"][0]["data"]["values"], figure["concat"][5]
    assert {(row["series"], row["x"], row["y"]) for row in times} == {
        (name.split(", ")[2], line["settings"]["x"], line["value"])
        for name, line in zip(names[:-2], lines, strict=False)
    }
    assert [(row["x"], row["y"]) for row in tapes["data"]["values"]] == [
        (line["settings"]["x"], line["value"]) for line in lines[-2:]
    ]
    assert tapes["layer"][0]["encoding"]["y"]["scale"] == {"zero": True}
