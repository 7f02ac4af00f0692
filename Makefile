# The jobs of this repository. Each target sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export MPLBACKEND := Agg
# Thousands of processes start here, and where that is set each would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: nightly verify verify-deep prove coq ledger joint mutants report test browser bench arena figures gallery notebooks lint clean
.DELETE_ON_ERROR:

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,notebooks]'
	touch $@

verify: $(VENV)/.installed  ## verify every claim at every level; the ledger is build/ledger.json
	$(BIN)/borrow verify

verify-deep: $(VENV)/.installed  ## the same, where simulations on nets see errors of 1e-5
	$(BIN)/borrow verify --deep --ledger build/deep.json

prove: $(VENV)/.installed coq  ## check the Coq proofs of the claims
	$(BIN)/borrow prove

coq:  ## Debian's coq and libcoq-interval, where they may be installed
	@{ command -v coqc >/dev/null && test -e "$$(coqc -where)/user-contrib/Interval/Tactic.vo"; } || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get update -qq && apt-get install -qq -y --no-install-recommends coq libcoq-interval >/dev/null; } || \
	  echo "missing, and cannot be installed from here: apt-get install coq libcoq-interval (8.16)" >&2

ledger: verify  ## write theory/LEDGER.md, the page of all verdicts
	$(BIN)/borrow ledger

joint: $(VENV)/.installed  ## how judges fail together: errors on purpose, and who misses them; writes theory/joint.json
	$(BIN)/python -m theory.joint

report: verify figures  ## write the browsable site build/report/index.html
	$(BIN)/borrow report

browser:  ## Debian's headless browser for the tests of the report (they skip without it)
	@command -v chromedriver >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium chromium-driver >/dev/null; } || \
	  echo "no browser: apt-get install chromium chromium-driver" >&2

test: $(VENV)/.installed  ## run the tests, but for those that take minutes, which make nightly runs
	$(BIN)/python -m pytest -n auto --dist worksteal --benchmark-disable -m "not nightly"

mutants: $(VENV)/.installed  ## how many slips of code in estimators the tests notice; SEED, COUNT and UNDER choose the sample; NEAREST=5 asks five files of tests each, without a map of all
	$(BIN)/python tests/mutants.py --seed $(or $(SEED),$(error SEED: give one, make mutants SEED=7)) --count $(or $(COUNT),300) $(addprefix --under ,$(UNDER)) $(addprefix --nearest ,$(NEAREST))

bench: $(VENV)/.installed  ## measure the kernels against their bare cost and against NumPy
	$(BIN)/python -m pytest tests/bench --benchmark-only --benchmark-group-by=group -o python_files='bench_*.py' -p no:xdist -s

arena: $(VENV)/.installed  ## our defaults beside what others use: runs what is missing, writes tests/bench/ARENA.md; DATA is a folder
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[arena]'
	$(BIN)/python tests/bench/arena.py run $(if $(DATA),--data $(DATA))
	$(BIN)/python tests/bench/arena.py page > ARENA.md~ && mv ARENA.md~ tests/bench/ARENA.md

figures: $(VENV)/.installed  ## draw every theory figure into build/figures
	$(BIN)/borrow figures

notebooks: $(VENV)/.installed  ## execute every notebook from clean and rewrite it with its outputs
	$(BIN)/python notebooks/run.py

WALL := opt_out_regression mr_mtl_tuning noise_estimates bernoulli_private mixture_learning collaboration_region
gallery: $(VENV)/.installed  ## draw the pictures of README.md again
	$(BIN)/borrow figures $(WALL) --format png --dpi 200 --out build/gallery
	cp build/gallery/*.png figures/gallery
	$(BIN)/borrow fit --example --out build/gallery/fit >/dev/null && cp build/gallery/fit/shrinkage.png figures/gallery
	$(BIN)/borrow fit estimators/tables/data/surgical_mortality.csv --client hospital --successes deaths --trials operations \
	  --out build/gallery/hospitals >/dev/null && cp build/gallery/hospitals/shrinkage.png figures/gallery/hospitals.png

nightly: $(VENV)/.installed coq  ## what takes longer than CI may: other seeds, every proof and figure from nothing, controls, notebooks, benchmarks
	$(BIN)/borrow verify --fresh --mc-seed any --ledger build/nightly.json
	$(BIN)/borrow prove --fresh --recheck --attack
	$(BIN)/python -m pytest -n auto --dist worksteal --benchmark-disable -m nightly
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[flower]'
	$(BIN)/python -m pytest tests/estimators/federated/test_flower.py
	$(MAKE) report bench
	$(BIN)/python notebooks/run.py --check

lint: $(VENV)/.installed  ## ruff and pyright
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lint]'
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright

clean:
	rm -rf $(VENV) build
