"""Constants that are tuned for a single index: the weight of the similarity, and the influence of sessions."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

Factor = Annotated[float, Meta(ge=0, le=100)]


class Tuning(Struct, frozen=True, omit_defaults=True):
    """Constants of an index that replace the defaults in all its searches. They are stored with the index.

    Attributes:
        alpha: The weight of the similarity (0 to 1) in searches without a session, or None for the model's own weight.
        model: The hash of the model for whose vectors ``alpha`` was chosen.
        words: A factor for the weights of the words that a session adds to queries.
        strength: A factor for the influence of the similarity on scores in a session.
        carried: A factor for the weights of judgements that were made for earlier queries of a session.
        why: Reasons for the chosen constants, in English: under the key ``alpha`` for ``alpha``, and under ``session``
            for the three factors.
    """

    alpha: Annotated[float, Meta(ge=0, le=1)] | None = None
    model: str | None = None
    words: Factor = 1.0
    strength: Factor = 1.0
    carried: Factor = 1.0
    why: dict[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: Any) -> Tuning:
        """Read the constants, such as the weight of vector similarity, from the JSON that is stored with an index.

        Args:
            stored: The stored JSON. If it is None or malformed, the default constants are returned.
        """
        try:
            return cls() if stored is None else msgspec.convert(stored, cls)
        except msgspec.ValidationError:
            return cls()

    def with_weight(self, chosen: Tuning) -> Tuning:
        """Return a copy of these constants with another weight of the vector similarity.

        Args:
            chosen: Constants with the new weight ``alpha``. The weight, its model and its reason are copied from them.
                The factors for sessions stay the same.
        """
        return structs.replace(self, alpha=chosen.alpha, model=chosen.model, why={**self.why, **chosen.why})

    def to_json(self) -> dict[str, Any]:
        """Return the constants that differ from their defaults as a JSON object, to be stored with the index."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def describe(self) -> list[str]:
        """Describe in English the constants of the index that differ from their defaults.

        Returns:
            A line of text about the weight of vector similarity, and a line about the factors for sessions. A line is
            left out if its constants have their default values.
        """
        factors = {"words": self.words, "strength": self.strength, "carried over": self.carried}
        changed = [f"{name} x {factor:g}" for name, factor in factors.items() if factor != 1]
        lines = []
        if self.alpha is not None:
            lines.append(f"weight of the vectors {self.alpha:.2f}: {self.why.get('alpha', '')}")
        if changed:
            lines.append(f"sessions: {', '.join(changed)}: {self.why.get('session', '')}")
        return lines


DEFAULT_TUNING = Tuning()
