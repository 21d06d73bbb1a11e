"""``python -m resift.encoders``: compile the loops of the encoders now, so that no process begins without them."""

from __future__ import annotations

import sys

from resift.encoders.pooling import KERNELS
from resift.vectors.compiled import build
from resift.vectors.table import LOOKUP

if __name__ == "__main__":
    done = all(build(module.name) for module in (LOOKUP, KERNELS))
    sys.exit(None if done else "there is no folder to keep compiled code in: set NUMBA_CACHE_DIR")
