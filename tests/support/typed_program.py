"""A program that uses the types of Resift. mypy must find the two mistakes in it, and no others."""

import resift


def find(session: resift.Session, **options: resift.Unknown) -> resift.Hits:  # type: ignore[name-defined]
    """Search with a size that has the wrong type."""
    return session.search("fire", judged="hide", size="3")  # type: ignore[arg-type]


def ids(library: resift.Library) -> list[str]:
    """Index, mark and search."""
    index: resift.Index = library.index("news", fields=["text"])
    added: resift.Added = index.add({"id": n} for n in range(3))
    explanation: resift.Explanation = index.session("anna").mark(scores={"1": 0.5})
    return [hit.id for hit in index.search(str(explanation["steps"] + added.indexed))]
