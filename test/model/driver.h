/* SPDX-License-Identifier: MIT
 *
 * Runs one program on the library and on the model, and compares after each step: answers,
 * callbacks in order with all their arguments, and all queries.
 *
 * A program is a string of bytes from a file, from libFuzzer, or from a random generator. Every
 * string is a valid program.
 */
#ifndef TEST_MODEL_DRIVER_H
#define TEST_MODEL_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
  const uint8_t *data; /* NULL: random bytes from `state` */
  size_t size, pos;
  uint64_t state;
};

struct driver_result {
  uint64_t steps;  /* steps on both sides */
  uint64_t calls;  /* calls of the library, including those in callbacks */
  uint64_t events; /* callbacks that were compared */
  bool differs;
};

/* Runs one program of at most `steps` steps. `trace`: print each step. A difference is always
 * printed. */
struct driver_result driver_run(struct bytes program, uint64_t steps, bool trace);

/* The n-th program of a seed. */
struct bytes driver_program(uint64_t seed, uint64_t n);
uint8_t driver_byte(struct bytes *b);

#endif
