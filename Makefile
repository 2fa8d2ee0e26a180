# Every target sets up what it needs: python3 >= 3.11 with venv, make and git are enough to begin.
# The real Kubernetes binaries (make kube) also need a Go toolchain.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCKED := requirements/dev.txt requirements/runtime.txt
# More workers than cores: the suites with real servers mostly wait. A file is one worker's, so that its servers start
# once, and files that take long start first (tests/harness/tiers.py). One worker runs only files that mostly wait
# (tests/harness/waiting_files.py).
WORKERS ?= 3
WAITING_WORKERS ?= 1
# Where make dist puts the sdist and the wheel.
DIST ?= dist
PYTEST := $(BIN)/pytest -n $(WORKERS) --waiting-workers $(WAITING_WORKERS) --dist loadfile --no-loadscope-reorder
# Nothing is skipped in the full tier: a program that is absent is a failure.
REQUIRED := $(foreach program,KUBE KARPENTER KUEUE HELM NEWEST PROMETHEUS ROOTFS CHROMIUM TMUX,HEADGATE_REQUIRE_$(program)=1)
N ?= 20
SEED ?= 1
# A start that compiles six hundred modules first is not a quick one, and the suites start many processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup up test test-full file-seconds check kube karpenter kueue operators helm newest skew prometheus rootfs chromium tmux pictures \
	chart bench torture mutants dist image lock clean

help:
	@echo 'make up      start a cluster in this process (ARGS="--nodes 10" passes options on)'
	@echo 'make test    run every suite, as before each change (ARGS="-k gates" passes options on)'
	@echo 'make test-quota  run the unit tests of one package, here src/headgate/quota'
	@echo 'make test-full  run every suite with many more random inputs, as before each release'
	@echo 'make file-seconds  measure how long each test file takes, on a quiet machine, for the order of make test'
	@echo 'make check   ruff, mypy, import-linter'
	@echo 'make kube    build the real Kubernetes binaries that the comparison suites need'
	@echo 'make karpenter  build Karpenter and kwok, which the autoscaler suite runs beside them'
	@echo "make kueue   build Kueue's scheduler, whose decisions the parity suite compares with ours"
	@echo 'make operators  build JobSet, KubeRay, the training operator and LWS, the operators of built-in job kinds'
	@echo 'make helm    build Helm, with which the suite of the chart installs it'
	@echo 'make newest  build the newest Kubernetes on which the smoke suite runs'
	@echo 'make skew    build Kubernetes 1.33 to 1.36 and run the smoke suite on each'
	@echo "make prometheus  get Debian's Prometheus, which scrapes Headgate in the suite of observability"
	@echo 'make rootfs  unpack Debian packages, from which the suite of the image builds and runs it (as root)'
	@echo "make chromium  install Debian's Chromium, in which the suite of the page runs (as root)"
	@echo 'make pictures  take the pictures of the page and of headgate top for docs'
	@echo 'make tmux    install tmux, in which the suite of headgate top runs (as root)'
	@echo 'make chart   write the Helm chart, the example rights and deploy/monitoring again, after a change of headgate.install'
	@echo 'make bench   measure'
	@echo 'make torture kill, pause, flip and compact for hours (ARGS="kills --kills 100" for less)'
	@echo 'make mutants PACKAGE=capacity N=20 SEED=1  change one place of a package at a time and run its unit tests'
	@echo 'make dist    build the sdist and the wheel into dist (DIST=FOLDER for another folder)'
	@echo 'make image   build the container image with buildah, podman or docker (IMAGE=NAME BASE=NAME@sha256:DIGEST)'
	@echo 'make lock    compile requirements/*.in into hashed requirements/*.txt'
	@echo 'make clean   remove what the other targets made, except the cache of make kube'

setup: $(READY)

$(READY): $(LOCKED) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Headgate needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || { echo 'making $(VENV)'; $(PYTHON) -m venv $(VENV); }
	@test -x $(BIN)/uv || { echo 'installing uv'; grep -A 40 '^uv==' requirements/dev.txt | sed -n '1p;/^    --hash/p;/^[a-z]/{1!q}' > $(VENV)/uv.txt; $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt; }
	@echo 'installing the locked dependencies'
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(READY)

up: setup
	@$(BIN)/headgate up $(ARGS)

# Two runs: what compares times is alone on the machine. The second one also runs if the first one fails.
test: setup
	@failed=0; $(PYTEST) --measured=without $(ARGS) || failed=1; \
		$(BIN)/pytest --measured=only $(ARGS) || failed=1; exit $$failed

test-full: setup
	@failed=0; $(REQUIRED) $(PYTEST) --tier=full --measured=without $(ARGS) || failed=1; \
		$(REQUIRED) $(BIN)/pytest --tier=full --measured=only $(ARGS) || failed=1; exit $$failed

# The unit tests of one package of src/headgate: make test-quota
test-%: setup
	$(PYTEST) --waiting-workers 0 tests/unit/$* $(ARGS)

file-seconds: setup
	$(PYTEST) --timings tests/file_seconds.json $(ARGS)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

kube:
	@$(PYTHON) tools/kube/build.py kube

karpenter:
	@$(PYTHON) tools/kube/build.py karpenter

operators:
	@$(PYTHON) tools/kube/build.py operators

kueue:
	@$(PYTHON) tools/kube/build.py kueue

helm:
	@$(PYTHON) tools/kube/build.py helm

prometheus:
	@$(PYTHON) tools/prometheus.py

rootfs:
	@$(PYTHON) -m tools.image.rootfs

chromium:
	@command -v chromium || { apt-get update -qq && apt-get install -qq --yes --no-install-recommends chromium fonts-dejavu-core; }

pictures: setup chromium tmux
	@PYTHONPATH=tests $(BIN)/python -m browser.pictures
	@PYTHONPATH=tests $(BIN)/python tools/render_top.py

tmux:
	@command -v tmux || { apt-get update -qq && apt-get install -qq --yes --no-install-recommends tmux; }

newest:
	@$(PYTHON) tools/kube/build.py newest

# Not part of make test, which runs the same suite on the newest version only.
skew: setup kube
	@$(PYTHON) tools/kube/build.py kube-1.33 kube-1.34 kube-1.36
	HEADGATE_REQUIRE_KUBE=1 HEADGATE_REQUIRE_NEWEST=1 $(BIN)/pytest -v --kubernetes=all tests/real/test_smoke.py $(ARGS)

chart: setup
	@$(BIN)/python tools/render_chart.py
	@$(BIN)/python tools/render_rights.py
	@$(BIN)/python tools/render_monitoring.py

bench: setup
	PYTHONPATH=tests $(BIN)/python -m bench $(ARGS)

torture: setup
	PYTHONPATH=tests:. $(BIN)/python -m torture $(ARGS)

mutants: setup
	$(BIN)/python tools/mutants.py $(PACKAGE) --count $(N) --seed $(SEED)

# The wheel is built from the sdist, so that it cannot contain what the sdist lacks.
dist: setup
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir $(DIST)
	@ls $(DIST)/*.whl $(DIST)/*.tar.gz

image:
	@$(PYTHON) -m tools.image.build $(if $(IMAGE),--image $(IMAGE)) $(if $(BASE),--base $(BASE)) \
		$(if $(BUILD_BASE),--build-base $(BUILD_BASE)) $(if $(BUILDER),--builder $(BUILDER)) -- $(ARGS)

lock: setup
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 -o requirements/runtime.txt requirements/runtime.in
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 -o requirements/dev.txt requirements/dev.in
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 -c requirements/dev.txt -o requirements/build.txt requirements/build.in

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
