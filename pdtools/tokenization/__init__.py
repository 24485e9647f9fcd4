"""Words and tokens: text ⇄ words in two styles, and tokenizers that encode word by word."""

from pdtools.tokenization.table import WordTable, count_words
from pdtools.tokenization.tokenizer import EOS, PAD, ROOT, UNK, Encoding, Tokenizer, UnknownWordError
from pdtools.tokenization.train import train_bpe_tokenizer, train_word_tokenizer
from pdtools.tokenization.words import (
    Sentence,
    aligned,
    join_words,
    split_spaces,
    split_text_words,
    split_words,
)
