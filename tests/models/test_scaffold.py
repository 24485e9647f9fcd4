"""Language models with a structural scaffold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from action_oracle import constituents
from hypothesis import given

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import build_model, make_config
from pdtools.models.scaffold import ScaffoldLM, known_runs, runs_of
from pdtools.shards import ShardSet, ShardSettings, TokenizerSettings, shards_from_files
from pdtools.trees import Constituents

LABELS = ("S", "NP", "VP")
SPECIAL = {"vocab_size": 8, "pad_id": 0, "root_id": 1, "eos_id": 2}
SHAPE = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32, "positions": "relative"}


def scaffold_model(runs: Sequence[str], **settings: object) -> ScaffoldLM:
    torch.manual_seed(0)
    model = build_model("sclm", make_config("sclm", {**SPECIAL, **SHAPE, "runs": runs, **settings})).eval()
    assert isinstance(model, ScaffoldLM)
    return model


def tree(labels: Sequence[int], opens: Sequence[int], closes: Sequence[int]) -> Constituents:
    return Constituents(*(np.array(each, np.int32) for each in (labels, opens, closes)))


# (S (NP the hungry cat) (VP meows))
CAT = tree([0, 1, 2], [2, 0, 0, 1], [0, 0, 1, 2])


def test_runs() -> None:
    assert runs_of(CAT, LABELS) == ["(S (NP", "", "", ") (VP", ") )"]
    assert runs_of(tree([0, -1], [1, 1], [0, 2]), LABELS) == ["(S", "?", ") )"]
    assert runs_of(tree([0], [1], [1]), LABELS) == ["(S", ")"]


@given(drawn=constituents())
def test_runs_are_what_stands_between_the_tokens(drawn: tuple[list[int], Constituents]) -> None:
    """Of the tree written down."""
    tokens, found = drawn
    text, label = [], iter(found.labels.tolist())
    for opens, closes in zip(found.opens.tolist(), found.closes.tolist(), strict=True):
        text += [f"({LABELS[next(label)]}" for _ in range(opens)] + ["word"] + [")"] * closes
    between = " ".join(text).split("word")
    assert [run.strip() for run in between] == runs_of(found, LABELS)
    assert len(between) == len(tokens) + 1


def test_known_runs_are_ranked_by_frequency() -> None:
    one = tree([0], [1, 0], [0, 1])
    assert known_runs([(CAT, LABELS), (one, LABELS)]) == ("", "(S", "(S (NP", ")", ") (VP", ") )")


@pytest.mark.parametrize(("scaffold", "first"), [("next", 0), ("past", 1)])
def test_the_loss_is_that_of_tokens_and_that_of_runs(scaffold: str, first: int) -> None:
    model = scaffold_model(["", "(S (NP", ") (VP", ") )", "(S"], scaffold=scaffold)
    rows = [([1, 3, 4, 5, 6, 2], [1, 0, 0, 2, 3]), ([1, 3, 2], [-1, -1]), ([1, 3, 4, 2], [])]
    batch = model.pack([(np.array(tokens), runs) for tokens, runs in rows])
    numbers = np.full((3, 6), -1)
    numbers[0, first : first + 5] = rows[0][1]
    assert batch.run.tolist() == numbers.tolist()

    with torch.no_grad():
        loss = model.loss(batch)
    assert (int(loss.counts["tokens"]), int(loss.counts["attachments"])) == (5 + 2 + 3, 5)
    plain = build_model("transformer", make_config("transformer", {**SPECIAL, **SHAPE})).eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("scaffold.")})
    parts = plain.forward_parts(batch)
    assert float(loss.sums["token_nll"]) == pytest.approx(
        -float(parts.token_logprobs.detach().sum()), rel=1e-5
    )
    assert torch.equal(model.forward_parts(batch).token_logprobs, parts.token_logprobs)

    ids = torch.tensor([[1, 3, 4, 5, 6, 2]])
    nll = right = 0.0
    for position, number in enumerate(numbers[0].tolist()):
        if number >= 0:  # from the tokens so far alone
            part = model.pack([(ids[0, : position + 1].numpy(), [])])
            embedding = model.embedding(part.tokens)
            hidden = model.hidden_states(embedding, part.lengths, model._view(part))[0, -1]
            logprobs = model.scaffold(hidden).log_softmax(0)
            nll -= float(logprobs[number])
            right += int(logprobs.argmax()) == number
    assert float(loss.sums["attachment_nll"]) == pytest.approx(nll, rel=1e-4)
    assert int(loss.counts["attachments_right"]) == right


def test_a_batch_of_nothing_moves_nothing() -> None:
    model = scaffold_model(["", "(S"])
    loss = model.loss(model.pack([]))
    (loss.sums["token_nll"] + loss.sums["attachment_nll"]).backward()
    assert all(float(value) == 0 for value in {**loss.sums, **loss.counts}.values())
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"runs": []}, "runs must be at least one"),
        ({"treereg_layer": 1}, "without attachment_head, treereg_layer and as_released"),
        ({"attachment_head": True}, "without attachment_head, treereg_layer and as_released"),
        ({"scaffold": "both"}, "scaffold"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(PdtoolsError, match=problem):
        make_config("sclm", {**SPECIAL, **SHAPE, "runs": ["(S"], **settings})


@pytest.mark.parametrize(("constituents", "wanted"), [("labelled", [1, 0, 0, -1, 2]), ("none", [])])
def test_rows_of_shards(constituents: str, wanted: list[int], tmp_path: Path) -> None:
    """Without labelled constituents too, where nothing is to be learned from them."""
    (tmp_path / "x.trees").write_text("(S (NP (D the) (A hungry) (N cat)) (VP (V meows)))\n")
    settings = ShardSettings(constituents=constituents)  # type: ignore[arg-type]
    making = TokenizerSettings(min_count=1)
    shards_from_files([str(tmp_path / "x.trees")], making, settings, tmp_path / "shards", Rejects())
    found = scaffold_model(["", "(S (NP", ") )"]).derivation_of(ShardSet.open(tmp_path / "shards"), 0)
    assert found.tolist() == wanted
