# Two commands do everything: `make run` and `make test`. Each makes an environment of its own and
# installs into it only when pyproject.toml or constraints.txt changed (a stamp by hash).
PYTHON ?= python3
SUM = cat pyproject.toml constraints.txt Makefile scripts/system-packages | sha256sum | cut -c1-16

.PHONY: run test clean

run:
	@scripts/environment .venv "$$($(SUM))" "$(PYTHON)" .
	@.venv/bin/anyrig doctor

test:
	@scripts/system-packages
	@scripts/environment .venv-test "$$($(SUM))" "$(PYTHON)" '.[torch,webgpu,test]'
	@PATH="$(CURDIR)/.venv-test/bin:$$PATH" scripts/check

clean:
	rm -rf .venv .venv-test
