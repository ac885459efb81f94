# What a person or a machine does with this project, by name; `make help` lists it.
#
#   PYTHON=python3.12   another interpreter (it gets an environment of its own)
#   ARGS='-k queue'     more arguments for pytest

PYTHON ?= python3
VENV ?= $(if $(filter python3,$(PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
FRAMEWORKS := $(VENV)-frameworks
ARGS ?=
REQUIREMENTS := pyproject.toml constraints.txt scripts/install
LAB := $(wildcard $(addprefix jupyter_ext/labextension/,*.json yarn.lock src/*.ts src/*/*.ts style/* schema/*) \
	$(addprefix magics/submarine_magics/card/,*.js *.css))
JLPM = cd jupyter_ext/labextension && PATH=$(abspath $(BIN)):$$PATH jlpm
# The versions that are pinned; tests run on the first one, and some of them on each of the others.
KUBERNETES := 1.36.3 1.34.4
PYTEST = $(BIN)/python -m pytest --dist loadgroup --durations 20
# Tests mostly wait, for jobs and clusters: with two processes a core, the others go on meanwhile.
# Those of `make check` wait little, and each process spends eight seconds on finding the tests.
WAITING = --numprocesses $$((2 * $$(nproc)))
COMPUTING = --numprocesses $$((1 + $$(nproc)))
TOGETHER = $(MAKE) --no-print-directory --jobs --keep-going

# Compiled once instead of in each process of each job, whatever the surroundings say.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo check test test-long test-delays lint typescript docs format bench examples pictures constraints clean
.PHONY: pytest-check pytest-test pytest-long pytest-kubernetes pytest-frameworks services kubernetes

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## set up, then run examples/quickstart.ipynb as a notebook runs: logs, card, result
	$(BIN)/python scripts/run_notebook.py examples/quickstart.ipynb
	@echo 'In JupyterLab: $(BIN)/jupyter lab examples/quickstart.ipynb'

check: $(VENV)/.dev $(VENV)/.lab ## two minutes: lint, types, and the tests that need no service and no job but the contract's
	$(TOGETHER) lint typescript docs pytest-check

test: $(VENV)/.dev $(VENV)/.lab $(VENV)/.kerberos ## set up, then check every promise once (chromium and Maven are installed where they are missing)
	$(TOGETHER) lint typescript docs pytest-test

test-long: $(VENV)/.dev $(VENV)/.lab $(VENV)/.kerberos ## all of that, and kills of every daemon, every Python, packaging, examples of every framework
	$(BIN)/python -m tests.flows.airflow_site
	$(BIN)/python -m tests.hub.hub_site
	$(TOGETHER) lint typescript docs pytest-long
	$(MAKE) --no-print-directory pytest-frameworks

# Who is delayed sleeps: more of them go side by side.
test-delays: UNDER = scripts/delayed $(VENV)
test-delays: WAITING = --numprocesses $$((4 * $$(nproc)))
test-delays: pytest-test ## the tests of make test, each process delayed now and then: finds those that are green by luck

lint: $(VENV)/.dev $(VENV)/.lab ## format, style, strict types and who imports whom; changes nothing
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(JLPM) lint

typescript: $(VENV)/.lab
	$(JLPM) test

docs: $(VENV)/.dev ## the docs and the API as pages, in dist/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

pytest-check: $(VENV)/.compiled
	$(PYTEST) $(COMPUTING) -m "not service and not jobs and not long" $(ARGS)

pytest-test: services $(VENV)/.compiled
	$(UNDER) $(PYTEST) $(WAITING) -m "not long" $(ARGS)

pytest-long: services $(VENV)/.compiled
	$(MAKE) --no-print-directory kubernetes
	$(PYTEST) $(WAITING) --hypothesis-profile explore $(ARGS)
	$(MAKE) --no-print-directory pytest-kubernetes

# On the other versions of Kubernetes: that their daemons take what they are told, and their API and
# kubelets what jobs ask of them. What images cannot be pulled is containerd's to say, and takes
# minutes. One process: each test needs the one cluster.
pytest-kubernetes: kubernetes
	for version in $(wordlist 2,9,$(KUBERNETES)); do \
		SUBMARINE_TEST_KUBERNETES=$$version $(BIN)/python -m pytest --durations 20 \
			tests/kubernetes/test_kubernetes_cluster.py tests/kubernetes/test_kubernetes_role.py \
			-k "not an_image" || exit 1; \
	done

# In an environment of its own, which has the frameworks; one process: each of them fills a machine.
pytest-frameworks: $(FRAMEWORKS)/.frameworks
	scripts/require mvn=maven
	$(FRAMEWORKS)/bin/python -m pytest --durations 20 tests/notebooks/test_frameworks.py tests/notebooks/test_framework_reruns.py tests/notebooks/test_framework_trials.py tests/notebooks/test_distributed.py tests/serving/test_framework_models.py \
		tests/yarn/kills/test_yarn_kills_trainings.py

services: $(VENV)/.dev $(VENV)/.lab $(VENV)/.kerberos
	scripts/require chromium mvn=maven slurmctld=slurm-wlm munged=munge
	$(BIN)/python -m submarine_engine.installer
	$(BIN)/python tests/zeppelin/server.py

kubernetes: $(VENV)/.dev ## what `submarine cluster up kubernetes` needs: packages, and Kubernetes built by Go
	scripts/require etcd=etcd-server containerd runc containernetworking-plugins
	nice $(BIN)/python -m submarine_engine.installer kubernetes $(KUBERNETES)

format: $(VENV)/.dev ## format the code and mend what can be mended by rule
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	$(JLPM) format

bench: $(VENV)/.dev ## measure against plain Python and submitit, in one run; print one table
	$(BIN)/python -m bench

examples: $(VENV)/.dev ## run the examples and keep their outputs in the notebooks
	$(BIN)/python scripts/run_notebook.py --save $(filter-out examples/yarn.ipynb,$(wildcard examples/*.ipynb))
	$(BIN)/python scripts/run_notebook.py --save --yarn examples/yarn.ipynb

pictures: $(VENV)/.dev ## take the pictures of the docs anew, in a real JupyterLab
	scripts/require chromium mvn=maven
	$(BIN)/python scripts/take_pictures.py

constraints: $(VENV)/.dev ## pin the newest versions that go together
	scripts/constraints $(BIN)

clean: ## remove environments, builds and caches
	rm -rf .venv .venv-* dist build jupyter_ext/labextension/dist jupyter_ext/labextension/lib .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.demo: $(REQUIREMENTS)
	scripts/install $(VENV) $(PYTHON) demo
	scripts/labextension $(VENV)
	touch $@

# Kerberos' Python packages are built here, and a secure cluster has a KDC of its own. The compiler
# need not make them quick: that takes it a third of the time. Installed before anything else runs:
# the environment is in use then, and two apt-get do not run side by side.
$(VENV)/.kerberos: $(VENV)/.dev
	scripts/require krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc
	CFLAGS="-O0 -g0" EXTRAS=kerberos scripts/install $(VENV) $(PYTHON) test
	touch $@

$(VENV)/.lab: $(VENV)/.dev $(LAB)
	scripts/labextension $(VENV)
	touch $@

# pytest compiles tests in a way of its own: the first time here, instead of in each of its processes.
$(VENV)/.compiled: $(VENV)/.dev
	-$(BIN)/python -m pytest --collect-only --quiet --quiet > /dev/null
	touch $@

$(FRAMEWORKS)/.frameworks: pyproject.toml constraints-frameworks.txt scripts/install
	CONSTRAINTS=constraints-frameworks.txt scripts/install $(FRAMEWORKS) $(PYTHON) test frameworks
	touch $@

$(VENV)/.dev: $(REQUIREMENTS)
	EXTRAS=kubernetes scripts/install $(VENV) $(PYTHON) demo test lint docs bench
	touch $@
