/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "redis_ns.h"

bool redis_ns_is_built(void) {
  return false;
}

void redis_ns_name(char *name, size_t size) {
  (void)name;
  (void)size;
  abort(); /* nobody asks */
}

void redis_ns_flush(void) {}
