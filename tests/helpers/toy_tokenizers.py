"""Kinds of tokenizers that Hugging Face models come with, trained on the spot, each with a tiny GPT-2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from toy_gpt2 import save_tiny_gpt2

# No digit, quote or emoji stands after a space: its blank is a token of its own.
CORPUS = [
    "The dog that chased the cats barks.",
    "don't go there, he said;x2,1",
    'A na\u00efve caf\u00e9 ("old") dog\n',
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
]
BOS, EOS, UNK = "<s>", "</s>", "<unk>"
MARK = "\u2581"  # SentencePiece's space


def _trained(model: str, *, byte_fallback: bool = False, **parts: Any) -> Any:
    """A tokenizer with these parts and a ``model`` of :mod:`tokenizers.models`."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    special = [UNK, BOS, EOS, *([f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else [])]
    options: dict[str, Any] = {"special_tokens": special, "show_progress": False}
    if model == "Unigram":
        made = Tokenizer(models.Unigram())
        trainer: Any = trainers.UnigramTrainer(vocab_size=70, unk_token=UNK, **options)
    elif model == "BPE":
        made = Tokenizer(models.BPE(unk_token=UNK, byte_fallback=byte_fallback))
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=len(special) + 320, initial_alphabet=alphabet, **options)
        trainer.min_frequency = 2
    elif model == "WordPiece":
        made = Tokenizer(models.WordPiece(unk_token=UNK))
        trainer = trainers.WordPieceTrainer(vocab_size=120, **options)
    else:
        made = Tokenizer(models.WordLevel(unk_token=UNK))
        trainer = trainers.WordLevelTrainer(**options)
    for name, part in parts.items():
        setattr(made, name, part)
    made.train_from_iterator(CORPUS, trainer)
    return made


def _byte_level(
    *, prefix: bool = False, trim: bool = False, before: Any = None, roberta: bool = False
) -> Any:
    from tokenizers import decoders, pre_tokenizers, processors

    options = {"add_prefix_space": prefix, "trim_offsets": trim}
    split = pre_tokenizers.ByteLevel(**options)
    made = _trained(
        "BPE",
        pre_tokenizer=split if before is None else pre_tokenizers.Sequence([before, split]),
        decoder=decoders.ByteLevel(),
    )
    ends = [(token, made.token_to_id(token)) for token in (EOS, BOS)]
    made.post_processor = (
        processors.RobertaProcessing(*ends, **options) if roberta else processors.ByteLevel(**options)
    )
    return made


def _with_bos(made: Any) -> Any:
    from tokenizers import processors

    made.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, made.token_to_id(BOS))]
    )
    return made


def _metaspace(scheme: str, model: str = "BPE", *, split: bool = True, **parts: Any) -> Any:
    from tokenizers import decoders, pre_tokenizers

    before = parts.pop("before", None)
    mark = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    return _trained(
        model,
        pre_tokenizer=mark if before is None else pre_tokenizers.Sequence([before, mark]),
        decoder=decoders.Metaspace(prepend_scheme=scheme),
        **parts,
    )


def _llama() -> Any:
    from tokenizers import normalizers

    norm = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    return _with_bos(_trained("BPE", normalizer=norm, byte_fallback=True))


def _digits() -> Any:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.Digits(individual_digits=True)


def _spaces() -> Any:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.WhitespaceSplit()


def _lower() -> Any:
    from tokenizers import normalizers

    return normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]
    )


def _compatible() -> Any:
    from tokenizers import normalizers

    return normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])


def _bert() -> Any:
    from tokenizers import decoders, normalizers, pre_tokenizers

    return _trained(
        "WordPiece",
        normalizer=normalizers.BertNormalizer(),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        decoder=decoders.WordPiece(),
    )


KINDS: dict[str, Callable[[], Any]] = {
    "byte-level": _byte_level,
    "byte-level, trimmed": lambda: _byte_level(trim=True),
    "byte-level, blank before, BOS": lambda: _with_bos(_byte_level(prefix=True)),
    "byte-level, blank before, trimmed": lambda: _byte_level(prefix=True, trim=True, roberta=True),
    "digits, byte-level, trimmed": lambda: _byte_level(prefix=True, trim=True, before=_digits()),
    "words, byte-level, trimmed": lambda: _byte_level(prefix=True, trim=True, before=_spaces()),
    "metaspace, BOS": lambda: _with_bos(_metaspace("always", byte_fallback=True)),
    "metaspace first, not split": lambda: _metaspace("first", split=False),
    "metaspace never": lambda: _metaspace("never"),
    "digits, metaspace": lambda: _metaspace("always", before=_digits()),
    "prepended": _llama,
    "unigram, NFKC": lambda: _metaspace("always", "Unigram", normalizer=_compatible()),
    "subwords": _bert,
    "words": lambda: _trained("WordLevel", pre_tokenizer=_spaces()),
    "words, stripped": lambda: _trained("WordLevel", pre_tokenizer=_spaces(), normalizer=_lower()),
}


def save_kind(folder: Path, kind: str, *, positions: int = 256) -> Path:
    """Save a tokenizer of that kind and a tiny GPT-2 with its vocabulary, as Hugging Face lays them out."""
    names = {"bos_token": BOS, "eos_token": EOS, "unk_token": UNK}
    tokenizer = _in_transformers(KINDS[kind](), names)
    tokenizer.save_pretrained(folder)
    return save_tiny_gpt2(folder, tokenizer, positions=positions)


def save_masked(folder: Path, kind: str, *, model: str = "Bert", positions: int = 700) -> Path:
    """Save a tokenizer of that kind and a tiny masked model, whose texts stand between [CLS] and [SEP]."""
    import torch
    import transformers
    from tokenizers import processors

    backend = KINDS[kind]()
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "pad_token": "[PAD]"}
    backend.add_special_tokens([*names.values()])
    ends = [(name, backend.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer = _in_transformers(backend, {**names, "unk_token": UNK})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
    config = getattr(transformers, f"{model}Config")(
        vocab_size=len(tokenizer),
        max_position_embeddings=positions,
        pad_token_id=tokenizer.pad_token_id,
        **shape,
    )
    made = getattr(transformers, f"{model}ForMaskedLM")(config)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:  # norms stay as they are, so that what is hidden matters to the rest
                parameter.normal_(std=0.5)
    made.save_pretrained(folder)
    return folder


def _in_transformers(backend: Any, names: dict[str, str]) -> Any:
    import transformers

    # transformers overrules tokenizer.json where this is missing.
    prefix = getattr(backend.pre_tokenizer, "add_prefix_space", False)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, add_prefix_space=prefix, **names)
