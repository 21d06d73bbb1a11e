"""A program of somebody's that uses Resift's types: ``mypy`` finds the two mistakes in it, and no others."""

import resift


def find(session: resift.Session, **options: resift.Unknown) -> resift.Hits:  # type: ignore[name-defined]
    """What a session finds, asked with a number that is a text."""
    return session.search("fire", judged="hide", size="3")  # type: ignore[arg-type]


def ids(library: resift.Library) -> list[str]:
    """What is added, marked and found."""
    index: resift.Index = library.index("news", fields=["text"])
    added: resift.Added = index.add({"id": n} for n in range(3))
    told: resift.Explanation = index.session("anna").mark(scores={"1": 0.5})
    return [hit.id for hit in index.search(str(told["steps"] + added.indexed))]
