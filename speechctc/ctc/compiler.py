"""numba, which all modules import from here: it takes no settings from the working folder then.

It would read ``.numba_config.yaml`` there, when it is loaded and each time it compiles. The file may be a stranger's,
and can name a folder whose pickles are loaded. Variables of the environment (``NUMBA_...``) still count.
"""

from __future__ import annotations

import os
from typing import Any

from speechctc.ctc.cache import without

with without(".numba_config.yaml"):
    import numba
    from numba import types
    from numba.core import cgutils, config, event
    from numba.core.caching import FunctionCache
    from numba.core.datamodel import models
    from numba.core.registry import cpu_target
    from numba.core.typing.templates import AbstractTemplate, infer_global, signature
    from numba.extending import intrinsic, lower_builtin, overload, register_jitable, register_model

settings: Any = config
settings._config_fname = os.devnull
settings.reload_config()  # numba may have been loaded before, by another package

__all__ = [
    "AbstractTemplate",
    "FunctionCache",
    "cgutils",
    "cpu_target",
    "event",
    "infer_global",
    "intrinsic",
    "lower_builtin",
    "models",
    "numba",
    "overload",
    "register_jitable",
    "register_model",
    "settings",
    "signature",
    "types",
]
