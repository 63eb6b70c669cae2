# The gateway as an image.
#
#   docker build --build-arg VERSION=0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" -t rowgate .
#   docker run --read-only --cap-drop all --security-opt no-new-privileges -p 8080:8080 \
#     -v "$PWD/config.yaml:/etc/rowgate/config.yaml:ro" rowgate
#
# The configuration is /etc/rowgate/config.yaml; secrets are mounted as files, below /run/secrets by convention, and
# must be readable by user or group 65532. The root may be read-only: only a gateway that starts plugins by itself writes,
# and that to /tmp.
#
# Port 9090 (health, metrics, the context's public keys) is on the container's loopback unless the configuration says
#   gateway: {internal_listen: "0.0.0.0:9090"}
# which probes, metrics and plugins from outside of the container need. Then publish that port to nobody but them, with a
# NetworkPolicy (the chart in helm/ has one) or a private network.

# Both stages use one base: the virtual environment points at its interpreter.
ARG BASE=python:3.13-slim

FROM ${BASE} AS builder
WORKDIR /source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
# Tools and dependencies first: they change less often than the source. Only files whose hashes are locked are installed.
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv /tools \
    && /tools/bin/pip install --quiet --require-hashes -r requirements/build.txt \
    && python -m venv --without-pip /opt/rowgate \
    && /tools/bin/pip --python /opt/rowgate/bin/python install --quiet --require-hashes -r requirements/runtime.txt
COPY . .
RUN /tools/bin/pip wheel --quiet --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /tools/bin/pip --python /opt/rowgate/bin/python install --quiet --no-cache-dir --no-index --no-deps /wheels/*.whl

FROM ${BASE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rowgate" \
      org.opencontainers.image.description="An authenticating reverse proxy for MCP in front of Supabase applications" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=builder /opt/rowgate /opt/rowgate
# Modules were compiled when they were installed.
ENV PATH=/opt/rowgate/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /
EXPOSE 8080 9090
# The gateway drains on it, also as process 1.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["rowgate", "health"]
ENTRYPOINT ["rowgate"]
CMD ["serve", "/etc/rowgate/config.yaml"]
