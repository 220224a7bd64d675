/* SPDX-License-Identifier: MIT
 *
 * check: the whole invariant of a scheduler, for test builds (UVS__CHECKS).
 */
#ifndef LIB_CHECK_H
#define LIB_CHECK_H

#include "core/scheduler.h"

/* Lock held. Aborts if the invariant does not hold. */
void uvs__check_now(uvs_t *s);

#endif
