"""Rewriting: a parsed search body, knowledge and options → the body that the engine runs.

:func:`resift.rewriting.rewrite.rewrite` is a pure function. A rewriting uses the modules in this order:

1. ``options``: the options of a rewriting, and how they are read from a search body.
2. ``knowledge``: the data about the query, its session and its index. :mod:`resift.sessions` loads this data.
3. ``rewrite``: decides whether and how the body is rewritten.
4. ``rescored``: for queries that search for words. The query stays as it is, or is widened; expansion words, the
   similarity and demotions become rescore stages.
5. ``in_place``: for queries that rank by meaning already (``hybrid``, ``knn``, ``neural``, ``neural_sparse``). Their
   own clauses change, and ``moving`` moves vectors and tokens.
6. ``clauses``, ``words`` and ``similarity``: the clauses of which rewritten queries are made.
7. ``outcome``: the result, which is the rewritten body with a code and notes that say what was changed.
"""
