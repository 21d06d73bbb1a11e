"""A sentence-transformers model that tests can create quickly."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def save_sentence_transformer(folder: Path, tokens: Sequence[str], layers: int = 1) -> Path:
    """Save an untrained model with 16 dimensions. Skip the test if torch or another package is missing.

    Args:
        folder: The folder of the model. A folder ``bert`` beside it is created, too.
        tokens: The vocabulary.
        layers: The number of layers.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the packages warn when they are imported
        torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        models = pytest.importorskip("sentence_transformers.models")
        sentence_transformers = pytest.importorskip("sentence_transformers")
        source = folder.with_name("bert")
        source.mkdir()
        vocabulary = [*SPECIAL, *tokens]
        (source / "vocab.txt").write_text("\n".join(vocabulary), "utf-8")
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=16,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
        )
        transformers.BertModel(config).save_pretrained(source)
        transformers.BertTokenizer(str(source / "vocab.txt")).save_pretrained(source)
        parts = [models.Transformer(str(source)), models.Pooling(16)]
        sentence_transformers.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    return folder
