/* SPDX-License-Identifier: MIT
 *
 * Runs one program on the library and on the model, and compares after each step: answers,
 * callbacks in their order with all that they are given, and all that can be asked.
 *
 * A program is a string of bytes. Those come from a file, from libFuzzer, or from chance; the
 * driver does not care, and every string is a program.
 */
#ifndef TEST_MODEL_DRIVER_H
#define TEST_MODEL_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
  const uint8_t *data; /* NULL: chance, from `state` */
  size_t size, pos;
  uint64_t state;
};

struct driver_result {
  uint64_t steps;  /* that both took */
  uint64_t calls;  /* of the library, those inside callbacks included */
  uint64_t events; /* callbacks that were compared */
  bool differs;
};

/* One program of at most `steps` steps. `trace`: print what it does; the difference is printed in
 * any case. */
struct driver_result driver_run(struct bytes program, uint64_t steps, bool trace);

/* The n-th program of a seed. */
struct bytes driver_program(uint64_t seed, uint64_t n);
uint8_t driver_byte(struct bytes *b);

#endif
