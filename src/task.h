/* SPDX-License-Identifier: MIT
 *
 * task: the record of a task, and the word that says what it is.
 *
 * One atomic 64-bit word per slot holds state, flags, outcome, the task's constants and its
 * generation. It alone says what a task is and who may touch which field; lists never do. Every
 * change is a CAS of the whole word (uvs__word_try), so a stale generation always fails.
 * docs/state-word.md tells the full story: who may make which move.
 */
#ifndef UVS__TASK_H
#define UVS__TASK_H

#include "uvsched.h"

#include "atomic.h"
#include "base.h"
#include "heap.h"

#define UVS__BIT(n) (UINT64_C(1) << (n))

enum uvs__state {
  UVS__FREE = 0, /* in the slab */
  UVS__WAITING,  /* accepted, the next run is not due: in the inbox, in the delay queue, or in a
                    mover's hand */
  UVS__READY,    /* due: on the ready list, or on the loop's due list (ONLOOP) */
  UVS__RUNNING,  /* the body runs, or is pending, or `after` is still to come */
  UVS__ENDED,    /* no run will start or is running; `done` is still to come */
  UVS__OVER,     /* `done` has returned; the outcome is kept, or a mover or waiter holds the slot */
  UVS__STATES
};

#define UVS__STATE_MASK UINT64_C(7)
#define UVS__INBOX \
  UVS__BIT( \
      3) /* linked through `next` on a list that travels to the loop; only the loop clears it */
#define UVS__MOVING UVS__BIT(4)    /* a rescheduler off the loop owns `deadline_ns` */
#define UVS__TOKEN UVS__BIT(5)     /* the running body is asked to stop */
#define UVS__CANCELLED UVS__BIT(6) /* the outcome is decided: cancelled */
#define UVS__PENDING UVS__BIT(7)   /* the body returned UVS_PENDING */
#define UVS__FINISHED \
  UVS__BIT(8) /* uvs_finish came; who sets the second of these two ends the run */
#define UVS__LISTED \
  UVS__BIT(9) /* READY since; still set in ENDED, so that the loop knows where it is linked */
#define UVS__ONLOOP UVS__BIT(10)    /* this run belongs to the loop thread */
#define UVS__TAKEN UVS__BIT(11)     /* the loop has taken it in */
#define UVS__NEVER_RAN UVS__BIT(12) /* ended by uvs_shutdown_now before its first run */
#define UVS__STOPPED UVS__BIT(13)   /* the run ended with UVS_STOP */
#define UVS__REF UVS__BIT(14)       /* keeps the loop alive */
/* Constants of the task. */
#define UVS__LOOP UVS__BIT(15)      /* `fn` is `after`: never leaves the loop */
#define UVS__HAS_AFTER UVS__BIT(16) /* `work` and `after` */
#define UVS__HAS_DONE UVS__BIT(17)
#define UVS__CLEANUP UVS__BIT(19) /* clean-up actions wait for its end */
#define UVS__KIND_SHIFT 20        /* 2 bits */
#define UVS__KIND_MASK (UINT64_C(3) << UVS__KIND_SHIFT)
#define UVS__WALL \
  UVS__KIND_MASK               /* the kind of a one-shot whose deadline_ns is of the wall clock \
                                */
#define UVS__KEEP UVS__BIT(22) /* its outcome is kept until uvs_forget */
#define UVS__FORGOTTEN UVS__BIT(23) /* uvs_forget was called */
#define UVS__STATUS_SHIFT 24        /* 12 bits: minus the status of the run that ended */
#define UVS__STATUS_MASK (UINT64_C(0xfff) << UVS__STATUS_SHIFT)
#define UVS__LATE UVS__BIT(18) /* the outcome is decided: the time limit's */
/* Of an ENDED task: it never ran, is on its way to the loop, and counts as dead. Of a WAITING one
 * that is not TAKEN: somebody has to go for it. */
#define UVS__DEAD UVS__BIT(36)
#define UVS__PUSHES UVS__DEAD
#define UVS__GENERATION_SHIFT 37
#ifndef UVS__GENERATION_BITS
#define UVS__GENERATION_BITS 27 /* a test build has 3 */
#endif
#define UVS__GENERATION_MAX (UVS__BIT(UVS__GENERATION_BITS) - 1)

/* What one run leaves behind and the next must not find. */
#define UVS__RUN_BITS \
  (UVS__TOKEN | UVS__PENDING | UVS__FINISHED | UVS__STOPPED | UVS__LISTED | UVS__ONLOOP | \
   UVS__STATUS_MASK)

static inline enum uvs__state uvs__word_state(uint64_t w) {
  return (enum uvs__state)(w & UVS__STATE_MASK);
}

static inline uint64_t uvs__word_in(uint64_t w, enum uvs__state state) {
  return (w & ~UVS__STATE_MASK) | (uint64_t)state;
}

static inline bool uvs__is_wall(uint64_t w) {
  return (w & UVS__KIND_MASK) == UVS__WALL;
}

static inline int uvs__word_kind(uint64_t w) {
  return uvs__is_wall(w) ? UVS_ONCE : (int)(w >> UVS__KIND_SHIFT & 3);
}

static inline uint64_t uvs__word_generation(uint64_t w) {
  return w >> UVS__GENERATION_SHIFT;
}

/* How a run ended, as its body said it: 0, UVS_STOP, or a negative code. */
static inline uint64_t uvs__word_with_status(uint64_t w, int status) {
  w &= ~(UVS__STATUS_MASK | UVS__STOPPED);
  if (status == UVS_STOP)
    return w | UVS__STOPPED;
  return w | (uint64_t)(-status) << UVS__STATUS_SHIFT;
}

static inline int uvs__word_status(uint64_t w) {
  if ((w & UVS__STOPPED) != 0)
    return UVS_STOP;
  return -(int)((w & UVS__STATUS_MASK) >> UVS__STATUS_SHIFT);
}

/* What a body returned, as a status that the word can hold. UVS_PENDING is not for here. */
static inline int uvs__status_of(int returned) {
  if (returned == 0 || returned == UVS_STOP)
    return returned;
  if (returned > 0)
    return UV_EINVAL;
  return returned < -0xfff ? UV_UNKNOWN : returned;
}

struct uvs__slot { /* 64 bytes, aligned 64 */
  _Atomic uint64_t word;
  _Atomic uint64_t deadline_ns; /* the next run is due: ideal time plus jitter */
  _Atomic uint64_t period_ns;   /* ONCE: from READY on, when it was made so */
  _Atomic(uvs_work_cb) fn;      /* `work`, or `after` of a LOOP task */
  _Atomic(void *) arg;
  uvs_done_cb done;
  _Atomic uint64_t
      seq_cold; /* sequence << 26 | cold record's index + 1, 0 if none. The sequence is given by the
                   loop when it first takes the task in, and kept over runs */
  _Atomic uint32_t next; /* inbox, chain, to-do list: who turned INBOX 0 -> 1 writes it. From READY
                            on, if there is no cold record: see uvs__late_pack */
  _Atomic uint32_t runs; /* started; saturates */
};

/* The run in progress, or the last one. RUNNING: its runner's. */
struct uvs__record {
  int64_t ideal_ns, start_ns, end_ns;
  uint64_t missed; /* as the body sees it */
  uint64_t merged; /* points after `ideal` that it stands for as well */
  int runner;
  int failure;    /* how it failed, or 0 */
  int seen;       /* the failure that somebody was told of, or 0: `after`, or the error hook */
  bool timed_out; /* it passed its limit */
};

/* What one-shots of the plain kind do without. In a slab of its own; reserved at submit. Constant
 * where nothing is said; "as deadline_ns": written by whom that field belongs to. */
struct uvs__cold {
  /* What the start and the end of each run look at; and all that the end of a task which never ran
   * does. One cache line. */
  _Atomic(struct uvs__lane *) lane; /* NULL: none. Atomic: a stale id may look */
  uint64_t limit_ns;                /* UVS__NEVER: none */
  uint64_t limit_due_ns; /* of this run; written by the loop as it becomes READY; UVS__NEVER */
  /* News for the hooks; as deadline_ns, until told on the loop. */
  uint64_t missed_count; /* points of the grid without a run */
  int failed_news;       /* a run failed, and the task goes on */
  uint8_t missed_reason; /* UVS_LATE_... */
  bool news_listed;      /* on the to-do list, to be told; the loop's */
  _Atomic uint8_t class; /* UVS__HIGH ...; atomic: a stale id may look */
  bool narrow;           /* its callbacks do not get to see the scheduler: it came in by its lane */
  uint32_t pins;         /* threads that wait for it; under the pool's lock */
  uint32_t max_runs;
  uint32_t max_burst;
  uint8_t policy;   /* UVS_MISSED_... */
  uint8_t failure;  /* UVS_FAIL_... */
  bool limit_final; /* no run would follow one that passes its limit; the loop's */
  /* The body has disposed its own lane: no token for it. Atomic: who disposes and who asks for the
   * token may be two threads of one body. */
  _Atomic bool spared;
  _Atomic uint32_t failures; /* in a row; RUNNING */

  /* When next, and how it became READY: another line. */
  uint64_t until_ns;
  uint64_t jitter_ns;
  _Atomic uint64_t jitter_now_ns; /* part of deadline_ns, and owned as that is */
  union {
    uint64_t missed_next; /* for the next run to learn of; as deadline_ns */
    uint64_t
        wall_late_ns; /* one-shots of the wall clock; written by the loop as it becomes READY */
  };
  uint64_t turn_ns, ready_ns; /* written by the loop as it becomes READY; src/late.h */
  uint64_t after_ns;          /* `after` of the run before was called; 0: there is none */
  uint64_t since_ns; /* submitted, or the run before was over: no run could start earlier */

  /* The run: two more. */
  struct uvs__record run;
  union {
    uint64_t grid_ns; /* the point of the grid that is being retried; as deadline_ns */
    uint64_t step_ns; /* as wall_late_ns */
  };
  _Atomic int64_t late_by_ns[UVS_LATE_CAUSES]; /* of the last run; for uvs_info, too */

  /* What few tasks have. */
  uvs_after_cb after;          /* when `work` exists too */
  uvs_decoration_t decoration; /* what runs, where there is a decorate hook; set on the loop */
  void *result;                /* of the task; under the pool's lock once it has ended */
  void *run_result;            /* what this run has set; counts if the run does */
  void *limit_result;
  int limit_status;
  uint32_t max_failures;
  uint64_t retry_ns, retry_max_ns;
  uint8_t retry_jitter;
  _Atomic uint64_t missed_total;
  _Atomic uint64_t
      name[(UVS_NAME_MAX + 1) / 8]; /* atomic: uvs_info may read it while the slot is reused */
};

#define UVS__COLD_SIZE 384
_Static_assert(sizeof(struct uvs__slot) == 64, "a slot is one cache line");
_Static_assert(sizeof(struct uvs__cold) <= UVS__COLD_SIZE, "a cold record is six");
_Static_assert(offsetof(struct uvs__cold, until_ns) == 64 &&
                   offsetof(struct uvs__cold, run) == 128 &&
                   offsetof(struct uvs__cold, late_by_ns) == 192,
               "each part has its line");
_Static_assert((UVS_NAME_MAX + 1) % 8 == 0, "a name is whole words");
_Static_assert(UVS__GENERATION_SHIFT + 27 == 64, "the generation is at the top");

#define UVS__TO(state) (1u << (state))

/* The legal moves. */
static inline bool uvs__word_legal(uint64_t from, uint64_t to) {
  static const uint8_t allowed[UVS__STATE_MASK + 1] = {
      [UVS__FREE] = UVS__TO(UVS__WAITING) | UVS__TO(UVS__ENDED), /* accepted; and dropped */
      /* moved; due; cancelled; cancelled, and nobody hears of it */
      [UVS__WAITING] =
          UVS__TO(UVS__WAITING) | UVS__TO(UVS__READY) | UVS__TO(UVS__ENDED) | UVS__TO(UVS__FREE),
      /* to the loop; taken by a runner; cancelled; moved before its submitter could run it */
      [UVS__READY] =
          UVS__TO(UVS__READY) | UVS__TO(UVS__RUNNING) | UVS__TO(UVS__ENDED) | UVS__TO(UVS__WAITING),
      /* cancelled, pending; next period; last run; a light one's last run */
      [UVS__RUNNING] =
          UVS__TO(UVS__RUNNING) | UVS__TO(UVS__WAITING) | UVS__TO(UVS__ENDED) | UVS__TO(UVS__FREE),
      [UVS__ENDED] = UVS__TO(UVS__ENDED) | UVS__TO(UVS__OVER) | UVS__TO(UVS__FREE), /* `done` has
                                                                                       returned */
      [UVS__OVER] = UVS__TO(UVS__OVER) | UVS__TO(UVS__FREE),
  };

  if ((allowed[from & UVS__STATE_MASK] & UVS__TO(uvs__word_state(to))) == 0)
    return false;
  if ((from & ~to & (UVS__CANCELLED | UVS__LATE)) != 0 && uvs__word_state(to) != UVS__FREE)
    return false; /* an outcome, once decided, stays */
  if (uvs__word_state(to) == UVS__READY && (to & (UVS__INBOX | UVS__MOVING)) != 0)
    return false; /* what is ready is on no list that travels, and in nobody's hand */
  return true;
}

/* One move: CAS of the word from *w to `to`, which must be legal. On failure *w is what is there
 * now. acq_rel: releases the fields that the mover wrote to the next who moves, acquires those of
 * the one before. */
static inline bool uvs__word_try(struct uvs__slot *t, uint64_t *w, uint64_t to) {
  UVS_ASSERT(uvs__word_legal(*w, to));
  return uvs__cas(&t->word, w, to, acq_rel);
}

/* The same under the pool's lock. */
static inline bool uvs__word_try_locked(struct uvs__slot *t, uint64_t *w, uint64_t to) {
  UVS_ASSERT(uvs__word_legal(*w, to));
  return uvs__locked_cas(&t->word, w, to, acq_rel);
}

/* The outcome is final: becomes true once, and never false again (F1). */
static inline bool uvs__settled(uint64_t w) {
  return uvs__word_state(w) >= UVS__ENDED || (w & (UVS__CANCELLED | UVS__LATE)) != 0;
}

/* No run is in progress, and nothing but `done` will touch `arg`. */
static inline bool uvs__quiet(uint64_t w) {
  return uvs__word_state(w) >= UVS__ENDED;
}

/* How the task ended: 0, a failure, or UV_ECANCELED. */
static inline int uvs__outcome_status(uint64_t w) {
  int status = uvs__word_status(w);

  if ((w & UVS__CANCELLED) != 0)
    return UV_ECANCELED;
  return status == UVS_STOP ? 0 : status;
}

/* A one-shot of whose end nobody hears: who runs it retires it. */
static inline bool uvs__is_light(uint64_t w, const struct uvs__cold *c) {
  return c == NULL && uvs__word_kind(w) == UVS_ONCE && (w & (UVS__HAS_DONE | UVS__CLEANUP)) == 0;
}

/* Its next, or present, run is a retry. For whom the fields belong to. */
static inline bool uvs__retrying(const struct uvs__cold *c) {
  return c->failure == UVS_FAIL_RETRY && uvs__load(&c->failures, relaxed) > 0;
}

#endif
