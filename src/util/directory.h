/* SPDX-License-Identifier: MIT
 *
 * directory: from a number to what it names, for all schedulers of the process.
 *
 * Whoever has such a number has no scheduler in hand, so it is found here. A number may be stale,
 * of something that is long gone, and of a scheduler that is: entries are never freed, and each use
 * has a new generation. Nothing here waits, so a forked child can use it.
 */
#ifndef UVS__DIRECTORY_H
#define UVS__DIRECTORY_H

#include "port/atomic.h"
#include "port/base.h"

/* Any thread, all. */

/* `thing` has a number now, and one holder. 0, UV_ENOMEM. Numbers are below 2^53, and never 0. */
int uvs__directory_add(void *thing, uint64_t *ret_number);
/* Hold it, so that it stays. NULL: there is none; *ret_was: there was one. */
void *uvs__directory_hold(uint64_t number, bool *ret_was);
/* Hold no more. True if that was the last, after `close`: then the caller frees the thing. */
bool uvs__directory_drop(uint64_t number);
/* It is not found any more. */
void uvs__directory_close(uint64_t number);

#endif
