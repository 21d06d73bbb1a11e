"""Compare a transformer on the CPU and on a GPU: ``python benchmarks/devices.py MODEL [--texts N]``.

MODEL is the folder of a sentence-transformers model. The script encodes single words, as ``resift vectors distill``
does, sentences of 20 words, and documents of 200 words. The words are drawn from resift-en. For each kind of text, the
script prints the texts a second on each device, and how far the vectors of the GPU are from those of the CPU. Without a
GPU, it measures only the CPU, and says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from resift.arrays import Floats
from resift.encoders.registry import load_model
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift_lab.training.device import Device
from resift_lab.training.transformer import Transformer

# Words of a text, and texts that the CPU encodes together.
KINDS = {"words": (1, 256), "sentences": (20, 64), "documents": (200, 32)}


def texts_of(kind: str, count: int) -> list[str]:
    """Return random texts of one of the kinds."""
    words, random = load_model().table.words, np.random.default_rng(0)
    return [" ".join(random.choice(words, KINDS[kind][0])) for _ in range(count)]


def devices() -> Iterator[str]:
    """Yield the names of the devices of this machine."""
    yield "cpu"
    try:
        Device("cuda")
    except BadInput as error:
        print(f"no GPU was measured: {error.message}")
    else:
        yield "cuda"


def encode(model: Transformer, kind: str, texts: list[str]) -> tuple[Floats, float]:
    """Return the vectors of texts, and the texts a second. A first batch, which is slower, is not measured."""
    batch = KINDS[kind][1]
    model.encode(texts[:batch], batch)
    model.device.texts, model.device.seconds = 0, 0.0
    vectors = model.encode(texts, batch)
    return vectors, model.device.texts / model.device.seconds


def main() -> None:
    """Print the texts a second and the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--texts", type=int, default=1000, help="texts of each kind (default: 1,000)")
    options = parser.parse_args()
    models = [Transformer(options.model, Device(name)) for name in devices()]
    for kind in KINDS:
        texts = texts_of(kind, options.texts)
        reference, speed = encode(models[0], kind, texts)
        print(f"{kind}: {models[0].device.label}: {speed:,.0f} a second")
        for model in models[1:]:
            vectors, speed = encode(model, kind, texts)
            difference = np.abs(vectors - reference).max() / np.abs(reference).max()
            cosine = (unit_rows(vectors) * unit_rows(reference)).sum(axis=1).min()
            print(
                f"{kind}: {model.device.label}: {speed:,.0f} a second, largest difference {difference:.1e} of the "
                f"largest value, smallest cosine {cosine:.6f}"
            )


if __name__ == "__main__":
    main()
