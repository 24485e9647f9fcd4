"""Checkpoints of pdtools as Hugging Face models; import it so that transformers can load them.

Examples:
    >>> import pdtools.hf
    >>> from transformers import AutoModelForCausalLM, AutoTokenizer
    >>> model = AutoModelForCausalLM.from_pretrained("runs/pushdown/best")  # doctest: +SKIP
    >>> tokenizer = AutoTokenizer.from_pretrained("runs/pushdown/best")  # doctest: +SKIP

The stub of an exported folder (:mod:`pdtools.models.checkpoint`) finds the same classes without that
import. Logits are log-probabilities of next tokens, for every causal kind of model: for strings exactly, with
gradients; for derivations from a beam (``beam`` of the configuration), which at position t sums over its
derivations of the first t tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.files import read_json, write_json
from pdtools.files.manifest import update_checksums
from pdtools.models import LoadedModel, load_checkpoint
from pdtools.models.checkpoint import (
    CONFIG_FILE,
    MODEL_TYPE,
    STUB_FILE,
    checkpoint_folder,
    tokenizer_entries,
    write_checkpoint,
    write_stub,
)
from pdtools.provenance.hub import PREFIX, find_model
from pdtools.search.checkpoints import CheckpointFamily, check_tells_next
from pdtools.search.model import Model
from pdtools.search.options import SearchOptions
from pdtools.tokenization import Tokenizer, split_words
from pdtools.tokenization.tokenizer import CONFIG_FILE as TOKENIZER_CONFIG
from pdtools.tokenization.tokenizer import TOKENIZER_FILE

try:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PretrainedConfig
    from transformers.generation.utils import GenerationMixin
    from transformers.modeling_outputs import CausalLMOutput
    from transformers.modeling_utils import PreTrainedModel
    from transformers.tokenization_utils import PreTrainedTokenizer
    from transformers.tokenization_utils_base import BatchEncoding
except ImportError as error:
    raise MissingDependencyError("transformers", "hf") from error

_NEVER = torch.finfo(torch.float32).min
# Wide enough to drop little on sentences of ordinary length.
BEAM = 300


class PdtoolsConfig(PretrainedConfig):
    """A checkpoint's ``config.json``.

    Attributes:
        beam: hypotheses that a model of derivations keeps after each token (action models: after each
            action). The probability of dropped ones is missing from the logits: they sum to less than 1,
            which tools hide that normalise them again.
        margin: nats; hypotheses that are this much less probable than the best are dropped. None: none are.
    """

    model_type = MODEL_TYPE

    def __init__(self, *, beam: int = BEAM, margin: float | None = None, **values: Any) -> None:
        shape = values.get("config") or {}
        names = {"pad_token_id": "pad_id", "bos_token_id": "root_id", "eos_token_id": "eos_id"}
        values = {hf: shape[ours] for hf, ours in names.items() if ours in shape} | values
        values |= {"use_cache": False, "tie_word_embeddings": False}
        super().__init__(**values)
        self.beam, self.margin = beam, margin
        self.vocab_size = shape.get("vocab_size", 0)
        if shape.get("positions") == "learned":
            self.max_position_embeddings = shape["max_length"] - 2  # a row may lack ROOT and the end

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = None) -> None:
        """Do nothing: saved folders have the stub, and no copy of this module."""


class PdtoolsTokenizer(PreTrainedTokenizer):
    """A checkpoint's tokenizer: text is split into words as by our own models, in its text style.

    ROOT (``bos_token``) is put before a text that does not begin with it. Nothing is put after it: the last
    logits are for the next token. ``text + tokenizer.eos_token`` is a text with its end. Special tokens in a
    text are tokens, unless ``split_special_tokens=True``. A space before the first word of a text counts in
    ``raw`` style, as for GPT-2.

    Raises:
        UnknownWordError: for text with words that the vocabulary lacks, if it has no ``<unk>``.
    """

    vocab_files_names = {"tokenizer_file": TOKENIZER_FILE}  # noqa: RUF012 - transformers' own
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012
    padding_side = "right"

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *inputs: Any, **options: Any) -> Any:
        """The tokenizer of a folder, a repository on the hub, or a model that comes with pdtools."""
        name = find_model(pretrained_model_name_or_path, weights=False).folder
        return super().from_pretrained(name, *inputs, **options)

    def __init__(self, tokenizer_file: str, text_style: str | None = None, **values: Any) -> None:
        self.ours = Tokenizer.load(tokenizer_file, text_style)
        super().__init__(text_style=self.ours.text_style, **values)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return self.ours.vocab_size

    def get_vocab(self) -> dict[str, int]:
        """Return every token's number."""
        return dict(self.ours.vocabulary)

    @cached_property
    def _names(self) -> dict[int, str]:
        return {index: name for name, index in self.ours.vocabulary.items()}

    @property
    def _special(self) -> set[int]:
        return {self.ours.root_id, self.ours.eos_id, self.ours.pad_id}

    def __call__(
        self,
        text: Any = None,
        text_pair: Any = None,
        *arguments: Any,
        return_offsets_mapping: bool = False,
        return_tensors: Any = None,
        **options: Any,
    ) -> BatchEncoding:
        """Encode one text or several, like tokenizers of transformers.

        Args:
            return_offsets_mapping: also give ``offset_mapping``, the first and last character (exclusive) of
                each token in its text, (0, 0) for ROOT, end-of-sentence and padding; only for single texts.

        Raises:
            PdtoolsError: if offsets are requested for pairs, for texts that are split already, or for parts.
        """
        if not return_offsets_mapping:
            return super().__call__(text, text_pair, *arguments, return_tensors=return_tensors, **options)
        texts = [text] if isinstance(text, str) else text
        in_parts = options.get("is_split_into_words") or options.get("return_overflowing_tokens")
        if text_pair is not None or in_parts or not all(isinstance(each, str) for each in texts):
            raise PdtoolsError("offsets exist only for single whole texts: leave out return_offsets_mapping")
        found = super().__call__(text, text_pair, *arguments, **options)
        rows = [found["input_ids"]] if isinstance(text, str) else found["input_ids"]
        split = options.get("split_special_tokens", self.split_special_tokens)
        offsets = [self._offsets(*pair, split) for pair in zip(texts, rows, strict=True)]
        found["offset_mapping"] = offsets[0] if isinstance(text, str) else offsets
        return BatchEncoding(found.data, tensor_type=return_tensors, prepend_batch_axis=isinstance(text, str))

    def _offsets(self, text: str, row: Sequence[int], split: bool) -> list[tuple[int, int]]:
        """The characters of each token of a row in the text, of which the row may be a part."""
        spans = [span for index, span in self._encoded(text, split) if index not in self._special]
        places = [i for i, index in enumerate(row) if index not in self._special]
        first = len(spans) - len(places) if self.truncation_side == "left" else 0
        found = [(0, 0)] * len(row)
        for place, span in zip(places, spans[first:], strict=False):
            found[place] = span
        return found

    def _encoded(self, text: str, split_special_tokens: bool) -> list[tuple[int, tuple[int, int]]]:
        """The tokens of a text, without ROOT and end-of-sentence around it, with their characters in it."""
        special = {} if split_special_tokens else self.added_tokens_encoder
        found, start = [], 0
        for part in re.split(f"({'|'.join(map(re.escape, special))})", text) if special else [text]:
            if part in special:
                found.append((special[part], (start, start + len(part))))
            elif part.strip():
                words = split_words(part, self.ours.text_style)
                encoding = self.ours.encode(words, space_before=part[0].isspace())
                columns = (encoding.ids, start + encoding.starts, start + encoding.ends)
                rows = zip(*(column[1:-1].tolist() for column in columns), strict=True)
                found += [(index, (first, last)) for index, first, last in rows]
            start += len(part)
        return found

    def tokenize(self, text: str, **options: Any) -> list[str]:
        """The tokens of a text, without ROOT."""
        split = options.get("split_special_tokens", self.split_special_tokens)
        return [self._names[index] for index, _ in self._encoded(text, split)]

    def _convert_token_to_id(self, token: str) -> int | None:
        return self.ours.vocabulary.get(token, self.ours.unk_id)

    def _convert_id_to_token(self, index: int) -> str:
        return self._names.get(index, "")

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """The text of tokens: in ``ptb`` style words with spaces between them."""
        ids = [self.ours.vocabulary[token] for token in tokens]
        if self.ours.text_style == "raw":
            return self.ours.text(ids)
        return " ".join(self.ours.decode(ids)[0]) if ids else ""

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Put ROOT before the tokens, if it is not there."""
        ids = [*token_ids_0, *(token_ids_1 or [])]
        return ids if ids[:1] == [self.ours.root_id] else [self.ours.root_id, *ids]

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """Return 1 for special tokens, 0 for others."""
        ids = token_ids_0
        if not already_has_special_tokens:
            ids = self.build_inputs_with_special_tokens(token_ids_0, token_ids_1)
        return [int(index in self._special) for index in ids]

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write the tokenizer as in an exported checkpoint."""
        self.ours.save(save_directory, tokenizer_entries(stub=True))
        return (str(Path(save_directory) / TOKENIZER_FILE),)

    def save_pretrained(self, save_directory: str | Path, *_: Any, **__: Any) -> tuple[str, ...]:
        """Write the tokenizer's files and the stub by which transformers finds this class."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.save_vocabulary(str(folder))
        write_stub(folder)
        names = [TOKENIZER_FILE, TOKENIZER_CONFIG, STUB_FILE]
        update_checksums(folder, names)
        return tuple(str(folder / name) for name in names)


class PdtoolsForCausalLM(PreTrainedModel, GenerationMixin):
    """A checkpoint as a causal language model, made by :meth:`from_pretrained`.

    Attributes:
        lm: the model itself, a :class:`pdtools.models.LanguageModel`.
    """

    config_class = PdtoolsConfig
    main_input_name = "input_ids"

    def __init__(self, config: PdtoolsConfig, loaded: LoadedModel) -> None:
        super().__init__(config)
        loaded.model.check_causal()
        check_tells_next(loaded.model)
        self.lm = loaded.model
        self._loaded = loaded

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *_: Any,
        config: PdtoolsConfig | None = None,
        device_map: Any = None,
        dtype: Any = None,
        torch_dtype: Any = None,
        output_loading_info: bool = False,
        **options: Any,
    ) -> Any:
        """Load a checkpoint, a run folder of ``pdtools train``, or a folder of ``pdtools export``.

        Args:
            pretrained_model_name_or_path: its folder; ``english`` or another that comes with pdtools; or the
                name of a repository on the hub with an exported folder in it, with or without ``hf:``.
            config: the folder's, from ``AutoConfig``; by default it is read.
            device_map: a device; ``auto`` is a GPU, if there is one.
            dtype, torch_dtype: the type of the weights; None, ``auto``: float32.
            options: ``beam`` and ``margin``, see :class:`PdtoolsConfig`, also beside ``config``; others are
                ignored.

        Raises:
            PdtoolsError: if it is no checkpoint of a causal model, or the model gives no next-token
                distributions.
        """
        folder = find_model(pretrained_model_name_or_path).folder
        if not Path(folder).exists():  # as transformers name it
            revision = f"@{options['revision']}" if options.get("revision") else ""
            how = {
                name: options[name] for name in ("cache_dir", "token", "local_files_only") if name in options
            }
            folder = find_model(f"{PREFIX}{folder}{revision}", bars=True, **how).folder
        loaded = load_checkpoint(folder, _device(device_map))
        if config is None:
            config = PdtoolsConfig(**read_json(checkpoint_folder(folder) / CONFIG_FILE))
        for name in ("beam", "margin"):
            setattr(config, name, options.get(name, getattr(config, name)))
        wanted = torch_dtype if dtype is None else dtype
        if wanted is not None and wanted != "auto":
            loaded.model.to(getattr(torch, wanted) if isinstance(wanted, str) else wanted)
        config.name_or_path = str(folder)
        model = cls(config, loaded).eval()
        nothing: dict[str, list[Any]] = {
            name: [] for name in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")
        }
        return (model, nothing) if output_loading_info else model

    def save_pretrained(self, save_directory: str | Path, **_: Any) -> None:
        """Write the checkpoint, tokenizer and stub included, as ``pdtools export`` does, and its beam."""
        folder, config = Path(save_directory), self._loaded.config
        folder.mkdir(parents=True, exist_ok=True)
        write_checkpoint(
            folder,
            self.lm,
            self._loaded.tokenizer,
            shards=config["shards"],
            trained=self._loaded.trained,
            weights=self.lm.state_dict(),
            stub=True,
        )
        if self.lm.derivation_kind.conditions_tokens:
            searched = {"beam": self.config.beam, "margin": self.config.margin}
            write_json(folder / CONFIG_FILE, {**read_json(folder / CONFIG_FILE), **searched})
            update_checksums(folder, [CONFIG_FILE])

    @cached_property
    def _family(self) -> CheckpointFamily:
        family = Model.of(
            self._loaded, SearchOptions(beam=self.config.beam, margin=self.config.margin)
        ).family
        assert isinstance(family, CheckpointFamily)
        return family

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **_: Any
    ) -> CausalLMOutput:
        """Log-probabilities of the next token after every token.

        Args:
            input_ids: int64 (B, N). A row that does not begin with ROOT is read as if it did, and several
                ROOTs at its beginning as one; after its end-of-sentence there may only be padding.
            attention_mask: int64 (B, N), 0 for padding; None: none but padding tokens. Padding is on both
                sides of a text, and not in it.
            labels: int64 (B, N), as in transformers: -100 where nothing is scored.

        Returns:
            ``logits``, float (B, N, V), nats, finite; 0 after padding and end-of-sentence. After a ROOT that
            precedes another one, that one is certain. The end is end-of-sentence, also for models of windows,
            whose sentences end at the next ROOT. ``loss``: the mean of -log p of the labels, each given the
            tokens before it, if there are any.

        Raises:
            PdtoolsError: if a row continues after its end-of-sentence, or has padding tokens in its text.
            IndexError: if a token is none of the model's.
        """
        rows, places = self._rows(input_ids, attention_mask)
        logits = self._before_roots(input_ids, places)
        if self.lm.derivation_kind.conditions_tokens:
            tables = [torch.from_numpy(table) for table, _ in self._family.next_logprobs(rows)]
        else:
            batch = self.lm.pack([(row, self.lm.no_derivation(row)) for row in rows]).to(self.lm.device)
            tables = [
                table[1 : len(row)] for row, table in zip(rows, self.lm.position_logprobs(batch), strict=True)
            ]
        index_b, index_n, values = [], [], []
        for b, (place, table) in enumerate(zip(places, tables, strict=True)):
            index_b.append(torch.full((len(place),), b))
            index_n.append(torch.from_numpy(place))
            values.append(table[len(table) - len(place) :].float())
        found = torch.cat(values).to(logits.device)
        if self.lm.end_id != self.lm.eos_id:  # the ROOT of the next sentence ends one
            order = torch.arange(self.config.vocab_size, device=found.device)
            order[[self.lm.end_id, self.lm.eos_id]] = order[[self.lm.eos_id, self.lm.end_id]]
            found = found[:, order]
        found = found.clamp(min=_NEVER)  # finite: some harnesses multiply unscored ones by 0
        logits = logits.index_put(
            (torch.cat(index_b).to(logits.device), torch.cat(index_n).to(logits.device)), found
        )
        loss = None
        if labels is not None:
            loss = F.nll_loss(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        return CausalLMOutput(loss=loss, logits=logits)

    def _before_roots(self, input_ids: Tensor, places: Sequence[NDArray[np.int64]]) -> Tensor:
        """Logits, float (B, N, V), 0 except for ROOTs before the one that is read: another one follows."""
        logits = torch.zeros(*input_ids.shape, self.config.vocab_size)
        for ids, row, place in zip(input_ids.cpu(), logits, places, strict=True):
            before = torch.arange(len(ids)) < (place[0] if len(place) else 0)
            before &= ids == self.lm.root_id
            row[before] = _NEVER
            row[before, self.lm.root_id] = 0
        return logits.to(input_ids.device)

    def _rows(
        self, input_ids: Tensor, attention_mask: Tensor | None
    ) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int64]]]:
        """The model's input for each row, int32 (n + 2), and the positions with known logits.

        The input is ROOT, tokens, end-of-sentence; logits are known after each of these but end-of-sentence.
        """
        lm = self.lm
        rows, places = [], []
        for b, ids in enumerate(input_ids.cpu().numpy()):
            given = np.ones_like(ids) if attention_mask is None else attention_mask[b].cpu().numpy()
            real = np.flatnonzero((given != 0) & (ids != lm.pad_id))
            place = np.flatnonzero(given)
            place = place[(place >= real[0]) & (place <= real[-1])] if len(real) else real
            ends = np.flatnonzero(ids[place] == lm.eos_id)
            if len(ends):
                if (ids[place[ends[0] + 1 :]] != lm.pad_id).any():
                    raise PdtoolsError(
                        "a text goes on after its end-of-sentence: give its sentences one by one"
                    )
                place = place[: ends[0]]
            others = np.flatnonzero(ids[place] != lm.root_id)
            roots = others[0] if len(others) else len(place)
            place = place[max(roots - 1, 0) :]  # several ROOTs are one
            tokens = ids[place]
            if len(unknown := tokens[(tokens < 0) | (tokens >= lm.vocab_size)]):
                raise IndexError(f"token {unknown[0]} is none of the model's {lm.vocab_size}")
            if lm.pad_id in tokens:
                raise PdtoolsError("padding tokens in a text: padding goes before it or after it")
            tokens = tokens.astype(np.int32)
            root = [] if len(tokens) and tokens[0] == lm.root_id else [lm.root_id]
            lm.check_length(len(root) + len(tokens) + 1)
            rows.append(np.array([*root, *tokens, lm.end_id], dtype=np.int32))
            places.append(place)
        return rows, places

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """Return False: nothing is cached, so that ``generate`` need not know of layers."""
        return False

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> dict[str, Any]:
        """Return everything: all tokens are read again for every token."""
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def tie_weights(self, *_: Any, **__: Any) -> None:
        """Do nothing: the model itself shares its weights."""

    def get_input_embeddings(self) -> Any:
        """The embeddings of tokens, if a model has them as a module."""
        return getattr(self.lm, "embedding", None)

    def get_output_embeddings(self) -> None:
        """Return None: see :meth:`tie_weights`."""

    def _init_weights(self, module: Any) -> None:
        """Do nothing: the weights are loaded."""


def _device(device_map: Any) -> str:
    if isinstance(device_map, dict):
        device_map = device_map.get("", "cpu")
    if device_map == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return "cpu" if device_map is None else str(device_map)


AutoConfig.register(MODEL_TYPE, PdtoolsConfig, exist_ok=True)
AutoTokenizer.register(PdtoolsConfig, slow_tokenizer_class=PdtoolsTokenizer, exist_ok=True)
AutoModelForCausalLM.register(PdtoolsConfig, PdtoolsForCausalLM, exist_ok=True)
