/* SPDX-License-Identifier: MIT
 *
 * backoff: how long to wait before the next try. Pure: no clock, no task. The
 * caller gives the random number.
 */
#ifndef UVS__BACKOFF_H
#define UVS__BACKOFF_H

#include "port/base.h"

/* After so many failures in a row (1 and up): first_ns, doubled with each further one, at most
 * max_ns; minus a random 0 to `jitter` percent. */
uint64_t uvs__backoff(uint64_t first_ns, uint64_t max_ns, uint32_t jitter, uint32_t failures,
                      uint64_t random);

#endif
