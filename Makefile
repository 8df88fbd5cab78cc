# Weft.  `make demo` and `make test` on a fresh machine: each sets up what it needs, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-spark test-long lint proofs docs scripts editor pictures bless clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: $(STAMP) ## make the environment in .venv (does nothing when it is there)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Weft needs Python 3.10 or newer; name one with PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 -m venv does not work here (Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP) ## a small NetNews, six standing queries, six weeks: 75 s the first time, then 15 to 25 s
	$(BIN)/weft demo

test: $(STAMP) ## everything but the long tests
	@$(BIN)/python tests/run.py

test-fast: $(STAMP) ## what needs no Spark
	@$(BIN)/python tests/run.py lint fast examples

test-spark: $(STAMP) ## what needs Spark
	@$(BIN)/python tests/run.py spark scenario

test-long: $(STAMP) ## everything, the long tests too (hours)
	@$(BIN)/python tests/run.py --long

lint: $(STAMP) ## ruff, mypy, import-linter
	@$(BIN)/python tests/run.py lint

proofs: ## check the proofs of the derivation's rules (takes coqc; Debian: apt-get install coq)
	@command -v coqc >/dev/null || { echo "coqc is not installed (Debian: apt-get install --no-install-recommends coq)" >&2; exit 1; }
	@$(MAKE) --no-print-directory -C proofs

docs: $(STAMP) ## the documentation as a site in site/, every link checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "site/index.html"

# The page needs one script, which the wheel contains.  Another version needs its checksum here.
HTMX        := 2.0.11
HTMX_SHA256 := d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717
STATIC      := src/weft/web/static

scripts: ## fetch the script of the page from npm again, and check it (takes npm)
	@command -v npm >/dev/null || { echo "npm is not installed (Debian: apt-get install npm)" >&2; exit 1; }
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT \
	  && npm pack --silent --pack-destination "$$folder" htmx.org@$(HTMX) >/dev/null \
	  && tar -xzf "$$folder/htmx.org-$(HTMX).tgz" -C "$$folder" \
	  && echo "$(HTMX_SHA256)  $$folder/package/dist/htmx.min.js" | sha256sum --check --quiet \
	  && cp "$$folder/package/dist/htmx.min.js" $(STATIC)/htmx.min.js \
	  && cp "$$folder/package/LICENSE" $(STATIC)/htmx.LICENSE && echo "$(STATIC)/htmx.min.js is htmx $(HTMX)"

editor: ## make the bundle of the editor (CodeMirror) from the versions in editor/package.json
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && cp editor/package.json editor/editor.js "$$folder" \
	  && cd "$$folder" && npm install --silent --no-audit --no-fund --no-package-lock --ignore-scripts \
	  && node_modules/.bin/esbuild editor.js --bundle --minify --format=iife --legal-comments=none --log-level=error \
	    --outfile="$(CURDIR)/$(STATIC)/editor.js" \
	  && for each in @codemirror/* @lezer/* @marijn/* crelt style-mod w3c-keyname; do for file in node_modules/$$each/LICENSE; do \
	    package=$${file#node_modules/}; printf '%s\n\n' "$${package%/LICENSE}"; cat "$$file"; printf '\n'; done; done \
	    > "$(CURDIR)/$(STATIC)/editor.LICENSE" && echo "$(STATIC)/editor.js is made from editor/"

pictures: $(STAMP) ## take the pictures of the page again, for docs/images (takes chromium)
	$(BIN)/python tests/pictures.py

bless: $(STAMP) ## rewrite the golden files with what the code gives now
	$(BIN)/python -m pytest tests/golden tests/docs --bless -q

clean: ## remove what can be made again (the environment stays: rm -rf .venv)
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse demo-home mutants
	@$(MAKE) --no-print-directory -C proofs clean
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
