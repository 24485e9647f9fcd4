# The project's commands. `make demo` and `make test` need nothing but Python 3.11 or newer: each makes .venv.

PYTHON ?= python3
VENV ?= .venv
DEMO ?= demo-output
DEMO_MODEL ?= demo-model
DEVICE ?= cpu
DTYPE ?= float32
STUDY ?= study-dyck
STUDY_DCF ?= study-dcf
STUDY_CFL ?= study-cfl
STUDY_PTB ?= study-ptb
STUDY_STACK_LM ?= study-stack-lm
STUDY_EFFICIENCY ?= study-efficiency
STUDY_SYNTAX ?= study-syntax
STUDY_FINETUNING ?= study-finetuning
TEXTS ?= $(STUDY_STACK_LM)-sample/train.txt $(STUDY_STACK_LM)-sample/valid.txt $(STUDY_STACK_LM)-sample/test.txt
INSTALL = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests start many processes: what Python compiled for one serves the others.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-model test test-pages quick lint bench docs guide golden sweep soak study-dyck study-dcf study-cfl study-ptb study-stack-lm study-efficiency
.PHONY: study-finetuning study-syntax dist smoke site clean

# The whole pipeline on the bundled data, ending in one table.
demo: $(VENV)/installed
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh examples/demo.sh $(DEMO)

# The models to try (--model demo, --model demo-base): trained, and put where they are installed from.
demo-model: $(VENV)/installed
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh examples/demo-model.sh $(DEMO_MODEL)
	mkdir -p data/models
	rm -rf data/models/demo data/models/demo-base
	cp -R $(DEMO_MODEL)/demo $(DEMO_MODEL)/demo-base data/models/

# What the package does.
test: $(VENV)/installed-dev
	$(VENV)/bin/python -m pytest --numprocesses auto --dist worksteal --ignore tests/studies $(PYTEST_ARGS)

# Scripts of studies, pages and what they print.
test-pages: $(VENV)/installed-dev
	$(VENV)/bin/python -m pytest --numprocesses auto --dist worksteal tests/studies

# What GitHub runs on Linux, macOS and Windows.
quick: $(VENV)/installed-dev
	$(VENV)/bin/python -m pytest --numprocesses auto --dist worksteal @tests/quick.txt

lint: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python packaging/wording.py

# Time and memory on one core, then every score beside the field's own instruments.
bench: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/table.py $(BENCH_ARGS)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/agreement.py --table

# Tables and sentences of docs/ and the notebooks that come from docs/notes/results, and those of the reference that come from
# commands and docstrings; a test says when they are stale (--check).
docs: $(VENV)/installed-dev
	$(VENV)/bin/python studies/pages.py

# What the commands of the guide print, run anew; a test says when a page has something else.
guide: $(VENV)/installed-dev
	$(VENV)/bin/python packaging/guide.py

# The pictures of docs/, from the models of `make demo`; needs a Chromium.
picture: $(VENV)/installed-dev
	$(VENV)/bin/python examples/picture.py "$(DEMO)" docs

# What models give here beside what they gave elsewhere (tests/goldens), then times: make golden DEVICE=cuda [DTYPE=bf16]
golden: $(VENV)/installed-dev
	failed=0; for each in golden attention train_step beam; do \
		$(VENV)/bin/python benchmarks/$$each.py --device $(DEVICE) --dtype $(DTYPE) || failed=1; done; exit $$failed

# How cost grows with length, width and beam; four minutes.
sweep: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/sweep.py > sweep.jsonl
	$(VENV)/bin/python benchmarks/sweep.py --plot sweep.jsonl docs/notes/growth.svg

# Commands killed at random moments and resumed, and readers fuzzed, for SOAK_MINUTES (10).
soak: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/soak.py

# Table 1 of the Pushdown Layers paper: hours on two cores; run again, it resumes.
study-dyck: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh studies/dyck/study.sh "$(STUDY)"

# Tables 1 and 2 of the stack-attention paper at a reduced budget (FULL=1: the paper's); run again, it resumes.
study-dcf: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh studies/dcf/study.sh "$(STUDY_DCF)"

# Figures 1 to 3 of "Learning Hierarchical Structures with Differentiable Nondeterministic Stacks"; FULL=1 for all.
study-cfl: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh studies/cfl/study.sh "$(STUDY_CFL)"

# Tables 1 and 4 of the same paper, on shards of one's own: make study-ptb SHARDS=FOLDER [SUITES=FOLDER]; FULL=1 for all.
study-ptb: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh studies/ptb/study.sh "$(SHARDS)" "$(STUDY_PTB)"

# Table 3 of the stack-attention paper at a reduced budget, on TEXTS="TRAIN VALID TEST"; without, on the bundled sample.
study-stack-lm: $(VENV)/installed-dev $(TEXTS)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh studies/stack-lm/study.sh $(TEXTS) "$(STUDY_STACK_LM)"

# Figure 4 of the Pushdown Layers paper at a reduced budget: make study-efficiency TREES=FOLDER [SUITES=FOLDER]
# [BLIMP=FOLDER]; without TREES, on the bundled sample; FULL=1: the paper's grid; run again, it resumes.
study-efficiency: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh studies/efficiency/study.sh "$(or $(TREES),data/treebank)" "$(STUDY_EFFICIENCY)"

# Table 3 of the Pushdown Layers paper with a small GPT-2 made on the spot, on the subjects of the bundled grammar; TREES=FILES:
# trees whose words that GPT-2 reads too; run again, it resumes. With GPT-2-medium: examples/staged-finetuning.sh.
study-finetuning: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" TREES="$(TREES)" sh studies/finetuning/study.sh "$(STUDY_FINETUNING)"

# Tables 2 and 4 of the Pushdown Layers paper at a reduced budget, every model here on one treebank: make study-syntax
# TREES=FOLDER [SUITES=FOLDER] [BLIMP=FOLDER]; without TREES, on the bundled sample; FULL=1: the paper's; run again, it resumes.
# With BLLIP: examples/bllip.sh.
study-syntax: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh studies/syntax/study.sh "$(or $(TREES),data/treebank)" "$(STUDY_SYNTAX)"

# The words of the sample treebank, a line a sentence.
$(STUDY_STACK_LM)-sample/%.txt: data/treebank/%.mrg | $(VENV)/installed-dev
	@mkdir -p $(@D)
	$(VENV)/bin/pdtools parse $< --from treebank --overwrite --quiet -o $(@D)/$*.trees
	$(VENV)/bin/pdtools tapes $(@D)/$*.trees --tape none --overwrite --quiet -o $(@D)/$*
	$(VENV)/bin/pdtools show $(@D)/$* --words > $@.part
	mv $@.part $@

# The documentation as a site, in site/; a dead link stops it.
site: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build

# The wheel and the source distribution.
dist: $(VENV)/installed-dev
	rm -rf dist
	$(VENV)/bin/python -m build --quiet --outdir dist .

# Both of them, installed in new environments and tried.
smoke: dist
	sh packaging/smoke.sh dist $(PYTHON)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev,docs,parse,stanza,hf,cluster,reading,view,serve]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) $(DEMO) $(DEMO_MODEL) $(STUDY) $(STUDY_DCF) $(STUDY_CFL) $(STUDY_PTB) $(STUDY_STACK_LM) $(STUDY_STACK_LM)-sample $(STUDY_EFFICIENCY) $(STUDY_FINETUNING) $(STUDY_SYNTAX) build *.egg-info
