/* SPDX-License-Identifier: MIT
 *
 * Shared by most scenes: a scheduler on the model of a loop, tasks that record what happens to
 * them, and the checks for each task at the end.
 *
 *   static void actor(void *arg) { stage_cancel(arg, 0); }      <- another strand
 *
 *   static void cancel_meets_run(void) {
 *     struct part *a;
 *     stage_open(1);                      <- one pool thread; calm: no preemption
 *     a = stage_part('a');
 *     stage_submit(a);
 *     weave_spawn("actor", actor, a, false);
 *     stage_play();                       <- preemptions until all is quiet, then calm
 *     stage_close();                      <- checks all parts, memory, handles
 *   }
 */
#ifndef WEAVE_STAGE_H
#define WEAVE_STAGE_H

#include "uvsched/control.h"
#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

#include "weave.h"

#define PARTS 8
#define RECEIPTS 4

/* A task, and what has happened to it. */
struct part {
  char name;
  uvs_task_t spec;
  uvs_id_t id;
  bool sent, stays; /* stays: it need not have ended when all is quiet */
  int rc;
  /* What its body does. */
  int ret;           /* answers; UVS_PENDING too */
  uint64_t stops_at; /* the run that answers UVS_STOP; 0: none */
  uint64_t takes_ms; /* lets time pass */
  void (*act)(uvs_run_t *run, struct part *p);
  int64_t not_before_ns; /* must not start before */
  int64_t late_ns;       /* may start so late; 0: at once, when its time has come */
  int after_ret;
  /* What was seen. */
  int runs, afters, dones, status, never_ran;
  int64_t settled_ns; /* a cancel settled it: `done` must come at once */
  int64_t ended_ns;   /* its body has returned */
  int64_t done_ns;    /* `done` was called */
  bool must_not_run;  /* no run may start any more */
  bool forgotten;     /* uvs_forget was called */
  bool inside;        /* its body */
  unsigned order;     /* of its last start among all */
  struct {
    int rc, runs;
    unsigned flags;
  } receipt[RECEIPTS];
  unsigned receipts;
  bool others_cancel; /* a shutdown, a lane, a limit */
};

struct stage {
  uvs_options_t options;
  uvs_hooks_t hooks;
  uvs_t *s;
  bool closed;
  bool terminated;
  int all_came;      /* last calls of never_ran */
  bool on_their_way; /* a strand may hold a record at close */
  unsigned starts;
  unsigned part_count;
  struct part parts[PARTS];
};

extern struct stage stage;

/* stage.options may be changed between stage_init and stage_open_with. */
void stage_init(void);
void stage_open_with(int pool_threads);
void stage_open_again(void);       /* the same where model_reset was called already */
void stage_open(int pool_threads); /* both; one runner per pool thread */

struct part *stage_part(char name); /* a one-shot, now, with work and done */
struct part *stage_loop_part(char name);
void stage_add_after(struct part *p);

/* On any strand. */
void stage_submit(struct part *p);
int stage_cancel(struct part *p, unsigned flags);
void stage_submit_arg(void *part); /* as strands of their own */
void stage_cancel_arg(void *part);
void stage_count_arg(void *nothing);
void stage_shut_down_arg(void *nothing);
void stage_shut_down_now_arg(void *nothing); /* counts the tasks that are handed back */

int stage_reschedule(struct part *p, int64_t delay_ns);
void stage_sleep_ms(uint64_t ms);
void stage_await_run(struct part *p); /* until its body has begun */
void stage_await_id(struct part *p);  /* until its id is known: perhaps before it is accepted */
void stage_check_counts(void);
unsigned stage_waiters(const struct part *p); /* threads that wait for its end */
bool stage_is_awaited(void);                  /* one sleeps until it has terminated */
void stage_runs_are_brief(void);              /* as after many brief runs */

/* Strand 0: allows preemptions and runs the loop until all strands sleep. */
void stage_go(void);
void stage_play(void);
/* All is quiet and calm: check and close. */
void stage_close(void);
/* For a scene that has called uvs_close(stage.s, stage_on_closed): waits until it is closed. */
void stage_on_closed(uvs_t *s);
void stage_await_close(void);
void stage_check(void);
/* stage_close in two parts, for data that outlives the scheduler. */
void stage_close_but_memory(void);
void stage_check_memory(void);

#endif
