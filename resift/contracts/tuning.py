"""What was chosen for one index, and why: how much vectors count in its searches, and what a session learned."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Factor = Annotated[float, Meta(ge=0, le=100)]


class Tuning(Struct, frozen=True, omit_defaults=True):
    """The constants that an index has in place of the usual ones; the index keeps them, and every search heeds them.

    ``alpha``: the similarity's weight (0 to 1) without a session, for the vectors of the ``model`` of this hash; None
    is the model's own. The other three are factors, 1 by default: ``words``, of the weights of a session's words;
    ``strength``, of the similarity's beta in a session; ``carried``, of what judgements for other queries count.
    ``why``: in English, what each of ``alpha`` and ``session`` was chosen by.
    """

    alpha: Annotated[float, Meta(ge=0, le=1)] | None = None
    model: str | None = None
    words: Factor = 1.0
    strength: Factor = 1.0
    carried: Factor = 1.0
    why: dict[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def from_json(cls, kept: Any) -> Tuning:
        """What an index keeps; the usual constants where that is nothing, or what others have made of it."""
        try:
            return cls() if kept is None else msgspec.convert(kept, cls)
        except msgspec.ValidationError:
            return cls()

    def to_json(self) -> dict[str, Any]:
        """The same as JSON, without what is as usual."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def describe(self) -> list[str]:
        """What differs from the usual, in English; none if nothing does."""
        factors = {"words": self.words, "strength": self.strength, "carried over": self.carried}
        changed = [f"{name} x {factor:g}" for name, factor in factors.items() if factor != 1]
        lines = [] if self.alpha is None else [f"vectors weigh {self.alpha:.2f}: {self.why.get('alpha', '')}"]
        return [*lines, *([f"sessions: {', '.join(changed)}: {self.why.get('session', '')}"] if changed else [])]


DEFAULT_TUNING = Tuning()
