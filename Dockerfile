# For a machine with an NVIDIA GPU:
#   docker build -t tcexplore .
#   docker run --gpus all --rm -it -v "$PWD:/work" tcexplore model.py
# For a CPU, without the gigabytes of CUDA libraries (INDEX: the package index that PyTorch's install page names
# for its CPU builds; without it torch's usual build is installed, which runs on a CPU too):
#   docker build --build-arg TORCH_INDEX=INDEX -t tcexplore:cpu .
#   docker run --rm -it -v "$PWD:/work" tcexplore:cpu model.py

FROM python:3.12-slim-bookworm

# Inductor needs a C++ compiler on a CPU; Triton needs a C compiler for the stubs that launch its kernels.
# Debian keeps only the newest version of a package, so none is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc g++ git less vim-tiny \
    && rm -rf /var/lib/apt/lists/*

# The CUDA libraries come with torch's own packages, the driver with the host: no CUDA image is needed.
ARG TORCH_INDEX=
# hadolint ignore=DL3013
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "torch==2.13.*"

COPY pyproject.toml README.md LICENSE /opt/tcexplore/
COPY tcexplore /opt/tcexplore/tcexplore
COPY samples /opt/tcexplore/samples
RUN pip install --no-cache-dir "/opt/tcexplore[torch]"

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
