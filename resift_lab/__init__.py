"""The laboratory package: training, evaluation and the experiments of the papers.

Install it with ``pip install 'resift[lab]'``. It uses the public modules of :mod:`resift`. :mod:`resift` never imports
it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resift_lab.commands.proving import prove
    from resift_lab.commands.tuning import tune
    from resift_lab.evaluation.judged_search import evaluate

__all__ = ["evaluate", "prove", "tune"]
_MODULES = {"evaluate": "evaluation.judged_search", "prove": "commands.proving", "tune": "commands.tuning"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public function of the package when it is first used.

        Commands that need neither scikit-learn nor matplotlib therefore start faster.

        Args:
            name: The name of the function.

        Raises:
            AttributeError: If the package has no public function of this name.
        """
        if name in _MODULES:
            return getattr(import_module(f"resift_lab.{_MODULES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
