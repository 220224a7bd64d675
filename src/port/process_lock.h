/* SPDX-License-Identifier: MIT
 *
 * process_lock: the one lock that belongs to the process, not to a scheduler. It protects the time
 * zones (calendar/zone.c). It needs no initialization call.
 */
#ifndef UVS__PROCESS_LOCK_H
#define UVS__PROCESS_LOCK_H

void uvs__process_lock(void);
void uvs__process_unlock(void);
/* Lock held. From now on each fork first takes the lock, and releases it afterwards in the parent
 * and in the child. Otherwise the child could get a lock that is held by a thread of the parent,
 * for ever. 0 or UV_ENOMEM; a second call does nothing. */
int uvs__process_lock_at_fork(void);

#endif
