"""The device that transformers run on: the CPU or a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from resift.arrays import Floats
from resift.errors import BadInput, needs_extra

DEVICES = ("auto", "cpu", "cuda")
"""The names of devices: ``auto`` stands for a GPU if torch finds one, and for the CPU otherwise."""


class Device:
    """The CPU or a GPU. Encodes batches of texts on it, and measures the speed.

    Torch is imported when the device is first used, unless the name is ``cuda``.

    Args:
        name: One of :data:`DEVICES`.

    Attributes:
        texts: The number of texts that were encoded so far.
        seconds: The time that encoding these texts took.

    Raises:
        MissingExtra: If the name is ``cuda`` and torch is not installed.
        BadInput: If the name is ``cuda`` and torch finds no GPU.
    """

    def __init__(self, name: str = "auto") -> None:
        self.name, self.texts, self.seconds = name, 0, 0.0
        if name == "cuda" and not self.is_gpu:
            message = "--device cuda needs a GPU, and torch finds none"
            raise BadInput(message, value=name, expected="cpu, auto, or a version of torch that supports your GPU")

    @cached_property
    def is_gpu(self) -> bool:
        """Whether the device is a GPU."""
        if self.name == "cpu":
            return False
        with needs_extra("lab", "--device"):
            import torch
        return bool(torch.cuda.is_available())

    @property
    def torch_name(self) -> str:
        """The name of the device in torch: ``cpu`` or ``cuda``."""
        return "cuda" if self.is_gpu else "cpu"

    @cached_property
    def label(self) -> str:
        """The name of the graphics card, or "the CPU"."""
        if not self.is_gpu:
            return "the CPU"
        import torch

        return str(torch.cuda.get_device_name())

    def encode(self, encode: Callable[[Sequence[str]], Floats], texts: Sequence[str]) -> Floats:
        """Encode texts with a model that is on this device, and measure the time.

        A GPU multiplies matrices in float16, and does everything else in float32 (mixed precision). If this results in
        infinite values or NaN, the texts are encoded again in float32. The CPU always uses float32.

        Args:
            encode: A function that encodes n texts with the model. The first dimension of its result is n.
            texts: The n texts.

        Returns:
            The result of the function, float32.

        Raises:
            BadInput: If the memory of the GPU is too small.
        """
        started = time.perf_counter()
        vectors = self._encode_on_gpu(encode, texts) if self.is_gpu else encode(texts)
        self.seconds += time.perf_counter() - started
        self.texts += len(texts)
        return vectors.astype(np.float32, copy=False)

    def _encode_on_gpu(self, encode: Callable[[Sequence[str]], Floats], texts: Sequence[str]) -> Floats:
        import torch

        try:
            with torch.autocast(self.torch_name, torch.float16):
                vectors = encode(texts)
            # The largest float16 is 65,504. Hidden values of some models, such as T5, exceed it.
            return vectors if np.isfinite(vectors).all() else encode(texts)
        except torch.cuda.OutOfMemoryError as error:
            message = f"the memory of {self.label} is too small for this model"
            raise BadInput(message, value=self.name, expected="--device cpu, or more free memory") from error

    def __str__(self) -> str:
        """Return a sentence with the device, the number of encoded texts and the speed."""
        speed = self.texts / self.seconds if self.seconds else 0
        return f"{self.texts:,} texts encoded on {self.label}, {speed:,.0f} per second"
