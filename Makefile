# SPDX-License-Identifier: MIT
#
# The short commands. meson builds (`meson setup build && meson test -C build` works as well); this
# file only sees to it that meson and what it needs are there, and remembers the long forms.

PREFIX ?= /usr/local
LIBDIR ?= lib
DESTDIR ?=
# What `make contract` insists on: lines or whole chapters, e.g. REQUIRE='S1-S11 L'.
REQUIRE ?= S F P D T R J L

.PHONY: all test demo bench bench-full install uninstall contract format ci clean

all: build/build.ninja
	@meson compile -C build

# Set-up looks each time (it takes no time when all is there); meson itself sees to changed
# meson.build files.
.PHONY: setup
setup:
	@.ci/setup test

build/build.ninja: | setup
	@meson setup build

test: build/build.ninja
	@meson compile -C build
	@.ci/test build

demo: build/build.ninja
	@meson compile -C build demo
	@build/examples/demo

# uvsched beside others, see bench/README.md: small and quick, or all of it. What is not installed is
# left out; `.ci/setup bench` installs it.
bench: MODE = --quick
bench bench-full: build/build.ninja
	@meson compile -C build bench-uvsched
	@bench/run $(MODE) --json build/bench.json

# What things cost, on this machine: make bench-stats, make bench-dispose.
bench-%: build/build.ninja
	@meson compile -C build $@
	@build/bench/$@

# A build of its own, so that PREFIX never touches the one that is tested. Needs no greatest.
build-install: FORCE
	@.ci/setup
	@test -f $@/build.ninja || meson setup $@ --buildtype=release -Dtests=disabled -Dexamples=disabled
	@meson configure $@ --prefix='$(abspath $(PREFIX))' --libdir='$(LIBDIR)'
	@meson compile -C $@

install: build-install
	@DESTDIR='$(abspath $(DESTDIR))' meson install -C build-install --no-rebuild

# Installs into a scratch folder, and removes elsewhere what arrived there: so it needs no log of
# the installation.
uninstall: build-install
	@rm -rf build-install/listed
	@DESTDIR='$(CURDIR)/build-install/listed' meson install -C build-install --no-rebuild --quiet
	@cd build-install/listed && find . ! -type d | while read -r f; do \
	  echo "removing $(abspath $(DESTDIR))/$${f#./}"; rm -f "$(abspath $(DESTDIR))/$$f"; done
	@rmdir '$(abspath $(DESTDIR))$(abspath $(PREFIX))/include/uvsched' 2>/dev/null || true

contract:
	@.ci/contract $(REQUIRE)

format:
	@.ci/format

ci:
	@.ci/run

# Keeps .deps, so that the next build needs no network.
clean:
	rm -rf build build-*

FORCE:
