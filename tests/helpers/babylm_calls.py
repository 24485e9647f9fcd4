"""The calls that BabyLM's evaluation pipeline makes of a model, as a program that knows nothing of pdtools.

    python babylm_calls.py < questions.json > answers.json

Questions, by the folders of models: ``pairs`` (texts and how many characters their scored ends have),
``words`` (a text and the word after it), ``alone`` (words after the beginning). Answers: log p of each, in
nats, and what was loaded.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoProcessor


def ends(model: Any, tokenizer: Any, texts: list[tuple[str, int]]) -> list[float]:
    """Sums over the tokens that reach into the last characters of texts, in one padded batch."""
    rows, masks = [], []
    for text, length in texts:
        found = tokenizer(text=text, return_offsets_mapping=True)
        offsets = found["offset_mapping"]
        start = len(text) - length + offsets[0][0]
        rows.append(torch.LongTensor(found["input_ids"]))
        masks.append(torch.LongTensor([int(last > start) for _, last in offsets]))
    padded = pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
    attention = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    scored = pad_sequence(masks, batch_first=True)[:, 1:]
    logits = model(input_ids=padded[:, :-1], attention_mask=attention[:, :-1])["logits"]
    chosen = F.log_softmax(logits, dim=-1).gather(-1, padded[:, 1:, None]).squeeze(-1)
    return (chosen * scored).sum(1).tolist()


def word_after(model: Any, tokenizer: Any, text: str, word: str) -> float:
    """A word after a text: each of its tokens from the last row after a call with default arguments.

    Later tokens are asked for as text, after the text with the earlier ones.
    """
    total = 0.0
    for i, token in enumerate(tokenizer(word, add_special_tokens=False)["input_ids"]):
        part = tokenizer.decode(token)
        asked = token if i == 0 else tokenizer(part, add_special_tokens=False)["input_ids"][0]
        logits = model(**tokenizer(text, return_tensors="pt")).logits[:, -1, :]
        total += math.log(torch.softmax(logits[0], dim=-1)[asked].item())
        text += part
    return total


def answers(folder: str, questions: dict[str, Any]) -> dict[str, Any]:
    """The answers of a model."""
    tokenizer = AutoProcessor.from_pretrained(
        folder, padding_side="right", revision=None, trust_remote_code=True
    )
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, revision=None)
    model = model.to(torch.device("cpu")).eval()
    alone = [(tokenizer.bos_token + word, len(word)) for word in questions["alone"]]
    return {
        "pairs": ends(model, tokenizer, questions["pairs"]),
        "words": [word_after(model, tokenizer, *each) for each in questions["words"]],
        "alone": ends(model, tokenizer, alone),
        "loaded": [type(tokenizer).__name__, type(model).__name__],
    }


if __name__ == "__main__":
    assert not any(name.split(".")[0] == "pdtools" for name in sys.modules)
    with torch.no_grad():
        json.dump(
            {folder: answers(folder, each) for folder, each in json.load(sys.stdin).items()}, sys.stdout
        )
