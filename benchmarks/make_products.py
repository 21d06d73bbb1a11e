"""Generate the products of ``make demo SHOP=1``: ``python benchmarks/make_products.py resift/data/demo``.

Each product has a type and a purpose. Two sentences of its description are about the purpose, and its title does not
mention the purpose. A question is the name of a type, asked by a person with a purpose in mind. Products with this type
and purpose are relevant. Three people who type the same query therefore want three different groups of products.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

SEED, OF_EACH = 20_261, 6
BRANDS = ("Norrvik", "Peltrano", "Ostara Works", "Brindle & Co", "Kestrelle", "Umbra Nine", "Tallow", "Vantique")
NAMES = ("Arc", "Birch", "Cinder", "Delta", "Ember", "Fjord", "Grove", "Halo", "Iris", "Juno", "Kite", "Lumen", "Mesa")

# type: category, typical price in dollars, purposes, sentences that apply to all products of the type
TYPES: dict[str, tuple[str, float, tuple[str, str, str], tuple[str, ...]]] = {
    "running shoes": ("Sports", 95, ("rain", "beginner", "travel"), ("A breathable upper.", "Laces that stay tied.")),
    "backpack": ("Bags", 70, ("travel", "children", "rain"), ("Two side pockets.", "Padded straps.")),
    "kettle": ("Kitchen", 45, ("travel", "quiet", "gift"), ("Boils a litre.", "Switches itself off.")),
    "coffee maker": (
        "Kitchen",
        110,
        ("quiet", "office", "beginner"),
        ("A washable filter.", "Makes up to eight cups."),
    ),
    "headphones": ("Electronics", 120, ("travel", "children", "office"), ("Wireless.", "Charges by USB-C.")),
    "speaker": ("Electronics", 80, ("rain", "gift", "children"), ("Pairs with any phone.", "Plays ten hours.")),
    "tent": ("Outdoor", 190, ("rain", "beginner", "children"), ("Two doors.", "Pegs and lines included.")),
    "sleeping bag": ("Outdoor", 85, ("travel", "children", "rain"), ("A two-way zip.", "Comes with a sack.")),
    "lamp": ("Home", 40, ("office", "children", "gift"), ("A warm LED.", "A cable of two metres.")),
    "desk chair": ("Home", 180, ("office", "quiet", "children"), ("Height is adjustable.", "Five castors.")),
    "keyboard": (
        "Electronics",
        75,
        ("quiet", "travel", "office"),
        ("A full row of function keys.", "Works with any PC."),
    ),
    "jacket": ("Clothing", 130, ("rain", "travel", "children"), ("Two hand pockets.", "A full zip.")),
    "watch": ("Electronics", 140, ("gift", "beginner", "rain"), ("A steel buckle.", "Shows the date.")),
    "knife set": ("Kitchen", 60, ("beginner", "gift", "travel"), ("Stainless steel.", "Three blades.")),
    "camera": ("Electronics", 320, ("beginner", "travel", "rain"), ("Takes standard cards.", "A viewfinder.")),
    "bicycle light": ("Sports", 30, ("rain", "office", "gift"), ("Clips on without tools.", "Three levels.")),
}
PURPOSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "travel": (
        "for travelling",
        (
            "Folds flat and goes into hand luggage.",
            "So light that nobody minds it on a long flight.",
            "Made for airports, trains and hotel rooms.",
            "Weighs little and packs down to the size of a paperback for the next trip abroad.",
        ),
    ),
    "rain": (
        "for bad weather",
        (
            "Sealed seams keep a downpour out.",
            "Waterproof, and dry again within the hour.",
            "Tested in storms, mud and sleet.",
            "Puddles and wet autumn days do it no harm.",
        ),
    ),
    "children": (
        "for a child",
        (
            "Sized for small hands, from the age of five.",
            "Rounded edges, and no parts that kids could swallow.",
            "Survives playground and kindergarten.",
            "Parents like that it wipes clean; boys and girls like the colours.",
        ),
    ),
    "quiet": (
        "that makes no noise",
        (
            "Hardly a sound, so that nobody wakes up.",
            "Below 30 decibels, softer than a whisper.",
            "Damped and silent, for thin walls and light sleepers.",
            "Late at night the neighbours hear nothing.",
        ),
    ),
    "office": (
        "for the office",
        (
            "Looks right in a meeting room.",
            "Built for eight hours at a desk, day after day, by people who work.",
            "Colleagues in an open-plan office will hardly notice it.",
            "Made for commuters and conference calls.",
        ),
    ),
    "beginner": (
        "for a beginner",
        (
            "Easy from the first day: everything is explained step by step.",
            "Forgives the mistakes that all novices make.",
            "No experience is needed, and nothing has to be adjusted.",
            "A simple choice to learn with.",
        ),
    ),
    "gift": (
        "to give away",
        (
            "Comes in a box with a ribbon.",
            "A birthday present that is remembered.",
            "Engraved on request, with a card for your wishes.",
            "Wrapped by hand, for Christmas, weddings and anniversaries.",
        ),
    ),
}


def products(rng: np.random.Generator) -> list[tuple[str, str, dict[str, Any]]]:
    """Return all products in random order, each with its type, purpose and document."""
    kinds = [(kind, purpose) for kind, (_, _, purposes, _) in TYPES.items() for purpose in purposes] * OF_EACH
    names = {
        kind: rng.permutation([f"{brand}|{name}" for brand in BRANDS for name in NAMES]).tolist() for kind in TYPES
    }
    made = []
    for number, at in enumerate(rng.permutation(len(kinds)), 1):
        kind, purpose = kinds[at]
        category, price, _, always = TYPES[kind]
        brand, name = names[kind].pop().split("|")
        about = [*rng.choice(PURPOSES[purpose][1], 2, replace=False), str(rng.choice(always))]
        document = {
            "_id": f"p{number}",
            "title": f"{brand} {name} {kind}",
            "brand": brand,
            "category": category,
            "price": round(float(price * rng.lognormal(0, 0.35)), 2),
            "rating": round(float(rng.beta(8, 2)) * 4 + 1, 1),
            "released": str(np.datetime64("2023-01-01") + int(rng.integers(1000))),
            "description": " ".join(str(about[part]) for part in rng.permutation(3)),
        }
        made.append((kind, purpose, document))
    return made


def questions(made: list[tuple[str, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return a question for each type and purpose, with the ids of relevant products."""
    pairs = [(kind, purpose) for kind, (_, _, purposes, _) in TYPES.items() for purpose in purposes]
    return [
        {
            "conversation": number,
            "text": kind,
            "wants": PURPOSES[purpose][0],
            "marks": {document["_id"]: 1 for *of, document in made if of == [kind, purpose]},
        }
        for number, (kind, purpose) in enumerate(pairs, 1)
    ]


def main(folder: str) -> None:
    """Write the products and the questions to a folder."""
    made = products(np.random.default_rng(SEED))
    for name, rows in (("products", [document for *_, document in made]), ("product-questions", questions(made))):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        Path(folder, f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
