# The playground in a container, with its default model inside: no download when it starts.
#
#   docker build -t decoding-playground .                               what torch's default index serves:
#                                                                       on Linux a CUDA build, some GB
#   docker build --build-arg TORCH_INDEX=<address of a CPU index> ...   a CPU build, 200 MB
#   docker run -p 7860:7860 decoding-playground                         (with --gpus all for CUDA)
#
# Limits are set by environment variables, as everywhere: see README, "For many users".
FROM python:3.11-slim

ARG TORCH_INDEX=""

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    HF_HOME=/home/app/hub \
    PLAYGROUND_CACHE=/home/app/models \
    PLAYGROUND_PUBLIC=1 \
    PLAYGROUND_HOST=0.0.0.0 \
    PLAYGROUND_PORT=7860 \
    PATH=/home/app/venv/bin:$PATH

RUN useradd --create-home --uid 1000 app
USER 1000
WORKDIR /home/app/playground

COPY --chown=app requirements.txt ./
RUN python -m venv /home/app/venv \
    && pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -r requirements.txt

COPY --chown=app playground ./playground
RUN python -m playground.models

COPY --chown=app . .

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/health', timeout=4)"]
CMD ["python", "app.py"]
