"""The layers: imports run one way, and the public names are there and load lazily."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import playground as pg

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "playground"
# Library -> the only places that may import it.
HOMES = {
    "transformers": ("models/", "lm.py", "kv_pool.py"),
    "gradio": ("ui/", "serving/"),
    "plotly": ("charts/", "ui/components.py"),
    "torch": ("models/", "lm.py", "kv.py", "kv_pool.py"),
}
# Layer -> what it must never import of ours.
FORBIDDEN = {
    "records": ("engines", "charts", "ui", "lm", "models", "processors"),
    "engines": ("charts", "ui", "lm", "models", "kv", "vocabulary", "serving"),
    "charts": ("engines", "ui", "lm", "models", "processors", "dice", "serving"),
    "models": ("charts", "ui", "engines", "serving"),
}


def imported(path):
    """Every module that a file imports, anywhere in it, TYPE_CHECKING included."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_each_library_stays_in_its_place():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        here = str(path.relative_to(PACKAGE))
        for module in imported(path):
            for library, homes in HOMES.items():
                if module.split(".")[0] == library and not here.startswith(homes):
                    wrong.append(f"{here} imports {module}")
    assert not wrong


def test_layers_import_one_way():
    wrong = []
    for layer, banned in FORBIDDEN.items():
        for path in (PACKAGE / layer).rglob("*.py"):
            for module in imported(path):
                if module.startswith(tuple(f"playground.{b}" for b in banned)):
                    wrong.append(f"{path.relative_to(PACKAGE)} imports {module}")
    assert not wrong


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("playground", "torch transformers gradio plotly pandas"),
        ("playground.engines.sampling", "torch transformers gradio plotly pandas"),
        ("playground.charts", "torch transformers gradio"),
    ],
)
def test_a_fresh_interpreter_loads_only_what_it_needs(modules, absent):
    code = f"import sys, {modules}; print(*[m for m in {absent.split()!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert out.returncode == 0, out.stderr
    assert out.stdout.split() == []


def test_every_public_name_is_there():
    for name in pg.__all__:
        assert getattr(pg, name) is not None
    assert set(pg.__all__) <= set(dir(pg))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pg.nonsense
