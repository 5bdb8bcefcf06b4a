"""Right answers, written differently from the references: `RIGHT[name]` is a list of at least two (a question has its letter)."""

import importlib
import pkgutil
from typing import Any

RIGHT: dict[str, list[Any]] = {}
for lesson in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    RIGHT.update(importlib.import_module(f"{__name__}.{lesson}").RIGHT)
