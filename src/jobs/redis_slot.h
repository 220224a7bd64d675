/* SPDX-License-Identifier: MIT
 *
 * redis_slot: the slot of a job. A namespace that is divided among several servers has UVS__SLOTS
 * slots; the map (redis_map.h) says which server owns a slot.
 */
#ifndef UVSCHED_JOBS_REDIS_SLOT_H
#define UVSCHED_JOBS_REDIS_SLOT_H

#define UVS__SLOTS 1024

/* Returns CRC16("QUEUE/KEY") % UVS__SLOTS for a job with a unique key, and CRC16("QUEUE/REST") %
 * UVS__SLOTS for a job without one (key NULL). The CRC is that of Redis Cluster (XMODEM). A key
 * "uvs.cron:NAME" has the slot of the cron, which is that of "uvs.cron/NAME": so a cron that skips
 * occurrences while a job runs has its jobs on the server of its tick. */
unsigned uvs__redis_slot(const char *queue, const char *rest, const char *key);

#endif
