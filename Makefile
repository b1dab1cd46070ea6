# Two commands matter to a new user: `make run` and `make test`. Everything else is what they are made of.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMMA := ,
KUBERNETES ?= 1.36
WORKERS ?= 2
# what pytest makes of a test is kept for the next run and for the workers beside, also where Python is told to write no bytecode
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q
E2E = $(PYTEST) --dist loadfile --no-loadscope-reorder
WHOLE_E2E = PYROCLAST_WHOLE_E2E=1 $(E2E) tests/e2e
# what the embedded API server is for; all the rest runs on a real one where Go can build it
EMBEDDED := admission/test_rejection admission/test_rights admission/test_webhooks cli/test_command cli/test_kubectl \
    client/test_examples client/test_executor client/test_flows client/test_functions \
    conformance/test_conformance control_plane/test_nodes faults/test_faults faults/test_outage gangs/test_seats install/test_distributions \
    install/test_helm jobs/test_first_light newcomers/test_examples newcomers/test_half_hour newcomers/test_tutorials
# what `.ci/run` leaves out on the real control plane, as it takes long or as the embedded one tells enough
LONG := client/test_examples client/test_executor client/test_flows client/test_functions \
    faults/test_restore install/test_distributions install/test_images jobs/test_frameworks jobs/test_huge_objects \
    newcomers/test_examples newcomers/test_half_hour newcomers/test_tutorials queues/test_budgets queues/test_past_usage \
    queues/test_reservation_promise scheduling/test_reader_codes
# what also runs with pods that are bound, as Volcano does
BOUND := admission/test_in_process faults/test_faults flows/test_flows jobs/test_first_light \
    jobs/test_lifecycle jobs/test_plain_pods queues/test_preemption queues/test_reservation \
    scheduling/test_waiting
# what also runs without PodGroups of Jobs of one pod
ALONE := cli/test_command jobs/test_first_light jobs/test_lifecycle scheduling/test_waiting
# the runner of the client runs in the pods of users alone
PROGRAMS := $(subst /,.,$(patsubst services/%.py,%,$(filter-out services/pyroclast_client/%,$(wildcard services/*/__main__.py services/*/*/__main__.py))))
AT_WORK := pyroclast_admission.certificates.keeper pyroclast_standalone.apiserver.access.identity cryptography.hazmat.backends.openssl.backend uvloop

NODE_PACKAGES := containerd runc buildah mmdebstrap containernetworking-plugins nftables iptables iproute2 busybox-static

DIST ?= dist
DISTRIBUTIONS := . libs/pyroclast services/pyroclast_cli services/pyroclast_client services/pyroclast_standalone \
    services/snakemake_executor_plugin_pyroclast services/hydra_plugins/pyroclast_launcher

.PHONY: wheels run test test-embedded test-bound test-alone setup check lint types walls prose docs control-plane test-real test-real-short up-real real-cluster node-packages test-cluster test-cluster-short soak generate lock clean

run: setup
	@$(BIN)/pyroclast run examples/gang.yaml

test: setup
	@$(PYTEST) -n $$(($(WORKERS) + 2)) --dist worksteal --ignore tests/e2e tests  # two more than cores, as some of them wait
	@$(if $(shell command -v go),$(E2E) $(EMBEDDED:%=tests/e2e/%.py),$(WHOLE_E2E)) -n 3  # they wait more than they work

test-embedded: setup  # every end-to-end test on the embedded API server, also where there is Go
	@$(WHOLE_E2E) -n 3

test-bound: setup
	@$(E2E) -n 3 --bind-pods $(BOUND:%=tests/e2e/%.py)

test-alone: setup
	@$(E2E) -n 3 --one-pod-without-group $(ALONE:%=tests/e2e/%.py)

setup: $(STAMP)

$(STAMP): requirements.lock requirements-dev.lock pyproject.toml libs/pyroclast/pyproject.toml services/pyroclast_cli/pyproject.toml services/pyroclast_client/pyproject.toml services/pyroclast_standalone/pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet "uv==$$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements-dev.lock)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock -r requirements-dev.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . --editable libs/pyroclast --editable services/pyroclast_cli --editable services/pyroclast_client --editable services/pyroclast_standalone
	@# compiles what the programs load, at once and when they begin to work, also where Python is told to write no bytecode
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q -j 0 libs services
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c "import $(subst $() $(),$(COMMA),$(PROGRAMS) $(AT_WORK))"
	@touch $@

wheels: setup  # of all distributions, into $(DIST): pip install --find-links dist 'pyroclast-client[local]'
	@for folder in $(DISTRIBUTIONS); do (cd $$folder && $(abspath $(BIN))/python -m hatchling build -t wheel -d $(abspath $(DIST))) || exit 1; done

check: lint types walls prose docs

lint: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup
	@$(BIN)/mypy

walls: setup
	@$(BIN)/lint-imports

prose: setup  # links, manifests, configurations and sentences of the documentation
	@$(BIN)/python -m pytest -q -p no:xdist tests/unit/docs

docs: setup  # the site of the documentation, into `site/`; a broken link fails it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir site

control-plane: setup  # kube-apiserver, etcd, kube-controller-manager and helm from their Go modules: minutes once, then cached
	@$(BIN)/python -m tests.control_plane build --kubernetes $(KUBERNETES)

test-real: control-plane  # but what `make test` has tested on control planes of its own
	@PYROCLAST_TESTED_BEFORE="$(EMBEDDED)" $(WHOLE_E2E) -n $$(($(WORKERS) + 1)) --control-plane=real

test-real-short: export PYROCLAST_LEFT_OUT = $(LONG)
test-real-short: test-real

up-real: control-plane
	@$(BIN)/python -m tests.control_plane up --kubernetes $(KUBERNETES) --services --dir $${DIR:-$(VENV)/control-plane}

real-cluster: setup  # three real nodes with the images of this checkout; needs root, and the packages of $(NODE_PACKAGES)
	@$(BIN)/python -m tests.real_cluster up --ours --dir $${DIR:-$(VENV)/real-cluster}

node-packages:
	@echo $(NODE_PACKAGES)

test-cluster-short: setup  # what `.ci/run` asks of real nodes
	@PYROCLAST_REAL_CLUSTER=1 $(PYTEST) -p no:xdist --timeout 1800 --durations 0 tests/real_cluster/test_short.py

test-cluster: setup  # on three real nodes: minutes once for programs and images, then cached
	@PYROCLAST_REAL_CLUSTER=1 $(PYTEST) -p no:xdist --timeout 1800 --durations 0 tests/real_cluster

soak: control-plane  # the full counts: hours
	@PYROCLAST_SOAK=1 $(BIN)/python -m pytest -q -m "soak or hypothesis" --timeout 7200 --ignore tests/e2e tests
	@$(BIN)/python -m pytest -q -m soak --timeout 7200 tests/e2e --control-plane=real

generate: setup control-plane  # the checked-in files that are made from code
	@$(BIN)/python -m pyroclast.api.builtin
	@$(BIN)/python -m pyroclast.api.crd_files charts/pyroclast/crd/bases
	@$(BIN)/python -m pyroclast.api.waiting_codes docs/codes.md
	@$(BIN)/python -m tests.unit.chart.health_alerts
	@$(BIN)/python -m pyroclast_admission.policies
	@$(BIN)/python -m tests.unit.chart.values_schema
	@$(BIN)/python -m tests.unit.chart.render
	@$(BIN)/python -m tests.unit.docs.generated

lock:  # what `pyroclast-standalone` needs beside `pyroclast` is pinned there too; a test says when it is not
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-package pyroclast-api --extra notify pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-package pyroclast-api --group dev -c requirements.lock -o requirements-dev.lock
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url --group build -c requirements-dev.lock -o requirements-build.lock

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache site
