from hypothesis import given
from hypothesis import strategies as st

from pdtools.parsers.backends import length_batches


@given(st.lists(st.integers(1, 60), max_size=50), st.integers(1, 200), st.integers(1, 5000))
def test_every_sentence_once_and_batches_bounded(lengths: list[int], max_tokens: int, max_cells: int) -> None:
    batches = list(length_batches(lengths, max_tokens=max_tokens, max_cells=max_cells))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        bounded = len(batch) * longest <= max_tokens and len(batch) * longest**2 <= max_cells
        assert bounded or len(batch) == 1
    longest_of = [max(lengths[i] for i in batch) for batch in batches]
    assert longest_of == sorted(longest_of)


def test_batches_are_filled() -> None:
    assert list(length_batches([2, 9, 2, 2], max_tokens=6, max_cells=100)) == [[0, 2, 3], [1]]
