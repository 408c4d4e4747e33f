# The server: docker build -t transher . && docker run -p 8085:8085 -e TRANSHER_TOKEN=... -v "$PWD/my_run:/runs/my_run:ro" transher
FROM python:3.11-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
# Where torch's builds for CPUs are: a fraction of the size of those for GPUs, which pip takes where this index has none.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN python -m venv /opt/transher
ENV PATH=/opt/transher/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
# Each file has the hash that the lock says; what torch's build for GPUs needs besides has the versions that it says.
COPY requirements.lock ./
RUN pip install --no-deps --require-hashes ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -r requirements.lock
COPY . .
RUN pip install --no-build-isolation --constraint constraints.txt '.[serve]' && pip check

FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin transher
COPY --from=build /opt/transher /opt/transher
ENV PATH=/opt/transher/bin:$PATH PYTHONUNBUFFERED=1 TRANSHER_HOST=0.0.0.0 TRANSHER_PORT=8085 TRANSHER_LOG=json TRANSHER_RUNS=/runs/my_run
USER 10001
WORKDIR /runs
EXPOSE 8085
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['TRANSHER_PORT']}/api/ready\", timeout=4)"]
ENTRYPOINT ["transher"]
CMD ["serve"]
