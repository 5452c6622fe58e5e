"""Models: which there are, how they are brought, checked and loaded.

A name (the default, a hub id, a folder, a .gguf file) flows in, a TransformersLM flows out.
Exports are lazy: importing this package loads neither torch nor transformers.
"""

from importlib import import_module
from typing import Any

_EXPORTS = {
    "CATALOGUE": "playground.models.catalogue",
    "ModelEntry": "playground.models.catalogue",
    "ModelError": "playground.models.errors",
    "load_model": "playground.models.loading",
    "model_state": "playground.models.catalogue",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Import an export on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'playground.models' has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    """List the exports."""
    return __all__
