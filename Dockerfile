# For a machine with an NVIDIA GPU:
#   docker build -t tcexplore .
#   docker run --gpus all --rm -it -v "$PWD:/work" tcexplore model.py
# For a CPU:
#   docker build --build-arg TARGET=cpu -t tcexplore:cpu .
#   docker run --rm -it -v "$PWD:/work" tcexplore:cpu model.py

# `cuda` or `cpu`.
ARG TARGET=cuda

FROM python:3.12-slim-bookworm AS base

# Inductor needs a C++ compiler on a CPU; Triton needs a C compiler for the stubs that launch its kernels.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc g++ git less vim-tiny \
    && rm -rf /var/lib/apt/lists/*

# The CUDA libraries come with torch's own packages, the driver with the host: no CUDA image is needed.
FROM base AS torch-cuda
RUN pip install --no-cache-dir "torch==2.13.*"

FROM base AS torch-cpu
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "torch==2.13.*"

FROM torch-${TARGET} AS tcexplore
COPY pyproject.toml README.md LICENSE /opt/tcexplore/
COPY tcexplore /opt/tcexplore/tcexplore
COPY samples /opt/tcexplore/samples
RUN pip install --no-cache-dir /opt/tcexplore

ENV COLORTERM=truecolor \
    EDITOR=vi \
    LANG=C.UTF-8 \
    TERM=xterm-256color
# The compiler's caches outlive the container when a volume is mounted here.
ENV TORCHINDUCTOR_CACHE_DIR=/cache/inductor \
    TRITON_CACHE_DIR=/cache/triton
VOLUME /cache

WORKDIR /work
ENTRYPOINT ["tcexplore"]
CMD ["--help"]
