"""The exercises, one module per lesson; importing this package enters all of them in the catalogue."""

import importlib
import pkgutil

for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{module}")
