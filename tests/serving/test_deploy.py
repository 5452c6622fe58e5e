"""What a Space and a container read: front matter, requirements, deploy script, Dockerfile."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from playground.models import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def pins():
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def test_the_front_matter_is_what_a_space_needs():
    head = yaml.safe_load(README.split("---\n")[1])
    assert head["sdk"] == "gradio"
    assert head["sdk_version"] == pins()["gradio"]
    assert (ROOT / head["app_file"]).is_file()
    assert head["title"] and len(head["short_description"]) <= 60
    assert {head["colorFrom"], head["colorTo"]} <= {
        "red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray",
    }  # fmt: skip
    needs = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert head["python_version"] == needs[1]
    assert all("/" in model for model in head["models"])
    assert "SmolLM2-135M-Instruct" in head["models"][0] == f"HuggingFaceTB/{CATALOGUE[0].title}"


def test_everything_the_app_imports_is_pinned():
    assert {"torch", "transformers", "gradio", "plotly", "pandas", "numpy"} <= set(pins())
    assert "spaces" not in pins()  # a Space that lends GPUs brings its own


@pytest.fixture
def hf(tmp_path):
    """A stand-in for the hub's command line that writes down how it was called."""
    tool = tmp_path / "venv" / "bin" / "hf"
    tool.parent.mkdir(parents=True)
    log, copy = tmp_path / "calls", tmp_path / "copy"
    tool.write_text(
        f'#!/usr/bin/env bash\necho "$*" >>"{log}"\n[[ $1 != upload ]] || cp -r "$3" "{copy}"\n'
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tool.parent.parent, log, copy


def deploy(venv, *arguments):
    return subprocess.run(
        [ROOT / "scripts" / "deploy.sh", *arguments],
        env={**os.environ, "VENV": str(venv)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_deploying_uploads_what_is_committed(hf):
    venv, log, copy = hf
    out = deploy(venv, "someone/playground")
    assert out.returncode == 0, out.stderr
    create, upload = log.read_text().splitlines()
    assert create == "repos create someone/playground --type space --sdk gradio --exist-ok"
    assert upload.startswith("upload someone/playground ") and " . --type space" in upload
    for name in ("app.py", "README.md", "requirements.txt", "playground", "assets"):
        assert (copy / name).exists()
    assert not (copy / "tests").exists() and not (copy / ".git").exists()


def test_deploying_nowhere_says_what_to_do(hf):
    out = deploy(hf[0])
    assert out.returncode == 1 and "make deploy SPACE=owner/name" in out.stderr
    assert not hf[1].exists()


def test_the_container_runs_the_same_things():
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = [x for x in text.splitlines() if x and not x.startswith(("#", " "))]
    steps = [line.split()[0] for line in lines]
    assert steps[0] == "FROM" and "slim" in lines[0]
    assert "-r requirements.txt" in text and "python -m playground.models" in text
    # Nothing runs as root but the making of the user.
    assert [x for x in lines[: steps.index("USER")] if x.startswith("RUN")] == [
        "RUN useradd --create-home --uid 1000 app"
    ]
    assert "HEALTHCHECK" in steps and "/health" in text and "PLAYGROUND_PUBLIC=1" in text
    assert lines[-1] == 'CMD ["python", "app.py"]'
    # Small unless asked otherwise, and no index has to be named for either.
    assert "ARG TORCH_BACKEND=cpu" in lines and '--torch-backend="$TORCH_BACKEND"' in text
    assert re.search(r"pip install uv==\d+\.\d+\.\d+ ", text) and "://" not in text.replace(
        "http://127.0.0.1:7860/health", ""
    )
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert {".git", ".venv"} <= set(ignored)
