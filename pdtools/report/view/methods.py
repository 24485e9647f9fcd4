"""Method sentences for a paper on how scores were made, from their provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pdtools.evaluation.record import evaluation_of
from pdtools.report.tables import listed
from pdtools.report.view.loaded import Loaded


def methods(loaded: Sequence[Loaded]) -> str:
    """Beam, seed, versions and hashes of all results, to be copied into a paper."""
    made = [each.document["provenance"] for each in loaded]
    searches = [
        (f"{model} ({_in_text(each)})", settings) for each in loaded for model, settings in _models(each)
    ]
    hashes, data = {}, {}
    for each in loaded:
        for role, read in each.document["provenance"].get("inputs", {}).items():
            if role.partition(" ")[0] != "model":
                if isinstance(found := read.get("sha256"), str):
                    data[_in_text(each)] = found
            elif found := model_hash(each.document["provenance"], role):
                hashes[role.removeprefix("model ") if role != "model" else each.model] = found
    return _paragraph(f"Scores were computed with {versions(made)}", searches, hashes, data)


def methods_of_traces(
    models: Sequence[str], searches: Sequence[Mapping[str, Any]], made: Mapping[str, Any]
) -> str:
    """The methods section for inspected sentences.

    Args:
        models: their names.
        searches: settings of each model.
        made: provenance, with the models among its inputs by name.
    """
    hashes = {name: found for name in models if (found := model_hash(made, name))}
    first = f"Sentences were read by {versions([made])}"
    return _paragraph(first, list(zip(models, searches, strict=True)), hashes, {})


def _paragraph(
    first: str,
    searches: Sequence[tuple[str, Mapping[str, Any]]],
    hashes: Mapping[str, str],
    data: Mapping[str, str],
) -> str:
    """Sentences: the first, how each model was searched, and hashes of models and data."""
    by_search: dict[str, list[str]] = {}
    for name, settings in searches:
        by_search.setdefault(_search(settings), []).append(name)
    searched = "; ".join(f"{how}: {listed(who)}" for how, who in by_search.items())
    parts = [first, searched, _hashes("model weights", hashes), _hashes("data", data)]
    return ". ".join(part[:1].upper() + part[1:] for part in parts if part) + "."


def _in_text(each: Loaded) -> str:
    """The evaluation's name within a sentence."""
    record = evaluation_of(each.document)
    return each.task if record is None else record.in_text


def _models(each: Loaded) -> list[tuple[str, Mapping[str, Any]]]:
    """The models of results, with their settings; results of reading times have several."""
    settings = each.document["settings"]
    several = settings.get("models")
    return list(several.items()) if isinstance(several, dict) and several else [(each.model, settings)]


def _hashes(what: str, found: Mapping[str, str]) -> str:
    """The first digits of each, if there are any."""
    return (
        f"{what} (SHA-256): {', '.join(f'{name} {value[:12]}' for name, value in found.items())}"
        if found
        else ""
    )


def versions(made: Sequence[Mapping[str, Any]]) -> str:
    """``pdtools 0.1.0 (commit 0123456789ab), torch 2.13.0``, each different version once."""
    found: dict[str, None] = {}
    for each in made:
        code, packages = each.get("code", {}), each.get("versions", {})
        commit = (
            f" (commit {str(code['commit'])[:12]}{', modified' if code.get('modified') else ''})"
            if code.get("commit")
            else ""
        )
        torch = f", torch {packages['torch']}" if "torch" in packages else ""
        found[f"pdtools {code.get('version', '')}{commit}{torch}"] = None
    return listed(list(found))


def model_hash(made: Mapping[str, Any], role: str = "model") -> str | None:
    """The SHA-256 of a model's weights, if its provenance has it."""
    found = made.get("inputs", {}).get(role, {}).get("sha256")
    if isinstance(found, Mapping):
        found = next((value for name, value in found.items() if name.endswith("safetensors")), None)
    return found if isinstance(found, str) else None


def _search(settings: Mapping[str, Any]) -> str:
    if settings.get("beam") is not None:
        margin = f", margin {settings['margin']} nats" if settings.get("margin") is not None else ""
        return f"marginal log-probabilities by a beam of {settings['beam']}{margin}"
    return "log-probabilities of strings, without search"
