# syntax=docker/dockerfile:1
# One target for each program: admission, job-controller, jobflow-controller, scheduler, standalone.
#   docker build --target scheduler --tag pyroclast/scheduler .
ARG PYTHON=python:3.13-slim

# Everything is installed into one environment, by exact versions and hashes; the pip that does it stays behind in this stage.
FROM ${PYTHON} AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/pyroclast
COPY requirements.lock requirements-dev.lock ./
RUN pip --no-cache-dir --python /opt/pyroclast/bin/python install --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY libs libs
COPY services services
COPY charts charts
COPY examples examples
# The lock of the development tools also pins what builds the wheel.
RUN sed 's/ *--hash=[^ ]*//g; s/ *\\$//' requirements-dev.lock > /tmp/constraints.txt \
    && PIP_CONSTRAINT=/tmp/constraints.txt pip --no-cache-dir --python /opt/pyroclast/bin/python install --no-deps . \
    && /opt/pyroclast/bin/python -m compileall -q /opt/pyroclast

FROM ${PYTHON} AS runtime
RUN python -m pip uninstall --yes --quiet pip
COPY --from=build /opt/pyroclast /opt/pyroclast
ENV PATH=/opt/pyroclast/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
LABEL org.opencontainers.image.title=Pyroclast \
      org.opencontainers.image.description="A batch system for Kubernetes, compatible with the Volcano API" \
      org.opencontainers.image.licenses=Apache-2.0
WORKDIR /tmp
USER 65532:65532
EXPOSE 11251

FROM runtime AS admission
EXPOSE 8443
ENTRYPOINT ["python", "-m", "pyroclast_admission"]

FROM runtime AS job-controller
EXPOSE 8081
ENTRYPOINT ["python", "-m", "pyroclast_job_controller"]

FROM runtime AS jobflow-controller
EXPOSE 8081
ENTRYPOINT ["python", "-m", "pyroclast_jobflow_controller"]

FROM runtime AS scheduler
EXPOSE 8080
ENTRYPOINT ["python", "-m", "pyroclast_scheduler"]

FROM runtime AS standalone
ENTRYPOINT ["python", "-m", "pyroclast_standalone"]
