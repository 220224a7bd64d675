/* SPDX-License-Identifier: MIT
 *
 * promise: runs a script on a SQLite store on the disk of power_disk.h, remembers what the store
 * has acknowledged, and checks that the store keeps it.
 */
#ifndef TEST_JOBS_PROMISE_H
#define TEST_JOBS_PROMISE_H

#include "scratch.h"
#include "script.h"

struct promise {
  struct script *script;
  struct uvs__store *store; /* NULL: not open */
  char file[SCRATCH_PATH];
  unsigned durable;            /* so many steps must not be lost any more */
  bool put[SCRIPT_JOBS];       /* the put was answered */
  bool may_end[SCRIPT_JOBS];   /* something was asked for that may end it */
  bool cancelled[SCRIPT_JOBS]; /* the cancel was answered */
  char why[300];               /* what went wrong */
};

/* With an empty disk. */
void promise_make(struct promise *p, uint64_t seed);
void promise_free(struct promise *p);

int promise_open(struct promise *p); /* the store's answer; its text is in why */
void promise_close(struct promise *p);

/* Runs n steps of the script as a batch. */
void promise_run(struct promise *p, unsigned first, unsigned n);

/* The file, by SQLite's own check. The store is not open. */
bool promise_is_sound(struct promise *p);
/* Each acknowledged job that nothing may have ended is there with its payload. No cancelled job is
 * there. The store is open. */
bool promise_is_kept(struct promise *p);

#endif
