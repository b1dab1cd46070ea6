# syntax=docker/dockerfile:1
# One target for each service: admission, board, job-controller, jobflow-controller, recorder, scheduler.
#   docker build --target scheduler --tag pyroclast/scheduler .
# For two architectures: docker buildx build --platform linux/amd64,linux/arm64 --sbom=true --provenance=true …
# The base must be named by its digest: --build-arg PYTHON=python:3.13-slim@sha256:…
# `docker buildx imagetools inspect python:3.13-slim` shows the one of today. To try something out: --build-arg UNPINNED=true.
ARG PYTHON=python:3.13-slim
ARG UNPINNED=false

# The packages, by exact versions and hashes, also those that build our own wheels; the pip that installs them stays behind in this
# stage. What all services load is in /opt/pyroclast, what one service adds in /parts. packages*.json list
# names, versions and licences.
FROM ${PYTHON} AS build
ARG PYTHON
ARG UNPINNED
RUN python -c "exit(None if '${UNPINNED}' == 'true' or '@sha256:' in '${PYTHON}' else 'PYTHON=${PYTHON} names its base by no digest, so that nobody knows what is in the image: give --build-arg PYTHON=python:3.13-slim@sha256:..., or for trying out --build-arg UNPINNED=true')"
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
COPY images/parts.py images/
RUN python -m venv --without-pip /opt/pyroclast \
    && mkdir -p /parts/board /parts/recorder /parts/scheduler \
    && python images/parts.py lock shared > shared.lock \
    && python images/parts.py lock board > board.lock \
    && python images/parts.py lock recorder > recorder.lock \
    && python images/parts.py lock scheduler > scheduler.lock \
    && pip --no-cache-dir --python /opt/pyroclast/bin/python install --require-hashes --no-deps --requirement shared.lock \
    && pip --no-cache-dir install --require-hashes --no-deps --prefix /parts/board --requirement board.lock \
    && pip --no-cache-dir install --require-hashes --no-deps --prefix /parts/recorder --requirement recorder.lock \
    && pip --no-cache-dir install --require-hashes --no-deps --prefix /parts/scheduler --requirement scheduler.lock \
    && pip inspect --path /parts/board/lib/python3*/site-packages > /parts/board/packages-board.json \
    && pip inspect --path /parts/recorder/lib/python3*/site-packages > /parts/recorder/packages-recorder.json \
    && pip inspect --path /parts/scheduler/lib/python3*/site-packages > /parts/scheduler/packages-scheduler.json \
    && python images/parts.py finish /opt/pyroclast /parts/board /parts/recorder /parts/scheduler \
    && pip --no-cache-dir install --require-hashes --requirement requirements-build.lock

# Our own packages: in a stage of their own, so that the packages of others stay the same layers when only our code changes.
FROM build AS programs
COPY pyproject.toml README.md LICENSE ./
COPY libs libs
COPY services services
RUN pip --no-cache-dir wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheels . ./libs/pyroclast \
    && pip --no-cache-dir install --no-deps --no-index --prefix /own/shared /tmp/wheels/*.whl \
    && pip inspect --path /opt/pyroclast/lib/python3*/site-packages --path /own/shared/lib/python3*/site-packages \
        > /own/shared/packages.json \
    && python images/parts.py divide /own \
    && python images/parts.py finish /own/*

# The base without what no service uses: a package manager, Perl, other character sets, documentation, the pip and its like.
FROM ${PYTHON} AS trimmed
RUN python -m pip uninstall --yes --quiet pip \
    && rm -rf /usr/share/doc /usr/share/man /usr/share/info /usr/share/locale /usr/share/i18n /usr/share/perl5 /usr/share/python-wheels \
        /usr/share/bash-completion /usr/share/zsh /usr/share/lintian /usr/share/debconf /usr/lib/apt /usr/lib/dpkg \
        /usr/lib/*-linux-gnu/gconv /usr/lib/*-linux-gnu/perl* /usr/lib/*-linux-gnu/libapt-* \
        /usr/bin/perl* /usr/bin/apt* /usr/bin/dpkg* /usr/bin/openssl /usr/bin/sqv /usr/bin/gpgv \
        /usr/local/lib/python3*/ensurepip /usr/local/lib/python3*/idlelib /usr/local/lib/python3*/tkinter \
        /usr/local/lib/python3*/turtledemo /usr/local/lib/python3*/pydoc_data /usr/local/lib/python3*/test \
        /usr/lib/python3*/pydoc_data /usr/lib/python3*/test \
        /var/cache /var/log /var/lib/apt

FROM scratch AS runtime
COPY --from=trimmed / /
COPY --from=build /opt/pyroclast /opt/pyroclast
COPY --from=programs /own/shared /opt/pyroclast
ENV PATH=/opt/pyroclast/bin:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin \
    LANG=C.UTF-8 \
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
COPY --from=programs /own/admission /opt/pyroclast
EXPOSE 8443
ENTRYPOINT ["python", "-m", "pyroclast_admission"]

FROM runtime AS board
COPY --from=build /parts/board /opt/pyroclast
COPY --from=programs /own/board /opt/pyroclast
EXPOSE 8084 8091
ENTRYPOINT ["python", "-m", "pyroclast_board"]

FROM runtime AS job-controller
COPY --from=programs /own/job-controller /opt/pyroclast
EXPOSE 8081
ENTRYPOINT ["python", "-m", "pyroclast_job_controller"]

FROM runtime AS jobflow-controller
COPY --from=programs /own/jobflow-controller /opt/pyroclast
EXPOSE 8081
ENTRYPOINT ["python", "-m", "pyroclast_jobflow_controller"]

FROM runtime AS recorder
COPY --from=build /parts/recorder /opt/pyroclast
COPY --from=programs /own/recorder /opt/pyroclast
EXPOSE 8083 8090
ENTRYPOINT ["python", "-m", "pyroclast_recorder"]

FROM runtime AS scheduler
COPY --from=build /parts/scheduler /opt/pyroclast
COPY --from=programs /own/scheduler /opt/pyroclast
EXPOSE 8080
ENTRYPOINT ["python", "-m", "pyroclast_scheduler"]
