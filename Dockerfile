# syntax=docker/dockerfile:1
# One target for each service: admission, board, job-controller, jobflow-controller, recorder, scheduler.
#   docker build --target scheduler --tag pyroclast/scheduler .
# For two architectures: docker buildx build --platform linux/amd64,linux/arm64 --sbom=true --provenance=true …
# The base must be named by its digest: --build-arg PYTHON=python:3.13-slim@sha256:…
# `docker buildx imagetools inspect python:3.13-slim` shows the one of today. To try something out: --build-arg UNPINNED=true.
ARG PYTHON=python:3.13-slim
ARG UNPINNED=false

# Everything is installed into one environment, by exact versions and hashes, also what builds our own wheels; the pip that does it stays
# behind in this stage. packages.json says what there is in the end: names, versions, licences.
FROM ${PYTHON} AS build
ARG PYTHON
ARG UNPINNED
RUN python -c "exit(None if '${UNPINNED}' == 'true' or '@sha256:' in '${PYTHON}' else 'PYTHON=${PYTHON} names its base by no digest, so that nobody knows what is in the image: give --build-arg PYTHON=python:3.13-slim@sha256:..., or for trying out --build-arg UNPINNED=true')"
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv --without-pip /opt/pyroclast \
    && pip --no-cache-dir --python /opt/pyroclast/bin/python install --require-hashes --requirement requirements.lock \
    && pip --no-cache-dir install --require-hashes --requirement requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY libs libs
COPY services services
RUN pip --no-cache-dir wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheels . ./libs/pyroclast \
    && pip --no-cache-dir --python /opt/pyroclast/bin/python install --no-deps --no-index /tmp/wheels/*.whl \
    && pip --python /opt/pyroclast/bin/python inspect > /opt/pyroclast/packages.json \
    && /opt/pyroclast/bin/python -m compileall -q /opt/pyroclast

FROM ${PYTHON} AS runtime
RUN python -m pip uninstall --yes --quiet pip
COPY --from=build /opt/pyroclast /opt/pyroclast
ENV PATH=/opt/pyroclast/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title=Pyroclast \
      org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.description="A batch system for Kubernetes, compatible with the Volcano API" \
      org.opencontainers.image.licenses=Apache-2.0
WORKDIR /tmp
USER 65532:65532
EXPOSE 11251

FROM runtime AS admission
EXPOSE 8443
ENTRYPOINT ["python", "-m", "pyroclast_admission"]

FROM runtime AS board
EXPOSE 8084 8091
ENTRYPOINT ["python", "-m", "pyroclast_board"]

FROM runtime AS job-controller
EXPOSE 8081
ENTRYPOINT ["python", "-m", "pyroclast_job_controller"]

FROM runtime AS jobflow-controller
EXPOSE 8081
ENTRYPOINT ["python", "-m", "pyroclast_jobflow_controller"]

FROM runtime AS recorder
EXPOSE 8083 8090
ENTRYPOINT ["python", "-m", "pyroclast_recorder"]

FROM runtime AS scheduler
EXPOSE 8080
ENTRYPOINT ["python", "-m", "pyroclast_scheduler"]
