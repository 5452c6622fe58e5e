"""``python -m playground.models [name]``: bring a model into the cache, with its progress."""

from __future__ import annotations

import sys

from playground.models.errors import ModelError
from playground.models.progress import console


def main(arguments: list[str]) -> int:
    """Bring the default model, or load the named one; return the exit status."""
    try:
        if arguments:
            from playground.models.loading import load_model

            load_model(arguments[0], progress=console())
        else:
            from playground.models.default import bring_default

            print(f"default model: {bring_default(console())}")
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
