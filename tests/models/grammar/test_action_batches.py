"""Trees as actions: against a stack that is kept step by step, and the example of the specification."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from action_oracle import constituents, innermost_openers, plain_actions, stack_of_transformer_grammar
from hypothesis import given
from hypothesis import strategies as st

from pdtools.models.grammar.batch import ActionBatch
from pdtools.models.grammar.derivations import read_actions
from pdtools.models.kernels.grammar_attention import visible_keys
from pdtools.trees import Constituents, Tree
from pdtools.trees.actions import ActionIds, action_rows

PAD, START = 0, 1
PLM = ActionIds(tokens=6, labels=3, typed=False, doubled=False)
TG = ActionIds(tokens=6, labels=3, typed=True, doubled=True)
# (S (NP the hungry cat) (VP meows))
TOKENS = [3, 4, 5, 3]
TREE = Constituents(*(np.array(a, np.int32) for a in ([0, 1, 2], [2, 0, 0, 1], [0, 0, 1, 2])))


def with_ends(tokens: list[int]) -> np.ndarray:
    """ROOT and end-of-sentence around tokens."""
    return np.array([START, *tokens, 2])


def seen_by(batch: ActionBatch) -> torch.Tensor:
    """What positions of a Transformer Grammar see: bool (B, N, N)."""
    composes = (batch.tokens >= TG.first_closer) & (batch.pop != torch.arange(batch.pop.shape[1]))
    return visible_keys(batch.pop, composes, batch.depth).dense[1]


def test_the_example() -> None:
    rows = action_rows([(np.array(TOKENS), TREE)] * 2, TG, START)
    assert rows.begins.tolist() == [0, 14, 28]
    assert rows.actions[14:].tolist() == [1, 6, 7, 3, 4, 5, 10, 10, 8, 3, 11, 11, 9, 9]
    assert rows.pop[14:].tolist() == [14, 12, 6, 6, 6, 6, 12, 7, 10, 10, 12, 11, 14, 13]
    assert rows.depth[14:].tolist() == [0, 1, 2, 3, 3, 3, 2, 2, 2, 3, 2, 2, 1, 1]
    batch = ActionBatch.of_rows([(with_ends(TOKENS), TREE)], TG, START, PAD)
    mask = seen_by(batch)[0]
    seen = {i: torch.nonzero(mask[i])[:, 0].tolist() for i in (6, 7, 8, 12)}
    assert seen == {6: [2, 3, 4, 5, 6], 7: [0, 1, 6, 7], 8: [0, 1, 6, 8], 12: [1, 6, 10, 12]}
    rows = action_rows([(np.array(TOKENS), TREE)], PLM, START)
    assert rows.actions.tolist() == [1, 6, 7, 3, 4, 5, 9, 8, 3, 9, 9]
    assert rows.innermost.tolist() == [-1, 1, 2, 2, 2, 2, 1, 7, 7, 1, -1]


@pytest.mark.parametrize("ids", [PLM, TG])
@given(st.lists(constituents(), min_size=1, max_size=4))
def test_rows_are_what_a_stack_says(ids: ActionIds, trees: list[tuple[list[int], Constituents]]) -> None:
    rows = [(with_ends(tokens), tree) for tokens, tree in trees]
    batch = ActionBatch.of_rows(rows, ids, START, PAD)
    assert batch.scored is not None
    sizes = ids.positions(
        np.array([len(t) for t, _ in trees]), np.array([len(tree.labels) for _, tree in trees])
    )
    assert batch.lengths.tolist() == sizes.tolist()
    for b, (tokens, tree) in enumerate(trees):
        wanted = plain_actions(tokens, tree, ids, START)
        n = len(wanted)
        assert batch.tokens[b].tolist() == [*wanted, *[PAD] * (batch.tokens.shape[1] - n)]
        singly = [action for i, action in enumerate(wanted) if i and (not ids.doubled or batch.scored[b, i])]
        again = read_actions(np.array(singly), ids)
        for name in ("tokens", "labels", "opens", "closes"):
            expected = tokens if name == "tokens" else getattr(tree, name)
            np.testing.assert_array_equal(getattr(again, name), expected)
        assert batch.ends(2)[b].sum() == 1
        if not ids.doubled:
            assert batch.innermost[b, :n].tolist() == innermost_openers(wanted, ids)
            continue
        sees, depths = stack_of_transformer_grammar(wanted, ids)
        assert batch.depth[b, :n].tolist() == depths
        mask = seen_by(batch)[b]
        assert [set(torch.nonzero(line)[:, 0].tolist()) for line in mask[:n]] == sees
        assert bool(mask.diagonal().all())  # of padding too: what sees nothing is no number


@given(constituents(), st.integers(1, 6))
def test_trees_of_derivations(drawn: tuple[list[int], Constituents], cut: int) -> None:
    """Each closer closes the innermost constituent; what is open in the end is closed there."""
    tokens, tree = drawn
    actions = plain_actions(tokens, tree, PLM, START)[1:]
    begun = [k for k, action in enumerate(actions) if action < PLM.tokens][:cut][-1] + 1
    for some in (actions, actions[:begun]):
        parts: list[str] = []
        n_open = 0
        for action in some:
            if action < PLM.tokens:
                parts.append(f" ({'w'} {action})")
            else:
                parts.append(")" if action >= PLM.first_closer else f" ({'ABC'[action - PLM.tokens]}")
                n_open += 1 if action < PLM.first_closer else -1
        wanted = Tree.from_brackets("".join(parts) + ")" * n_open)
        derivation = read_actions(np.array(some), PLM)
        n = len(derivation.tokens)
        found = derivation.tree([str(token) for token in derivation.tokens], range(n), "ABC")
        for name in ("words", "labels"):
            assert getattr(found, name) == getattr(wanted, name)
        assert (found.starts.tolist(), found.ends.tolist()) == (wanted.starts.tolist(), wanted.ends.tolist())


def test_no_rows_are_a_batch_with_nothing_to_predict() -> None:
    batch = ActionBatch.of_rows([], TG, START, PAD)
    assert not batch.predicted().any()
    assert not batch.ends(2).any()
