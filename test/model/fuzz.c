/* SPDX-License-Identifier: MIT
 *
 * fuzz-model: the driver as a libFuzzer target. Its inputs are programs, which against-model
 * --replay can repeat.
 *
 *   fuzz-model -max_total_time=600 CORPUS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

#define STEPS_MOST 2000

static uint64_t steps;

static void print_steps(void) {
  fprintf(stderr, "fuzz-model: %" PRIu64 " steps\n", steps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint8_t nothing;
  struct bytes b = {size == 0 ? &nothing : data, size, 0, 0};

  struct driver_result r = driver_run(b, STEPS_MOST, false);

  if (steps == 0)
    atexit(print_steps);
  steps += r.steps + 1;
  if (r.differs)
    abort();
  return 0;
}
