from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_pairs import pairs_of

from pdtools.errors import PdtoolsError
from pdtools.evaluation.formal.transduction import evaluate_task, task_of
from pdtools.formal.transduction_data import RowLayout, task_tokenizer
from pdtools.formal.transductions import StringPairs, Task, make_task
from pdtools.models import Batch, LoadedModel, build_model, make_config
from pdtools.models.transformer.view import View

SMALL = {
    "layers": 2,
    "d_model": 16,
    "heads": 2,
    "d_ff": 32,
    "stack_layers": "all",
    "positions": "learned",
}


def loaded(
    task: Task, model: str = "transformer", lengths: tuple[int, int] = (1, 4), **options: Any
) -> LoadedModel:
    """A model with random weights, large enough that its predictions differ from each other."""
    tokenizer = task_tokenizer(task)
    given = SMALL if model == "transformer" else {"hidden_size": 8}
    special = {name: getattr(tokenizer, name) for name in ("vocab_size", "pad_id", "root_id", "eos_id")}
    torch.manual_seed(1)
    built = build_model(model, make_config(model, {**special, **given, **options})).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.ndim == 2:
                parameter.add_(torch.randn_like(parameter) * 0.5)
    settings = {**task.settings, "lengths": list(lengths)}
    config = {"model": model, "shards": settings}
    return LoadedModel(model=built, tokenizer=tokenizer, config=config, folder=Path("run"))


def drawn(task: Task, lengths: tuple[int, ...], number: int = 6) -> dict[int, StringPairs]:
    return {length: pairs_of(task, length, number, seed=3) for length in lengths}


@pytest.mark.parametrize("name", ["rs", "sm", "ma"])
def test_masked_predictions_are_the_likeliest(name: str) -> None:
    task = make_task(name)
    found = loaded(task, objective="masked")
    pairs = drawn(task, (5, 7))
    results = evaluate_task(pairs, found, max_batch=4)
    assert results.settings["unit"] == "fraction of 1"
    items = results.tables["items"].to_pylist()
    assert [(item["length"], item["number"]) for item in items] == [
        (n, i) for n in (5, 7) for i in range(1, 7)
    ]
    layout = RowLayout(task=task, tokenizer=found.tokenizer, objective="masked")
    seen = set()
    for item in items:
        number = item["number"] - 1
        one = pairs[item["length"]].take(slice(number, number + 1))
        batch, first = layout.batch(one), layout.first_position(item["length"])
        hidden = found.model.hidden_states(  # type: ignore[operator]
            found.model.embedding(batch.tokens), batch.lengths, View()
        )
        every = found.model.logits(hidden)[0]  # type: ignore[operator]
        outputs = layout.output_tokens
        best = [outputs[int(every[k][outputs].argmax())] for k in range(first, first + int(one.counted[0]))]
        assert item["predicted"].split() == [found.tokenizer.token_text(int(token)) for token in best]
        wanted = layout.token_of_symbol[one.y[0, : len(best)]]
        assert (item["right"], item["symbols"]) == ((np.array(best) == wanted).sum(), len(best))
        seen |= set(best)
    assert len(seen) > 1


@pytest.mark.parametrize("objective", ["masked", "causal"])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("transformer", {}),
        ("transformer", {"as_released": True}),
        ("rnn", {"controller": "rnn", "stack": "superposition"}),
        ("rnn", {"stack": "none", "first_input": "root"}),
    ],
)
def test_position_logprobs_are_those_of_targets(model: str, options: dict[str, Any], objective: str) -> None:
    task = make_task("sm")
    found = loaded(task, model, objective=objective, **options)
    layout = RowLayout(task=task, tokenizer=found.tokenizer, objective=found.model.objective)
    batch = layout.batch(pairs_of(task, 5, 4, seed=3))
    assert batch.scored is not None
    with torch.no_grad():
        every = found.model.position_logprobs(batch)
        for token in range(found.tokenizer.vocab_size):
            asked = dataclasses.replace(batch, targets=torch.full_like(batch.tokens, token))
            of_targets = found.model.forward_parts(asked).token_logprobs
            torch.testing.assert_close(every[..., token][batch.scored], of_targets[batch.scored])


def greedy_by_hand(found: LoadedModel, layout: RowLayout, tokens: list[int], symbols: int) -> list[int]:
    """One row, read again from its beginning for every symbol."""
    read, chosen = list(tokens), []
    for _ in range(symbols):
        row = torch.tensor([read])
        batch = Batch(tokens=row, attach=torch.arange(len(read))[None], lengths=torch.tensor([len(read)]))
        following = found.model.following_logprobs(batch)[0]
        chosen.append(max(layout.output_tokens.tolist(), key=lambda token: following[token].item()))
        read.append(chosen[-1])
    return chosen


@pytest.mark.parametrize("name", ["rs", "sm", "se"])
def test_greedy_predictions_are_read_by_the_model(name: str) -> None:
    task = make_task(name)
    found = loaded(task)
    pairs = drawn(task, (6,))
    items = evaluate_task(pairs, found, max_batch=4).tables["items"].to_pylist()
    layout = RowLayout(task=task, tokenizer=found.tokenizer, objective="causal")
    batch, first = layout.batch(pairs[6]), layout.first_position(6)
    for i, item in enumerate(items):
        by_hand = greedy_by_hand(found, layout, batch.tokens[i, :first].tolist(), item["symbols"])
        assert item["predicted"].split() == [found.tokenizer.token_text(token) for token in by_hand]


@pytest.mark.parametrize("as_released", [False, True])
@pytest.mark.parametrize("positions", ["none", "learned", "sincos", "relative", "rotary", "alibi"])
def test_symbol_by_symbol_is_as_in_the_whole_row(positions: str, as_released: bool) -> None:
    """What a model says after its own symbols: rows have one length, also where the answer ends before."""
    task = make_task("sm")
    found = loaded(task, positions=positions, as_released=as_released)
    pairs = drawn(task, (6,))[6]
    items = evaluate_task({6: pairs}, found).tables["items"].to_pylist()
    layout = RowLayout(task=task, tokenizer=found.tokenizer, objective="causal")
    of_text = {found.tokenizer.token_text(token): token for token in layout.output_tokens.tolist()}
    batch, first = layout.batch(pairs), layout.first_position(6)
    for i, item in enumerate(items):
        said = [of_text[text] for text in item["predicted"].split()]
        batch.tokens[i, first : first + len(said)] = torch.tensor(said)
    with torch.no_grad():
        every = found.model.position_logprobs(batch)[..., layout.output_tokens]
    for i, item in enumerate(items):
        best = layout.output_tokens[every[i, first : first + item["symbols"]].argmax(-1).numpy()]
        assert [found.tokenizer.token_text(token) for token in best.tolist()] == item["predicted"].split()


def says(found: LoadedModel, symbol: str) -> LoadedModel:
    """The same, but for a model that is sure of one symbol everywhere."""
    (wanted,) = found.tokenizer.word_tokens(symbol)

    def sure(batch: Batch) -> torch.Tensor:
        every = torch.full((*batch.tokens.shape, found.tokenizer.vocab_size), -9.0)
        every[:, :, wanted] = 0
        return every

    found.model.position_logprobs = sure  # type: ignore[method-assign]
    return found


def test_scores() -> None:
    task = make_task("sm")
    found = says(loaded(task, objective="masked", lengths=(1, 4)), "a")
    pairs = drawn(task, (4, 5, 6, 9), number=40)
    results = evaluate_task(pairs, found)
    shares = {
        length: [
            (pairs[length].y[i, :counted] == 0).mean() for i, counted in enumerate(pairs[length].counted)
        ]
        for length in pairs
    }
    pooled = {length: float((each.y == 0).sum() / each.counted.sum()) for length, each in pairs.items()}
    by_length = {length: results.scores["by_length"][str(length)]["accuracy"] for length in pairs}
    assert by_length == pytest.approx(pooled)
    assert by_length != pytest.approx({length: np.mean(share) for length, share in shares.items()})
    for score, lengths in (
        ("accuracy", (4, 5, 6, 9)),
        ("accuracy_beyond_training", (5, 6, 9)),
        ("accuracy_as_released", (6, 9)),
    ):
        assert results.scores[score] == pytest.approx(np.mean([pooled[length] for length in lengths]))
    assert results.scores["exact"] == 0  # END is never said
    assert results.settings["decoding"] == "at once"
    assert results.settings["trained_lengths"] == [1, 4]
    assert results.counts == {
        "pairs": 160,
        "symbols": sum(int(each.counted.sum()) for each in pairs.values()),
    }
    always = says(loaded(make_task("rs"), objective="masked"), "a")
    alike = StringPairs(*(np.zeros((3, 5), dtype=np.int64),) * 2, np.full(3, 5))
    results = evaluate_task({5: alike}, always)
    assert (results.scores["accuracy"], results.scores["exact"]) == (1, 1)
    assert (
        evaluate_task({4: StringPairs(alike.x[:, :4], alike.y[:, :4], np.full(3, 4))}, always).scores[
            "accuracy_beyond_training"
        ]
        is None
    )


def test_dropout() -> None:
    task = make_task("rs")
    found = loaded(task, objective="masked", output_dropout=0.5)
    pairs = drawn(task, (12,), number=20)

    def predicted(**options: Any) -> list[str]:
        return evaluate_task(pairs, found, **options).tables["items"]["predicted"].to_pylist()

    assert predicted() == predicted(seed=1)
    assert predicted(dropout=True) != predicted()
    assert predicted(dropout=True) == predicted(dropout=True)
    assert predicted(dropout=True) != predicted(dropout=True, seed=1)
    assert not found.model.training


def test_models_without_a_task() -> None:
    found = loaded(make_task("rs"))
    without_range = {"task": "rs", "as_released": False}
    for settings in (
        *({"layout": "sentence"}, {"task": "rs"}, {"task": 3, "as_released": True}),
        *({**without_range, "lengths": lengths} for lengths in (None, 4, [1], [1, 2, 3])),
    ):
        found.config["shards"] = settings
        with pytest.raises(PdtoolsError, match=r"run: not trained on a task \(pdtools train --task NAME\)"):
            task_of(found)
