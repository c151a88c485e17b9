# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NumPy for the whole engine, or a stand-in that names the missing package at the first creation of
an array; types of arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import MissingPackage

try:
    import numpy as np
except ImportError:
    np = MissingPackage("numpy")  # type: ignore[assignment]  # each use raises

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]
    FloatArray = NDArray[np.float64]
else:
    # Only annotations use these names.
    BoolArray = IntArray = FloatArray = Any
