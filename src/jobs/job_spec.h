/* SPDX-License-Identifier: MIT
 *
 * job_spec: checks the arguments of calls, and turns a spec into a record for a store.
 */
#ifndef UVSCHED_JOBS_JOB_SPEC_H
#define UVSCHED_JOBS_JOB_SPEC_H

#include "jobs/store.h"

#define UVS__REST_MAX 96

/* Makes ids that sort by the time at which they were made. */
struct uvs__id_maker {
  int64_t last_ms;
  uint8_t random[10];
};

/* Writes 26 characters and a zero byte: 10 for the time, 16 that are random. Returns 0, or the
 * error of the system's random numbers. */
int uvs__make_id(struct uvs__id_maker *m, int64_t wall_ns, char ret[27]);

/* `what` names the thing in the text: "name", "queue". Returns 0, or UV_EINVAL with a text. */
int uvs__check_name(const char *what, const char *name, char *text, size_t size);

/* Names that begin with "uvs." belong to the library: UVS__CRON_QUEUE. */
bool uvs__is_reserved(const char *name);

/* Splits "QUEUE/REST". Returns UV_EINVAL if id is not the id of a job of the user. The tick of a
 * cron is none: if it could be cancelled, the cron would never make a job again. */
int uvs__split_id(const char *id, char ret_queue[UVS_JOB_NAME_MAX + 1], const char **ret_rest);

/* Is delay_ns or at_ns a time that stores can keep? 0 or UV_EINVAL with a text. */
int uvs__check_when(int64_t delay_ns, int64_t at_ns, char *text, size_t size);
struct uvs__when uvs__to_when(int64_t delay_ns, int64_t at_ns);

/* As uvs_job_check, but payloads have at most max_payload bytes. */
int uvs__check_job_spec(const uvs_job_spec_t *spec, size_t max_payload, char *text, size_t size);

/* Copies a checked spec into the arena. `rest` is used if the spec has no id. False: no memory. */
bool uvs__copy_spec(const uvs_job_spec_t *spec, const char *rest, struct uvs__arena *a,
                    struct uvs__record *ret);

/* Reads the struct of a caller whose header may be older or newer. UV_EINVAL: no size. */
int uvs__read_job_spec(const uvs_job_spec_t *from, uvs_job_spec_t *ret);

#endif
