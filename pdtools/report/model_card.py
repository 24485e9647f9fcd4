"""The card of an exported model: description, training, scores and use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.record import OBJECT, STRINGS, evaluation_of
from pdtools.evaluation.results import RESULTS, check_values, read_results
from pdtools.models import LoadedModel, count_parameters
from pdtools.models.export import front_matter
from pdtools.report.tables import markdown_table

_MADE = {"provenance": OBJECT, "provenance.command": STRINGS, "provenance.versions": OBJECT}


def model_card(
    loaded: LoadedModel,
    *,
    name: str,
    training: Mapping[str, Any] | None,
    results: Sequence[str | Path] = (),
    about: str | None = None,
) -> str:
    """Write a card in Markdown.

    Args:
        loaded: the checkpoint.
        name: the model's name, as its folder is called.
        training: its ``run.json``.
        results: folders of its evaluations; their scores, settings and commands are listed.
        about: a paragraph by the user.

    Raises:
        InputError: if a folder holds no results, or results whose scores are not known.
    """
    model, tokenizer = loaded.model, loaded.tokenizer
    rows = [
        ("kind", f"`{loaded.config['model']}`"),
        (
            "derivations",
            model.derivation_kind.name
            + (", which words depend on" if model.derivation_kind.conditions_tokens else ""),
        ),
        ("parameters", f"{count_parameters(model):,}"),
        (
            "vocabulary",
            f"{tokenizer.vocab_size:,} tokens ({tokenizer.kind}), text style `{tokenizer.text_style}`",
        ),
        ("rows", f"`{model.layout}`"),
        ("updates", str(loaded.config.get("step", "not known"))),
        *([("words read", f"{loaded.config['words']:,}")] if "words" in loaded.config else []),
    ]
    parts = [
        front_matter({"library_name": "pdtools", "tags": ["pdtools", "syntax", loaded.config["model"]]}),
        f"# {name}\n",
        " ".join([_origin(training), *([about] if about else [])]),
        "",
        _table(("", ""), rows),
    ]
    if results:
        scores = [(text, value, f"`{command}`") for text, value, command in _scores(results)]
        parts += ["## Scores\n", _table(("score", "", "by"), scores)]
    if training is not None:
        what = "import" if "imported" in training else "training"
        check_values(training, _MADE, loaded.folder, what=f"record of the {what}")
        parts += [f"## {what.capitalize()}\n", *_training(training)]
        if what == "import":
            parts += [*_IMPORTED, f"`normalize` of this import is `{model.config.normalize}`.\n"]
    parts += ["## Use\n", _use(name, conditions_tokens=model.derivation_kind.conditions_tokens)]
    return "\n".join(parts)


def _origin(training: Mapping[str, Any] | None) -> str:
    """The first sentence of a card."""
    imported = (training or {}).get("imported")
    if not isinstance(imported, dict):
        return "A syntactic language model, trained and exported by pdtools."
    return (
        f"A syntactic language model, imported by pdtools from {imported.get('source')}; trained by others."
    )


# Differences of imports of released Pushdown LMs from models trained here.
_IMPORTED = (
    "Words are read as in Penn's treebank (text style `ptb`: clitics and marks stand alone) or as written"
    " (`raw`; a final `?` then has a space before it), in GPT-2's tokens, without a space before the first"
    " word. A sentence with a token that has no number is unscorable. Its end, one row of surprisals, is"
    " `<eos>`, its attachment to the start, and `</s>` together.\n",
    "With `normalize` `all`, as released, attachments are normalised over all tokens before, and the mass of"
    " illegal ones is lost; with `allowed` it is not.\n",
)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return markdown_table([cell.replace("|", "\\|") for cell in line] for line in lines)


def _scores(folders: Sequence[str | Path]) -> Iterable[tuple[str, str, str]]:
    for folder in folders:
        document, _ = read_results(folder)
        record, scores = evaluation_of(document), document["scores"]
        if record is None or not record.card:
            raise InputError("results of an evaluation that cards do not list", file=Path(folder) / RESULTS)
        check_values(document, _MADE, Path(folder) / RESULTS)
        command = " ".join(document.get("provenance", {}).get("command", []))
        for key, text in record.card.items():
            if (value := scores.get(key)) is not None:
                yield text, f"{100 * value if record.outcomes else value:.2f}", command


def _training(training: Mapping[str, Any]) -> Iterable[str]:
    made = training.get("provenance", {})
    yield f"    {' '.join(made.get('command', []))}\n"
    versions = ", ".join(f"{name} {version}" for name, version in made.get("versions", {}).items())
    there = (
        "The SHA-256 of the files are"
        if "imported" in training
        else "The whole recipe, and the SHA-256 of the data, are"
    )
    yield f"Versions: {versions}. {there} in `training.json`.\n"


def _use(name: str, *, conditions_tokens: bool) -> str:
    hidden = (
        "\nLogits come from a beam: what it drops is missing from them. Tools that normalise logits again"
        "\nhide that; `beam=` in `from_pretrained` makes it wider.\n"
    )
    return f"""    pdtools surprisal --text "The dog barks." --model {name}

```python
import pdtools

pdtools.load("{name}").surprisal("The dog barks.")
```

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{name}", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("{name}", trust_remote_code=True)
```

The code that is trusted imports pdtools; after `import pdtools.hf` it is not needed.
{hidden if conditions_tokens else ""}"""
