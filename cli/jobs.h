/* SPDX-License-Identifier: MIT
 *
 * What the sub-commands of `uvsched jobs` share: an open store to which a command sends one call at
 * a time, and the reading and writing of values. argv[0] of a sub-command is its whole name, such
 * as "jobs put", for cli_usage_error.
 */
#ifndef UVSCHED_CLI_JOBS_H
#define UVSCHED_CLI_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uvsched/jobs_admin.h>

#include "args.h"
#include "commands.h"
#include "instant.h"
#include "text.h"

struct jobs_command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
  const char *help;
};

/* The table of jobs.c finds the commands here, each in the file that is named. */
extern const struct jobs_command jobs_put;
extern const struct jobs_command jobs_ls, jobs_dead, jobs_show; /* jobs_list.c */
extern const struct jobs_command jobs_cancel, jobs_move, jobs_redrive,
    jobs_purge;                                                       /* jobs_alter.c */
extern const struct jobs_command jobs_pause, jobs_resume, jobs_queue; /* jobs_queue.c */
extern const struct jobs_command jobs_stats;
extern const struct jobs_command jobs_cron;
extern const struct jobs_command jobs_run;
extern const struct jobs_command jobs_reshard;

/* libuv aborts when it closes a handle whose descriptor is 0, 1 or 2. If one of these is closed,
 * our files and pipes would get its number. So this function opens /dev/null under each missing
 * number, for reading only: a write to it still fails. Call it before anything is opened. */
void jobs_open_descriptors(void);

/* --------------------------------------------------------------- arguments --- */

/* Reads the arguments; prints the help if it is asked for. Returns true if the command goes on.
 * Otherwise *ret_status is its exit status. `what` says which words there may be, such as "an ID".
 * The command has at most 20 options. */
bool jobs_read_args(const struct jobs_command *command, int argc, char **argv,
                    const struct cli_option *options, size_t n, const char **ret_words,
                    int min_words, int max_words, const char *what, int *ret_status);

/* These functions return false after an error that cli_usage_error has reported to the user. A
 * value that is NULL was not given: *ret is then unchanged. */
bool jobs_read_duration(const char *command, const char *option, const char *value,
                        int64_t *ret_ns);
bool jobs_read_number(const char *command, const char *option, const char *value, int *ret);

/* --in and --at, for a spec. */
bool jobs_read_when(const char *command, const char *in, const char *at, int64_t *ret_delay_ns,
                    int64_t *ret_at_ns);

/* Does the ID have the form QUEUE/REST? */
bool jobs_check_id(const char *command, const char *id);

/* The payload of --payload or --payload-file. *ret_data is to be freed, with free. Returns 0 or an
 * exit status. */
int jobs_read_payload(const char *command, const char *text, const char *file, void **ret_data,
                      size_t *ret_size);

/* ------------------------------------------------------------------- store --- */

struct jobs_store {
  char name[500]; /* to be shown: without the password */
  uv_loop_t loop;
  uvs_t *scheduler;
  uvs_jobs_t *jobs;
  bool answered;
  int status;
};

/* Is this the name of a store in Redis? */
bool jobs_is_redis(const char *name);

/* Checks the name of a store. If `make` is false, the file must exist already, so that a wrong name
 * does not create an empty store. Returns 0, or an exit status after a message to the user. */
int jobs_check_store(const char *command, const char *name, bool make);

/**
 * Check the name that --store gave, and open that store.
 *
 * Returns: 0, or an exit status after a message to the user.
 */
int jobs_open(struct jobs_store *store, const char *command, const char *name, bool make,
              uvs_jobs_event_cb on_event, void *arg);

/* Closes what is open of the store. Returns status. */
int jobs_close(struct jobs_store *store, int status);

/* A callback, whose arg is the store. Other callbacks set `answered` and `status` themselves. */
void jobs_answered(uvs_jobs_t *jobs, int status, void *arg);

/* Runs the loop until the callback of a call has set `answered`. rc: what the call returned. If
 * stderr is a terminal, a long wait prints `doing` and the seconds there. Returns the status of the
 * call. */
int jobs_wait(struct jobs_store *store, int rc, const char *doing);

/* Prints what could not be done, and why. Returns CLI_FAILED. */
int jobs_failed(const struct jobs_store *store, const char *what, int status);

/* ---------------------------------------------------------------- printing --- */

/* "in 47h", "3m ago"; "" if it is more than 1000 days away. */
void jobs_write_distance(int64_t from_ns, int64_t to_ns, char ret[CLI_INSTANT_BYTES]);

/* 2026-11-18T20:00:00Z (in 47h) */
void jobs_print_time(int64_t at_ns, int64_t now_ns);

int64_t jobs_now(void); /* of the wall clock */

/* Members of a JSON object, each with a comma before it. */
void jobs_json_text(const char *name, const char *text); /* NULL: null */
void jobs_json_time(const char *name, int64_t at_ns);    /* 0 or UVS_NEVER: null */
void jobs_json_number(const char *name, int64_t number);

/* Writes text if the bytes are UTF-8, otherwise base64, and adds _base64 to the name. */
void jobs_json_bytes(const char *name, const void *data, size_t size);

#endif
