"""Searches from sentences to marginals, surprisals, parses and samples, by kind of derivation.

Names are loaded on first use: the scores need no torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Model": "model",
    "load_model": "model",
    "Family": "family",
    "SentenceScore": "scores",
    "Unscorable": "scores",
    "AttachmentFamily": "families.attachments",
    "StringFamily": "families.unsearched",
    "ProposalTreesFamily": "families.proposal_trees",
    "TreesFile": "options",
    "SearchOptions": "options",
    "beam_search": "families.attachment_beam",
    "BeamResult": "families.attachment_beam",
    "next_token_logprobs": "families.unsearched",
    "particle_search": "kinds",
    "sample": "sampling",
    "decode": "decoding",
    "CheckpointParser": "decoding",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
