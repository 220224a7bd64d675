/* SPDX-License-Identifier: MIT
 *
 * numbers: a number for each scheduler of the process, so that their task ids differ.
 *
 * A number that was given back is used again as late as possible, because there may be stale ids.
 */
#ifndef UVS__NUMBERS_H
#define UVS__NUMBERS_H

#include "port/base.h"

#define UVS__NUMBERS 2048 /* 11 bits */

/* Any thread, without a lock, so also in a forked child. */

/* Returns 1 to UVS__NUMBERS - 1, or 0 if all are in use. Several schedulers may have number 0. */
uint32_t uvs__number_take(void);
void uvs__number_give(uint32_t number);

#endif
