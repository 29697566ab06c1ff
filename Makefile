# Every target sets up what it needs in .venv and is quick the second time.
PYTHON ?= python3
SOAK_KILLS ?= 1000
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE  # every process would compile the sources again

.PHONY: run play test pytest lint style types reproduce bench soak docs screenshots chromium clean dist release-check

run: .venv/run-ready  ## serve a pool of the built-in log (topics) with its page on localhost
	$(BIN)/nextquery demo --folder pools

play: pools/topics/manifest.json  ## play the closed loop on topics, without the service
	$(BIN)/python examples/play_topics.py pools/topics

pools/topics/manifest.json: | .venv/run-ready
	$(BIN)/nextquery ingest topics --out pools/topics

test: style chromium  ## lint, types, and every test; the types are checked beside the tests
	@$(MAKE) --no-print-directory --jobs 2 types pytest
	@command -v chromium >/dev/null || echo "NOTE: no Chromium here and none could be installed, so the browser tests of the page did NOT run."

# The processes below keep the cores busy; more threads in each would only wait for one another.
pytest: export OPENBLAS_NUM_THREADS := 1
pytest: export OMP_NUM_THREADS := 1
pytest: .venv/ready
	$(BIN)/pytest --numprocesses 3 --dist loadscope --max-worker-restart 1

chromium:  # the browser of the page's tests
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } || \
	  echo "NOTE: no Chromium here and none could be installed: the browser tests of the page will not run."

lint: style types

style: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

reproduce: .venv/ready  ## the paper's numbers, then its whole evaluation on the built-in log
	$(BIN)/python examples/paper_numbers.py
	$(BIN)/nextquery reproduce topics --out runs/topics

bench: .venv/bench-ready  ## speed, beside the peers and the physical floor
	$(BIN)/python -m benchmarks.nearest
	$(BIN)/python -m benchmarks.greedy
	$(BIN)/python -m benchmarks.policies
	$(BIN)/python -m benchmarks.replay_rounds

soak: .venv/ready pools/topics/manifest.json  ## kill the service again and again, attack it, put proxies before it; then every test, also the slow ones, with many more examples of the properties
	$(BIN)/python -m benchmarks.soak_service pools/topics --store sqlite --kills $(SOAK_KILLS)
	$(BIN)/python -m benchmarks.soak_service pools/topics --store postgres --kills $(SOAK_KILLS)
	$(BIN)/python -m benchmarks.attackers pools/topics
	$(BIN)/python -m benchmarks.proxies pools/topics
	$(BIN)/pytest tests -m '' --hypothesis-profile=soak --timeout 0

docs: .venv/docs-ready  ## the documentation, in docs/_site and in the package, so that the service serves it at /docs/
	$(BIN)/python -m docsite --into-package

screenshots: .venv/ready pools/topics/manifest.json chromium  ## remake the pictures in docs/screenshots
	$(BIN)/python -m benchmarks.page pools/topics --out docs/screenshots

dist: .venv/release-ready docs  ## the sdist and the wheel of the last commit, the same bytes every time
	$(BIN)/python -m release.dist

release-check: .venv/release-ready docs  ## build twice, and use the wheel in a clean environment of every Python here
	$(BIN)/python -m release.check $(PYTHONS)

clean:
	rm -rf .venv

# What running needs is a part of what development needs, so either may come first.
.venv/run-ready: pyproject.toml constraints.txt pins/hashes.txt
	$(call install,.[service])
	@touch $@

.venv/ready: pyproject.toml constraints.txt pins/hashes.txt
	$(call install,.[dev])
	@touch $@ .venv/run-ready

.venv/release-ready: pyproject.toml constraints.txt pins/hashes.txt
	$(call install,.[release])
	@touch $@

.venv/bench-ready: .venv/ready
	$(call install,.[dev$(comma)bench])
	@touch $@

.venv/docs-ready: pyproject.toml constraints.txt pins/hashes.txt
	$(call install,.[docs])
	@touch $@

comma := ,

# Install, and compare every file with its recorded hash before anything of it runs.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "nextquery needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --report .venv/installed.json --editable '$(1)'
	@$(PYTHON) -I pins/check_hashes.py .venv/installed.json || { rm -rf .venv; echo ".venv was deleted."; exit 1; }
endef
