"""What is read before a sentence, and long texts in windows, against the definitions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_oracle import ROOT, logsumexp, save_checkpoints, tiny_model
from toy_gpt2 import save_gpt2
from window_oracle import searched_row, window_attachments, window_joints, window_tokens

from pdtools.errors import PdtoolsError
from pdtools.models import load_checkpoint, save_checkpoint
from pdtools.search import SentenceScore, StringFamily, beam_search, load_model
from pdtools.search.checkpoints import Encoded, encode_sentence
from pdtools.search.contexts import documents_of, joined, lines_of, parts_of, windows, with_documents
from pdtools.search.families.unsearched import string_logprobs
from pdtools.search.inputs import SourcedLine
from pdtools.search.model import Model
from pdtools.search.options import DOCUMENT, Context, SearchOptions
from pdtools.search.scores import GivenRow, Unscorable
from pdtools.search.surprisal import token_rows
from pdtools.tokenization import Sentence, split_spaces, train_word_tokenizer

WINDOW = 12
ENOUGH = 1000
IDS = {"a": 3, "b": 4, "c": 5}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_checkpoints(tmp_path_factory.mktemp("windows"), window=WINDOW)[0]


def ids(text: str) -> list[int]:
    return [IDS[word] for word in text.split()]


def after(*texts: str) -> Sentence:
    """The last sentence, the others before it."""
    *before, last = map(split_spaces, texts)
    return Sentence(last.text, last.words, last.starts, last.ends, tuple(before))


def one(scorer: Model, sentence: Sentence | str) -> SentenceScore:
    (found,) = scorer.score([sentence])
    assert isinstance(found, SentenceScore)
    return found


# --- the windows of a text ------------------------------------------------------------------------------


@given(st.integers(1, 60), st.integers(2, 12), st.data())
def test_windows_score_every_position_once_and_show_it_enough(
    length: int, window: int, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(1, window - 1))
    scored: list[int] = []
    for begin, end, first in windows(length, window, stride):
        assert begin % stride == 0
        assert end - begin <= window
        assert begin <= first < end
        assert begin == 0 or first - begin >= window - stride
        scored += range(first, end)
    assert scored == list(range(length))


@pytest.mark.parametrize(
    ("context", "most", "message"),
    [
        (Context(of=DOCUMENT, window=20), 12, "the model reads 12 positions at most"),
        (Context(stride=12), 12, "--stride 12: must be below the window's 12 positions"),
    ],
)
def test_windows_that_a_model_cannot_read(context: Context, most: int, message: str) -> None:
    with pytest.raises(PdtoolsError, match=message):
        context.window_of(most)


def test_a_window_is_the_models_unless_it_is_said() -> None:
    assert Context().window_of(None) is None
    assert Context().window_of(8) == 8
    assert Context(stride=2).window_of(None) == 1024
    assert Context(of=DOCUMENT, window=4).window_of(8) == 4


# --- documents ------------------------------------------------------------------------------------------


def lines(*texts: str, file: str = "f") -> list[SourcedLine]:
    return [SourcedLine(split_spaces(t), split_spaces(t), file, i) for i, t in enumerate(texts, start=1)]


def test_documents_end_with_files_and_at_blank_lines() -> None:
    text = [*lines("a b", "c", "", "a", "b"), *lines("c", file="g")]
    before = [[s.text for s in line.sentence.before] for line in with_documents(text, 100)]
    assert before == [[], ["a b"], [], [], ["a"], []]
    assert [[line.sentence.text for line in document] for document in documents_of(text)] == [
        ["a b", "c"],
        [""],
        ["a", "b"],
        ["c"],
    ]


@given(
    st.lists(st.tuples(st.sampled_from(["f", "f", "f", "g"]), st.sampled_from(["", "a", "b c", "c b a"]))),
    st.integers(2, 9),
)
def test_the_sentences_before_a_line_are_the_nearest_that_fit(
    texts: list[tuple[str, str]], window: int
) -> None:
    text = [line for file, each in texts for line in lines(each, file=file)]
    own: list[str] = []  # those of the line's document
    for before, line in zip([None, *text], with_documents(text, window), strict=False):
        if before is None or before.file != line.file or not line.sentence.words:
            own = []
        elif before.sentence.words:
            own.append(before.sentence.text)
        fit = [k for k in range(len(own) + 1) if sum(1 + len(t.split()) for t in own[k:]) <= window]
        assert [each.text for each in line.sentence.before] == own[fit[0] :]


@given(st.lists(st.lists(st.sampled_from(["a", "bb", "c,"]), min_size=1).map("  ".join), min_size=1))
def test_the_lines_of_a_document_come_back(texts: list[str]) -> None:
    sentences = list(map(split_spaces, texts))
    document = joined(sentences)
    assert document.text == "\n".join(texts)
    assert list(lines_of(document)) == sentences
    for word, start, end in zip(document.words, document.starts, document.ends, strict=True):
        assert document.text[start:end] == word


def test_tokens_are_numbered_in_their_own_sentence() -> None:
    """Without BOS the first token of a document has no row: its sentence's rows begin with token 2."""
    for texts, rows in (
        (("a b", "c", "b c"), ["b", "c", "b", "c"]),
        (("a", "c a", "b"), ["c", "a", "b"]),  # the first sentence has no row at all
    ):
        sentences = list(map(split_spaces, texts))
        document = joined(sentences)
        for first in (1, 2):
            of = slice(first - 1, None)
            score = SentenceScore(
                text=document.text,
                tokens=document.words[of],
                words=tuple(range(len(document.words)))[of],
                starts=document.starts[of],
                ends=document.ends[of],
                logprobs=-np.arange(len(document.words), dtype=float)[of],
                n_unknown=0,
                eos=False,
                first_token=first,
                seen=tuple(range(len(document.words)))[of],
                measures={"entropy": np.arange(len(document.words), dtype=float)[of]},
            )
            parts = [part for part in parts_of(score, sentences) if isinstance(part, SentenceScore)]
            assert [part.first_token for part in parts] == [first, *[1] * (len(texts) - 1)]
            tokens = [(row.number, row.text) for part in parts for row in token_rows(part)]
            whole = [(i, word) for text in sentences for i, word in enumerate(text.words, start=1)]
            assert tokens == whole[of]
            assert [text for _, text in tokens] == (rows if first == 2 else [document.words[0], *rows])
            assert [word for part in parts for word in part.words] == [i - 1 for i, _ in whole[of]]
            for part, text in zip(parts, sentences, strict=True):
                own = np.array(part.seen, dtype=float)  # tokens of the document
                assert [document.words[int(i)] for i in own] == list(part.tokens)
                assert len(own) == len(text.words) - (part.first_token - 1)
                np.testing.assert_array_equal(part.measures["entropy"], own)
                np.testing.assert_array_equal(part.logprobs, -own)
    unscored = list(parts_of(Unscorable(document.text, "why"), sentences))
    assert unscored == [Unscorable(text, "why") for text in texts]


# --- models of windows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pushdown", "head"])
@pytest.mark.parametrize("texts", [("a", "b c"), ("a b c", "c a"), ("a", "b", "c a b")], ids=str)
def test_with_the_beam_a_score_is_a_difference_of_sums_over_all_derivations(
    folders: dict[str, Path], name: str, texts: tuple[str, ...]
) -> None:
    context = Context(of=DOCUMENT, parses="beam")
    found = one(load_model(folders[name], SearchOptions(beam=ENOUGH), context=context), after(*texts))
    model = load_checkpoint(folders[name]).model

    def marginal(sentences: list[list[int]]) -> float:
        derivations = list(window_attachments([len(s) for s in sentences]))
        token, attach = window_joints(model, window_tokens(sentences), derivations)
        return logsumexp(token.sum(1) + attach.sum(1))

    sentences = [ids(text) for text in texts]
    assert found.total == pytest.approx(marginal(sentences) - marginal(sentences[:-1]), rel=2e-6, abs=1e-4)
    assert found.tokens == (*texts[-1].split(), "<eos>")
    seen = len(window_tokens(sentences[:-1]))
    assert found.seen == tuple(range(seen, seen + len(found.tokens)))


@pytest.mark.parametrize("parses", ["best", "beam"])
def test_the_command_searches_what_the_search_was_asked_for(folders: dict[str, Path], parses: str) -> None:
    texts = ("a b", "b c a", "c b a")
    context = Context(of=DOCUMENT, parses=parses)  # type: ignore[arg-type]
    found = one(load_model(folders["pushdown"], SearchOptions(beam=3), context=context), after(*texts))
    row = searched_row([ids(text) for text in texts])
    (searched,) = beam_search(
        load_checkpoint(folders["pushdown"]).model,
        [row],
        search=SearchOptions(beam=3),
        commit=parses == "best",
    )
    np.testing.assert_allclose(found.logprobs, searched.logprobs[-4:], rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["pushdown", "base"])
def test_as_many_whole_sentences_are_read_as_fit(folders: dict[str, Path], name: str) -> None:
    scorer = load_model(folders[name], SearchOptions(beam=5), context=Context(of=DOCUMENT))
    whole = one(scorer, after("a b c", "c", "b a", "a a b"))  # 4 + 2 + 3 + 4 positions: one too many
    assert whole.seen is not None
    assert whole.seen[0] == 5
    np.testing.assert_allclose(
        whole.logprobs, one(scorer, after("c", "b a", "a a b")).logprobs, rtol=2e-6, atol=1e-6
    )
    assert one(scorer, after("b", "c", "b a", "a a b")).seen == (7, 8, 9, 10)
    narrow = load_model(folders[name], SearchOptions(beam=5), context=Context(of=DOCUMENT, window=4))
    alone = load_model(folders[name], SearchOptions(beam=5))
    np.testing.assert_allclose(
        one(narrow, after("b", "a a b")).logprobs, one(alone, "a a b").logprobs, rtol=2e-6, atol=1e-6
    )


def test_what_the_tokenizer_cannot_read_ends_the_context(folders: dict[str, Path]) -> None:
    scorer = load_model(folders["pushdown"], SearchOptions(beam=5), context=Context(of=DOCUMENT))
    assert one(scorer, after("a", "zebra", "b", "c")).seen == (2, 3)


@pytest.mark.parametrize("name", ["pushdown", "base"])
def test_the_sentences_of_a_file_are_before_all(folders: dict[str, Path], name: str) -> None:
    fixed = load_model(folders[name], SearchOptions(beam=5), context=Context(of="x", sentences=("a b", "c")))
    own = load_model(folders[name], SearchOptions(beam=5), context=Context(of=DOCUMENT))
    for text in ("a", "b c a"):
        np.testing.assert_allclose(one(fixed, text).logprobs, one(own, after("a b", "c", text)).logprobs)
    both = one(fixed, after("c c", "b c a"))
    np.testing.assert_allclose(both.logprobs, one(fixed, "b c a").logprobs)  # not those of the document
    assert fixed.settings["context"] == "x"
    assert fixed.settings["window"] == WINDOW
    assert ("context_parses" in fixed.settings) == (name == "pushdown")


@pytest.mark.parametrize("name", ["pushdown", "base"])
def test_with_a_window_alone_it_is_said_what_was_seen(folders: dict[str, Path], name: str) -> None:
    found = one(load_model(folders[name], SearchOptions(beam=5), context=Context(window=8)), "b c")
    assert found.seen == (0, 1, 2)
    assert one(load_model(folders[name], SearchOptions(beam=5)), "b c").seen is None


def test_a_base_model_in_context_is_teacher_forced(folders: dict[str, Path]) -> None:
    found = one(
        load_model(folders["base"], SearchOptions(beam=1), context=Context(of=DOCUMENT)), after("a b", "c a")
    )
    loaded = load_checkpoint(folders["base"])
    (row,) = string_logprobs(loaded, [searched_row([ids("a b"), ids("c a")])], share_prefixes=False)
    np.testing.assert_allclose(found.logprobs, row[-3:], rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("stride", [1, 3, 5])
def test_a_base_model_reads_a_document_in_windows_that_begin_with_root(
    folders: dict[str, Path], stride: int
) -> None:
    texts = ["a b c", "c", "b a b", "a"]
    scorer = load_model(folders["base"], SearchOptions(beam=1), context=Context(stride=stride, window=6))
    document = joined(list(map(split_spaces, texts)))
    found = one(scorer, document)
    loaded = load_checkpoint(folders["base"])
    row = [*window_tokens([ids(text) for text in texts]), ROOT]
    expected, seen = [], []
    for position in range(1, len(row)):
        begin = 0 if position < 7 else stride * math.ceil((position - 6) / stride)
        part = np.array([ROOT, *row[begin + 1 : position + 1]], dtype=np.int32)
        (values,) = string_logprobs(loaded, [part], share_prefixes=False)
        expected.append(values[-1])
        seen.append(position - begin - 1)
    np.testing.assert_allclose(found.logprobs, expected, rtol=2e-6, atol=1e-5)
    assert found.seen == tuple(seen)

    parts = [
        part for part in parts_of(found, list(map(split_spaces, texts))) if isinstance(part, SentenceScore)
    ]
    assert [part.tokens for part in parts] == [(*text.split(), "<eos>") for text in texts]
    assert [part.text for part in parts] == texts
    assert [part.words for part in parts] == [(*range(len(text.split())), -1) for text in texts]
    assert sum(part.total for part in parts) == pytest.approx(found.total)
    for part in parts:
        starts = split_spaces(part.text).starts
        assert part.starts == (*starts, len(part.text))


def test_rows_longer_than_the_model_are_read_as_documents_are(folders: dict[str, Path]) -> None:
    """Between others, and with the ends of all of their sentences."""
    documents = [["a b c", "c", "b a b b", "a c c a b"], ["b a", "c"], ["c b a c b a b", "a", "b b c a a"]]
    scorer = load_model(folders["base"])
    assert isinstance(scorer.family, StringFamily)
    rows = [np.array(window_tokens([ids(text) for text in texts]), np.int32) for texts in documents]
    given = [GivenRow(tokens, scorer.loaded.model.no_derivation(tokens), tokens) for tokens in rows]
    reading = load_model(folders["base"], context=Context(stride=WINDOW // 2))
    for texts, found in zip(documents, scorer.score_rows(given), strict=True):
        whole = one(reading, joined(list(map(split_spaces, texts))))
        ends = np.array(whole.words) < 0
        assert ends.sum() == len(texts)
        assert found.given_tree == pytest.approx(whole.total, rel=2e-6, abs=1e-5) == found.marginal
        for end in (found.end_given_tree, found.end_marginal):
            assert end == pytest.approx(whole.logprobs[ends].sum(), rel=2e-6, abs=1e-5)
    assert len(rows[1]) < WINDOW < min(len(rows[0]), len(rows[2]))


def test_unknown_words_of_all_lines_of_a_document_are_counted(tmp_path: Path) -> None:
    tokenizer = train_word_tokenizer(["a", "b", "c"], unk=True)
    model = tiny_model("transformer", layout="window", vocab_size=tokenizer.vocab_size)
    save_checkpoint(tmp_path / "model", model, tokenizer, shards={"layout": "window", "window": 20})
    document = joined(list(map(split_spaces, ["a zebra", "b", "zebra zebra c"])))
    assert one(load_model(tmp_path / "model", context=Context(stride=5)), document).n_unknown == 3


def test_what_reads_no_context_or_document_says_so(folders: dict[str, Path], tmp_path: Path) -> None:
    sentences, _ = save_checkpoints(tmp_path)
    with pytest.raises(PdtoolsError, match="leave out --context"):
        load_model(sentences["pushdown"], context=Context(of=DOCUMENT))
    for folder in (sentences["base"], folders["pushdown"], folders["head"]):
        with pytest.raises(PdtoolsError, match="leave out --stride"):
            load_model(folder, context=Context(stride=2))


def test_a_sentence_longer_than_a_model_of_sentences_is_read_in_windows(tmp_path: Path) -> None:
    folder = save_checkpoints(tmp_path, max_length=6)[0]["base"]
    text = "a b c a b c b"
    found = one(load_model(folder, SearchOptions(beam=1)), text)
    assert found.seen == (0, 1, 2, 3, 4, 2, 3, 4)  # windows of six move by three
    loaded = load_checkpoint(folder)
    row = [ROOT, *ids(text), loaded.model.eos_id]
    rows = [row[:6], [ROOT, *row[4:9]]]
    first, second = string_logprobs(loaded, [np.array(r, np.int32) for r in rows], share_prefixes=False)
    np.testing.assert_allclose(found.logprobs, [*first, *second[-3:]], rtol=2e-6, atol=1e-5)
    assert one(load_model(folder, SearchOptions(beam=1)), "a b c a").seen is None


# --- Hugging Face models --------------------------------------------------------------------------------

STORY = ["The dog barks.", "The cats, who saw it, do not.", "A naïve dog barks.", "Why?"]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_gpt2(tmp_path_factory.mktemp("hf") / "gpt2", STORY)


def plain_logprobs(folder: Path, tokens: list[int]) -> np.ndarray:
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].double()
    logprobs = logits.log_softmax(-1)[:-1]
    found: np.ndarray = logprobs.gather(1, torch.tensor(tokens)[1:, None])[:, 0].numpy()
    return found


def tokens_of(folder: Path, text: str) -> list[int]:
    import transformers

    found: list[int] = transformers.AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    return found


@pytest.mark.parametrize("bos", [True, False])
def test_a_hugging_face_model_reads_lines_before_a_sentence(gpt2: Path, bos: bool) -> None:
    sentence = after(*STORY[:3])
    found = one(load_model(gpt2, bos=bos, context=Context(of=DOCUMENT)), sentence)
    own = tokens_of(gpt2, STORY[2])
    row = [0] * bos + tokens_of(gpt2, "\n".join(STORY[:3]))
    np.testing.assert_allclose(found.logprobs, plain_logprobs(gpt2, row)[-len(own) :], rtol=2e-6, atol=1e-4)
    assert "".join(found.tokens) == STORY[2].replace(" ", "")
    assert found.starts[0] == 0
    assert found.seen == tuple(range(len(row) - bos - len(own), len(row) - bos))


def test_a_hugging_face_model_reads_as_many_lines_as_fit(gpt2: Path) -> None:
    own = len(tokens_of(gpt2, STORY[3]))
    last = len(tokens_of(gpt2, STORY[2] + "\n"))
    for window, lines_read in ((own + 1, 0), (own + last, 0), (own + last + 1, 1)):
        scorer = load_model(gpt2, context=Context(of=DOCUMENT, window=window))
        found = one(scorer, after(*STORY))
        expected = one(load_model(gpt2, context=Context(of=DOCUMENT)), after(*STORY[3 - lines_read :]))
        np.testing.assert_allclose(found.logprobs, expected.logprobs, rtol=2e-6, atol=1e-4)


@pytest.mark.parametrize(("window", "stride"), [(8, 3), (10, 9), (40, 1)])
@pytest.mark.parametrize("bos", [True, False])
def test_a_hugging_face_model_reads_a_document_in_windows(
    gpt2: Path, window: int, stride: int, bos: bool
) -> None:
    document = joined(list(map(split_spaces, STORY)))
    found = one(load_model(gpt2, bos=bos, context=Context(stride=stride, window=window)), document)
    row = [0] * bos + tokens_of(gpt2, "\n".join(STORY))
    expected, seen, scored = [], [], 1
    for begin in range(0, len(row), stride):  # as transformers' guide to perplexity has it
        end = min(begin + window, len(row))
        values = plain_logprobs(gpt2, row[begin:end])
        expected += values[scored - begin - 1 :].tolist()
        seen += [position - max(begin, int(bos)) for position in range(scored, end)]
        scored = end
        if end == len(row):
            break
    np.testing.assert_allclose(found.logprobs, expected, rtol=2e-6, atol=1e-4)
    assert found.seen == tuple(seen)
    parts = [p for p in parts_of(found, list(map(split_spaces, STORY))) if isinstance(p, SentenceScore)]
    assert sum(len(part.tokens) for part in parts) == len(row) - 1
    assert [part.words[-1] for part in parts] == [-1, -1, -1, 0]  # line feeds
    assert [part.first_token for part in parts] == [1 if bos else 2, 1, 1, 1]
    for part, text in zip(parts, STORY, strict=True):
        covered = {i for start, end in zip(part.starts, part.ends, strict=True) for i in range(start, end)}
        missing = set() if bos or text != STORY[0] else {0, 1, 2}
        assert covered | missing == {i for i, c in enumerate(text) if not c.isspace()} | missing


def test_a_text_longer_than_a_hugging_face_model_is_read_in_windows(gpt2: Path) -> None:
    long = "dog barks " * 60
    found = one(load_model(gpt2), long)
    asked = one(load_model(gpt2, context=Context(stride=32)), long)
    np.testing.assert_allclose(found.logprobs, asked.logprobs)
    assert found.seen is not None
    assert max(found.seen) == 63
    assert min(found.seen[64:]) == 32
    with pytest.raises(PdtoolsError, match="reads 64 positions at most"):
        load_model(gpt2, context=Context(stride=3, window=65))


@pytest.mark.parametrize("bos", [True, False])
def test_what_was_seen_is_said_from_one_token_too_many_on(gpt2: Path, bos: bool) -> None:
    scorer = load_model(gpt2, bos=bos)
    text = "dog" + " dog" * 80
    while (length := bos + len(tokens_of(gpt2, text))) > 64:
        text = text[:-1].rstrip()
    assert length == 64
    assert one(scorer, text).seen is None
    assert one(scorer, text + ".").seen is not None


@given(lengths=st.lists(st.integers(1, 5), max_size=5), own=st.integers(1, 5), window=st.integers(2, 30))
def test_any_context_is_the_most_that_fits(lengths: list[int], own: int, window: int) -> None:
    """Each sentence takes a position more than it has tokens, for its ROOT."""
    tokenizer = train_word_tokenizer(["a"], unk=False)
    sentence, *before = (split_spaces(" ".join("a" * n)) for n in (own, *lengths))
    item = encode_sentence(tokenizer, None, sentence)
    assert isinstance(item, Encoded)
    kept = 0
    while kept < len(before) and sum(n + 1 for n in (own, *lengths[-kept - 1 :])) <= window:
        kept += 1
    found = item.in_context(tokenizer, before, window).before
    assert len(found) == sum(n + 1 for n in lengths[len(lengths) - kept :])
