# SPDX-License-Identifier: MIT
#
# Short commands. meson builds (`meson setup build && meson test -C build` works as well). This file
# only checks that meson and its needs are installed, and remembers the long commands.

PREFIX ?= /usr/local
LIBDIR ?= lib
DESTDIR ?=
# The lines that `make contract` requires: single lines or whole chapters, e.g. REQUIRE='S1-S11 L'.
REQUIRE ?= S F P D T R J L K Q X C

.PHONY: all test test-browser demo demo-jobs bench bench-full bench-node bench-calendar bench-jobs bench-amqp proof proof-model soak coverage mutants install uninstall \
  amalgamation symbols docs contract format portability ci clean

all: build/build.ninja
	@meson compile -C build

# .ci/setup runs each time (it takes no time when everything is installed). meson itself notices
# changed meson.build files.
.PHONY: setup with-tests
setup:
	@.ci/setup

# Nothing is fetched here: without greatest the build has no tests, and needs no network.
build/build.ninja: | setup
	@meson setup build --wrap-mode=nodownload

# The same build with tests in it.
with-tests: build/build.ninja
	@.ci/setup test
	@test -d build/test || meson setup --reconfigure build -Dtests=enabled

# Also the tests of the Node package, if node is installed. Some tests wait more than they work, so
# more of them run at once than there are processors.
test: with-tests
	@MESON_TESTTHREADS=$$((2 * $$(getconf _NPROCESSORS_ONLN))) .ci/test --node build

# The console's page in chromium. The two pictures of docs/ are taken again.
test-browser: with-tests
	@.ci/setup browser
	@meson setup --reconfigure build -Dconsole=enabled >/dev/null
	@meson compile -C build console_stage
	@.ci/browser build --images docs/images

# TRACE=FILE also writes what happened, for https://ui.perfetto.dev. CONSOLE=1 also serves a page that
# shows it.
demo: build/build.ninja
	@meson compile -C build demos
	@build/examples/demo $(if $(CONSOLE),--console) $(if $(TRACE),--trace '$(TRACE)')
	@test ! -x build/examples/orders || { echo; build/examples/orders; }

# The second part of `make demo`: orders survive the death of the shop. Needs the jobs library.
demo-jobs: build/build.ninja
	@meson compile -C build orders
	@build/examples/orders

# uvsched compared with other libraries, see bench/README.md: small and quick, or everything.
# Libraries that are not installed are skipped; `.ci/setup bench` installs them.
bench: MODE = --quick
bench bench-full: build/build.ninja
	@meson compile -C build bench-uvsched
	@bench/run $(MODE) --json build/bench.json

# The Node package compared with node's own timers.
bench-node:
	@cd node && { test -d node_modules/node-gyp-build || npm install --omit=dev --ignore-scripts; } && node scripts/gyp.js
	@node --expose-gc bench/node.js

# The next occurrence of a calendar, beside croner's (from npm).
bench-calendar: build/build.ninja
	@meson compile -C build bench-calendar
	@.ci/cron-peers build/cron-peers
	@node bench/calendar.mjs build/bench/bench-calendar build/cron-peers

# Durable jobs: on SQLite, beside the disk's own rate (the files are made in build/, and removed);
# and in Redis, beside BullMQ on the same server. The second needs redis-server, hiredis and node.
bench-jobs: build/build.ninja
	@meson compile -C build bench-jobs
	@build/bench/bench-jobs build
	@if grep -q bench-jobs-redis build/build.ninja; then \
	  .ci/bullmq build/bullmq && meson compile -C build bench-jobs-redis && \
	  bench/jobs-beside --json build/bench-jobs.json --plots bench build/bench/bench-jobs-redis build/bullmq; \
	else echo 'Jobs in Redis are left out: the library was built without hiredis.'; fi

# Delayed messages through the bridge, beside the rate of the broker itself. Starts a RabbitMQ.
bench-amqp: build/build.ninja
	@meson compile -C build bench-amqp
	@cd build && ../bench/amqp bench/bench-amqp

# The flight recorder: what it costs while none is open, and while one is. A minute.
bench-trace: build/build.ninja
	@ninja -C build bench/bench-trace bench/libuvsched-bench.so bench/libuvsched-untraced.so
	@build/bench/bench-trace build/bench

# Costs of single operations on this machine: make bench-stats, make bench-dispose.
bench-%: build/build.ninja
	@meson compile -C build $@
	@build/bench/$@

# All attempts to break the library, about an hour: docs/testing.md. `.ci/proof` is the short form.
proof:
	@.ci/proof long

# One part of it, as .ci/proof calls it: make proof-promela, proof-weave, proof-weave-mutants,
# proof-faults, proof-soak, proof-redis, proof-cluster, proof-bridges.
proof-%: with-tests
	@meson compile -C build $@

# The library compared with a model of it. SEED=n repeats the same programs.
proof-model: STEPS ?= 1e7
proof-model: with-tests
	@meson compile -C build against-model
	@build/test/model/against-model --steps $(STEPS) $(ONE)

# Maximum load for SECONDS, see test/soak/soak.c; then 10^7 tasks at once.
SECONDS ?= 600
soak: with-tests
	@meson compile -C build soak
	@build/test/soak/soak $(SECONDS)
	@build/test/soak/soak pending

# $(call absolute,FOLDER): $(abspath) would read a name with a space as two names.
absolute = $(if $1,$(if $(filter /%,$(firstword $1)),$1,$(CURDIR)/$1))

# A separate build, so that PREFIX never changes the build that is tested. Needs no greatest.
build-install: FORCE
	@.ci/setup
	@test -f $@/build.ninja || meson setup $@ --buildtype=release -Dtests=disabled -Dexamples=disabled
	@meson configure $@ --prefix='$(call absolute,$(PREFIX))' --libdir='$(LIBDIR)'
	@meson compile -C $@

install: build-install
	@DESTDIR='$(call absolute,$(DESTDIR))' meson install -C build-install --no-rebuild

# Installs into a scratch folder and then removes the files found there from the real place, so it
# needs no log of the installation.
uninstall: build-install
	@rm -rf build-install/listed
	@DESTDIR='$(CURDIR)/build-install/listed' meson install -C build-install --no-rebuild --quiet
	@cd build-install/listed && find . ! -type d | while read -r f; do \
	  echo "removing $(call absolute,$(DESTDIR))/$${f#./}"; rm -f "$(call absolute,$(DESTDIR))/$$f"; done
	@cd '$(call absolute,$(DESTDIR))$(call absolute,$(PREFIX))' && \
	  rmdir include/uvsched '$(LIBDIR)/cmake/uvsched' 2>/dev/null || true

# One .c and one .h, in build/amalgamation, for programs that vendor the library.
amalgamation: build/build.ninja
	@meson compile -C build amalgamation

# Debian's lists of what the shared libraries export, after a public function was added.
symbols: build/build.ninja
	@meson compile -C build
	@deploy/symbols build/src/libuvsched.so
	@test ! -e build/src/jobs/libuvsched-jobs.so || deploy/symbols build/src/jobs/libuvsched-jobs.so
	@test ! -e build/src/amqp/libuvsched-amqp.so || deploy/symbols build/src/amqp/libuvsched-amqp.so
	@test ! -e build/src/console/libuvsched-console.so || deploy/symbols build/src/console/libuvsched-console.so

# The reference of the public headers: build/docs/html/index.html.
docs:
	@.ci/setup docs
	@mkdir -p build/docs
	@doxygen docs/Doxyfile

contract:
	@.ci/contract $(REQUIRE)

format:
	@.ci/format

# Coverage: which lines and branches of src/ the tests reach. Mutants: which mistakes in src/ the
# tests notice, see docs/testing-bite.md. N and SEED choose the mistakes.
N ?= 100
SEED ?= 1
coverage:
	@.ci/setup test proof
	@.ci/coverage

# Calls every public function with odd arguments, under the sanitizers. SEED=n repeats the same
# calls.
proof-model proof-entries: ONE = $(if $(filter-out file,$(origin SEED)),--seed $(SEED))
proof-entries: with-tests
	@test -f build-asan/build.ninja || meson setup build-asan -Db_sanitize=address,undefined
	@ninja -C build-asan test/entries # which configures again what is old
	@UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build-asan/test/entries $(ONE)

mutants:
	@.ci/setup test proof
	@test/mutants --n $(N) --seed $(SEED)

# The unit and loop suites on other targets, see docs/platforms.md. Not part of `make ci`: each target
# compiles everything again.
portability:
	@.ci/portability $(TARGETS)

ci:
	@.ci/run

# Keeps .deps and node/node_modules, so that the next build needs no network.
clean:
	rm -rf build build-* node/build

FORCE:
