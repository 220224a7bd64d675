/* SPDX-License-Identifier: MIT
 *
 * directory: maps numbers to things (lanes), for all schedulers of the process.
 *
 * A call that gets only the number of a lane finds the lane here, and with it the scheduler. A
 * number may be stale: its lane, and even its scheduler, may be gone. So entries are never freed,
 * and each use of an entry has a new generation. There is no lock, so a forked child can use it.
 */
#ifndef UVS__DIRECTORY_H
#define UVS__DIRECTORY_H

#include "port/atomic.h"
#include "port/base.h"

/* Any thread, all. */

/* Gives `thing` a number and one holder. 0, UV_ENOMEM. Numbers are below 2^53, and never 0. */
int uvs__directory_add(void *thing, uint64_t *ret_number);
/* Holds the thing, so that it is not freed. NULL: there is none; *ret_was: there was one. */
void *uvs__directory_hold(uint64_t number, bool *ret_was);
/* Ends one hold. True: it was the last hold of a closed number, and the caller frees the thing. */
bool uvs__directory_drop(uint64_t number);
/* From now on uvs__directory_hold does not find the thing. */
void uvs__directory_close(uint64_t number);

#endif
