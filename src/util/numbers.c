/* SPDX-License-Identifier: MIT */
#include "util/numbers.h"

#include <stdatomic.h>

/* Opening and closing are rare, so these use the strongest memory order. test/weave does not switch
 * threads here. */
static _Atomic uint64_t numbers_in_use[UVS__NUMBERS / 64];
static _Atomic uint32_t last_number;

static uint64_t bit_of(uint32_t number) {
  return UINT64_C(1) << number % 64;
}

uint32_t uvs__number_take(void) {
  for (int i = 1; i < UVS__NUMBERS; i++) {
    uint32_t number = atomic_fetch_add(&last_number, 1) % (UVS__NUMBERS - 1) + 1;

    if ((atomic_fetch_or(&numbers_in_use[number / 64], bit_of(number)) & bit_of(number)) == 0)
      return number;
  }
  return 0;
}

void uvs__number_give(uint32_t number) {
  if (number != 0)
    atomic_fetch_and(&numbers_in_use[number / 64], ~bit_of(number));
}
