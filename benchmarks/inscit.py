"""Convert conversations of INSCIT into a test collection: ``python benchmarks/inscit.py DEV_JSON FOLDER``.

DEV_JSON is ``data/dev.json`` of the repository ellenmellon/INSCIT on GitHub (Wu et al. 2023, "InSCIt:
Information-Seeking Conversations with Mixed-Initiative Interactions"). Writes the files that ``read_conversations``
reads, for ``benchmarks/carry_over.py``:

    corpus.jsonl.gz   the passages that answers cite
    queries.jsonl.gz  the questions with such passages, as they were asked
    qrels.tsv.gz      for each question, the passages that one of its answers cites
    turns.jsonl.gz    the turns of each conversation; a mark is a passage that the given answer cites
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def convert(conversations: dict[str, Json], folder: Path) -> None:
    """Write the files of the collection to a folder.

    Args:
        conversations: The content of the file: conversations by their names.
        folder: The folder, which is created if necessary.
    """
    passages: dict[str, Json] = {}
    queries, judgements, turns = [], ["query-id\tcorpus-id\tscore"], []
    for name, conversation in conversations.items():
        rounds = conversation["turns"]
        for number, turn in enumerate(rounds, 1):
            id, text = f"{name}:{number}", turn["context"][-1]
            cited = [passage for label in turn["labels"] for passage in label["evidence"]]
            earlier = [passage for passages in turn["prevEvidence"] for passage in passages]
            passages |= {passage["passage_id"]: _document(passage) for passage in (*cited, *earlier)}
            # The next turn states which of the possible answers was given.
            given = rounds[number]["prevEvidence"][-1] if number < len(rounds) else turn["labels"][0]["evidence"]
            marks = {passage["passage_id"]: 1 for passage in given}
            turns.append({"_id": id, "conversation": name, "turn": number, "text": text, "marks": marks})
            if cited:
                queries.append({"_id": id, "text": text})
                judgements += [f"{id}\t{passage}\t1" for passage in sorted({one["passage_id"] for one in cited})]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "corpus.jsonl.gz", map(_to_json, passages.values()))
    _write(folder / "queries.jsonl.gz", map(_to_json, queries))
    _write(folder / "qrels.tsv.gz", judgements)
    _write(folder / "turns.jsonl.gz", map(_to_json, turns))


def _document(passage: Json) -> Json:
    titles = " / ".join(passage["passage_titles"])
    return {"_id": passage["passage_id"], "title": titles, "text": passage["passage_text"]}


def _to_json(row: Json) -> str:
    return json.dumps(row, ensure_ascii=False)


def _write(path: Path, lines: Iterable[str]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def main() -> None:
    """Read the arguments, and convert the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="DEV_JSON")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    convert(json.loads(options.source.read_text("utf-8")), options.folder)


if __name__ == "__main__":
    main()
