"""Natural Stories (Futrell et al. 2021) as one table: words, mean times, bits of GPT-3 and of unigrams.

    pdtools data get natural-stories
    python studies/reading/stories.py natural-stories stories

The folder, or a zip of it, holds ``naturalstories_RTS/all_stories.tok`` and ``processed_wordinfo.tsv``,
``freqs/freqs-1.tsv`` and ``probs/all_stories_gpt3.csv``, as the corpus has them. In ``stories/`` there will
be ``stories.tsv`` (item, zone, word, time, gpt3, unigram; a cell is empty where there is no number) and
``counts.tsv`` (words and their counts).
"""

from __future__ import annotations

import csv
import io
import math
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

Key = tuple[int, int]  # of a word: its story and place, from 1


def rows(source: Path | zipfile.Path, name: str) -> Iterator[list[str]]:
    """Cells of a table of tabs."""
    yield from csv.reader(
        io.StringIO((source / name).read_text("utf-8")), delimiter="\t", quoting=csv.QUOTE_NONE
    )


def gpt3_bits(source: Path | zipfile.Path, words: dict[Key, str]) -> dict[Key, float]:
    """The bits of each word: of its tokens, by their characters.

    Words that share a token, and those whose token has no log-probability (the first of a story), have none.
    Words that the tokens spell in another way of the same length (peeked, peaked) are told.

    Raises:
        ValueError: if a story's tokens are not as long as its words.
    """
    tokens: dict[int, list[tuple[str, str]]] = {}
    for row in csv.DictReader(io.StringIO((source / "probs/all_stories_gpt3.csv").read_text("utf-8"))):
        tokens.setdefault(int(row["story"]) + 1, []).append(("".join(row["token"].split()), row["logprob"]))
    bits = dict.fromkeys(words, 0.0)
    for story, of_story in tokens.items():
        owners = [key for key in sorted(words) if key[0] == story for _ in words[key]]
        letters = "".join(words[key] for key in sorted(words) if key[0] == story)
        at = 0
        for token, logprob in of_story:
            if not letters.startswith(token, at):
                written = letters[at : at + len(token)]
                print(f"story {story}: {token} where the words have {written}", file=sys.stderr)
            shared = set(owners[at : at + len(token)])
            for key in shared:
                bits[key] -= float(logprob) / math.log(2) if logprob and len(shared) == 1 else math.nan
            at += len(token)
        if at != len(letters):
            raise ValueError(f"story {story}: its tokens are not as long as its words")
    return bits


def main(source: str, target: str) -> None:
    """Write both tables."""
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(source) if Path(source).is_dir() else zipfile.Path(source)
    _, *listed = rows(place, "naturalstories_RTS/all_stories.tok")
    words = {(int(story), int(zone)): word for word, zone, story in listed}
    _, *timed = rows(place, "naturalstories_RTS/processed_wordinfo.tsv")
    times = {(int(row[2]), int(row[1])): row[4] for row in timed}
    counts: dict[Key, float] = {}
    of_words: dict[str, float] = {}
    for key, _, word, number, *_ in rows(place, "freqs/freqs-1.tsv"):
        story, zone, what = key.split(".")[:3]
        if number in ("", "NA") or not float(number):
            continue
        of_words[word] = float(number)
        if what == "word":
            counts[int(story), int(zone)] = float(number)
    bits = gpt3_bits(place, words)
    total = sum(of_words.values())
    with (folder / "stories.tsv").open("w", encoding="utf-8") as out:
        out.write("item\tzone\tword\ttime\tgpt3\tunigram\n")
        for key in sorted(words):
            unigram = "" if key not in counts else f"{-math.log2(counts[key] / total):.4f}"
            gpt3 = "" if math.isnan(bits[key]) else f"{bits[key]:.4f}"
            cells = (*key, words[key], times.get(key, ""), gpt3, unigram)
            out.write("\t".join(map(str, cells)) + "\n")
    with (folder / "counts.tsv").open("w", encoding="utf-8") as out:
        for word, number in sorted(of_words.items()):
            out.write(f"{word}\t{number:.0f}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
