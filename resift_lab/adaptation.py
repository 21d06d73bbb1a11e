"""Functions that product commands use to adapt and weigh word vectors.

``resift attach --vectors`` and ``resift index --adapt`` load this module through the entry point ``resift.adaptation``
(see :mod:`resift.plugin.adaptation`), so that the product never imports the laboratory directly.
"""

from __future__ import annotations

from resift_lab.commands.train_self import adapt_files
from resift_lab.training.self_supervised import adapt_if_better, index_texts, require_packages
from resift_lab.training.weighing import weigh_index

__all__ = ["adapt_files", "adapt_if_better", "index_texts", "require_packages", "weigh_index"]
