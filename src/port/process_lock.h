/* SPDX-License-Identifier: MIT
 *
 * process_lock: the one lock that belongs to the process, not to a scheduler. It protects the time
 * zones (calendar/zone.c). It needs no initialization call.
 */
#ifndef UVS__PROCESS_LOCK_H
#define UVS__PROCESS_LOCK_H

void uvs__process_lock(void);
void uvs__process_unlock(void);
/* Lock held. From now on a thread that forks takes the lock first, and releases it after the fork,
 * in the parent and in the child. So in the child the lock is never held by a thread that does not
 * exist there. 0 or UV_ENOMEM; a second call does nothing. */
int uvs__process_lock_at_fork(void);

#endif
