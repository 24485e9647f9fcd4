"""``pdtools prompts``: the data of a task into prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pdtools.files import STDIO, Rejects, rejects_path, write_rejects

from .console import message, print_json, progress
from .options import OnError, ResultOptions, command
from .running import check_different, check_json_output, check_target

if TYPE_CHECKING:
    from pdtools.prompts.items import PromptItem


@command("Convert the data of a classification task into prompts.")
def prompts(
    data: str,
    task: str,
    options: ResultOptions,
    output: str = STDIO,
    split: str = "train",
    label_names: str | None = None,
    split_sentences: bool = True,
    hold_out: str | None = None,
    on_error: OnError = "fail",
) -> None:
    """Convert the data of a task (classification, regression) into prompts: Premise: ... Hypothesis: ...
    Label:

    \b
    Example:
      pdtools prompts GLUE/RTE --split dev --task rte -o rte.dev.jsonl
      pdtools prompts GLUE/RTE --task rte -o rte.train.jsonl --hold-out rte.valid.jsonl

    Next, pdtools decode --from parts or any other parser parses the sentences of the prompts. Then pdtools
    tapes --prompts makes shards of prompts and trees.

    Arguments:
        data (DATA): A file, or a folder such as GLUE's, with --split.

    Input:
        task (NAME|FILE): rte, mrpc, sst5, stsb, or a TOML file.
        split: If DATA is a folder: the file to read.
        label_names (NAME,NAME...): Names of the labels 0, 1, ... of the data.
        split_sentences (--split-sentences/--no-split-sentences): Split parts into sentences, or not.

    Output:
        output (-o): A file (.jsonl; .gz, .zst), or -.
        hold_out (FILE): Write a tenth of the items there instead, always the same ones.
    """
    from pdtools.parsers.splitting import SentenceSplitter
    from pdtools.prompts.items import (
        columns_of,
        data_file,
        is_held_out,
        label_names_of,
        make_items,
        read_records,
        write_items,
    )
    from pdtools.prompts.tasks import read_task

    check_json_output(options.as_json, output)
    asked = read_task(task)
    file = data_file(data, split)
    outputs = [output, *([] if hold_out is None else [hold_out]), str(rejects_path(output) or STDIO)]
    check_different(*outputs)
    for path in outputs:
        check_target(path, folder=False, overwrite=options.overwrite, inputs=[file, task])
    rejects = Rejects(on_error)
    wanted = {name: asked.names_of(name) for name in asked.fields}
    names = label_names.split(",") if label_names else label_names_of(file, asked)
    items = make_items(
        read_records(file, wanted, rejects, columns=columns_of(asked)),
        asked,
        rejects,
        split=SentenceSplitter().strings if split_sentences else lambda part: [part],
        label_names=names,
    )
    counted: Counter[str] = Counter()

    def watched() -> Iterator[PromptItem]:
        for item in progress(items, total=None, label="items"):
            label = "unlabelled" if item.label is None else item.label
            counted[label if isinstance(label, str) else "numbers"] += 1
            yield item

    every = list(watched())
    kept = every if hold_out is None else [item for item in every if not is_held_out(item)]
    if hold_out is not None:
        write_items(hold_out, asked, filter(is_held_out, every), overwrite=options.overwrite)
    write_items(output, asked, kept, overwrite=options.overwrite)
    write_rejects(output, rejects)
    report = {
        "task": asked.name,
        "items": len(kept),
        "held_out": len(every) - len(kept),
        "labels": dict(sorted(counted.items())),
        "left_out": rejects.by_reason(),
    }
    if options.as_json:
        print_json(report)
    labels = ", ".join(f"{number} {label}" for label, number in sorted(counted.items()))
    message(f"{len(every)} items ({labels}), {len(every) - len(kept)} held out")
    for reason, number in rejects.by_reason().items():
        message(f"excluded: {number} ({reason})")
