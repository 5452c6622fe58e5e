# The playground in a container, with its default model inside: no download when it starts.
#
#   docker build -t decoding-playground .                              torch for CPUs, about 200 MB
#   docker build --build-arg TORCH_BACKEND=cu130 -t ...                for CUDA 13.0, some GB
#   docker run -p 7860:7860 decoding-playground                        (CUDA: with --gpus all)
#
# TORCH_BACKEND is uv's --torch-backend (cpu, cu130, cu126, rocm..., xpu): uv knows which index has
# which build of torch. Not auto: a build sees no GPU, so that always comes to cpu.
#
# Limits are set by environment variables, as everywhere: see README, "For many users".
FROM python:3.11-slim

ARG TORCH_BACKEND=cpu

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    UV_NO_CACHE=1 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    HF_HOME=/home/app/hub \
    PLAYGROUND_CACHE=/home/app/models \
    PLAYGROUND_PUBLIC=1 \
    PLAYGROUND_HOST=0.0.0.0 \
    PLAYGROUND_PORT=7860 \
    VIRTUAL_ENV=/home/app/venv \
    PATH=/home/app/venv/bin:$PATH

RUN useradd --create-home --uid 1000 app
USER 1000
WORKDIR /home/app/playground

COPY --chown=app requirements.txt ./
RUN python -m venv /home/app/venv \
    && pip install uv==0.13.9 \
    && uv pip install --torch-backend="$TORCH_BACKEND" -r requirements.txt

COPY --chown=app playground ./playground
RUN python -m playground.models

COPY --chown=app . .

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/health', timeout=4)"]
CMD ["python", "app.py"]
