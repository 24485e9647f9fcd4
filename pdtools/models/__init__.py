"""Language models: one file per architecture, one configuration dataclass each, one registry."""

from pdtools.models.base import LanguageModel, LossParts, NoRoomError, TokenParts, count_parameters
from pdtools.models.batch import Batch, collate
from pdtools.models.checkpoint import LoadedModel, load_checkpoint, save_checkpoint, write_checkpoint
from pdtools.models.recurrent.config import RecurrentConfig
from pdtools.models.recurrent.model import RecurrentLM
from pdtools.models.registry import MODELS, ModelKind, build_model, empty_model, make_config, model_kind
from pdtools.models.transformer.config import TransformerConfig
from pdtools.models.transformer.model import TransformerLM
from pdtools.models.transformer.pushdown import PushdownConfig
from pdtools.models.transformer.tape import StackState, legal_attachments, tape_from_attachments
