/* SPDX-License-Identifier: MIT
 *
 * A parcel goes to a server that is not always reachable. If a try fails or takes too long, another
 * try follows after a wait. Each wait is longer, and after some tries the program gives up. The
 * second example asks a server for its state every minute; after a failure it asks sooner, but not
 * all the time.
 *
 * The check uses a virtual clock, so every instant is exact. */
#include <uvsched.h>
#include <uvsched/settings.h>

#include "expect.h"
#include "virtual_time.h"

#define TRIES 6
#define LIMIT_NS UVS_SEC(3)

/* ----------------------------------------------------------------- a parcel --- */

struct parcel {
  const char *finds;       /* for the check, what each try does: '+' works, '-' fails, '.' hangs */
  uv_sem_t begun;          /* for the check: a try has begun */
  int64_t start_ns[TRIES]; /* of each try */
  int tries, failures;     /* failures: those after which there is another try */
  int over;
  int status; /* of the last try */
};

/* On the pool. A real program connects here, and waits for an answer. Nothing can stop this
 * function from outside, so it checks now and then whether its time limit has passed. */
static int deliver(uvs_run_t *run) {
  struct parcel *p = run->arg;
  char found = p->finds[p->tries];

  p->start_ns[p->tries++] = run->start_ns;
  uv_sem_post(&p->begun);
  while (found == '.' && !uvs_cancelled(run))
    uv_sleep(1);
  return found == '+' ? 0 : UV_ECONNREFUSED; /* ignored if the limit has passed */
}

/* On the loop, after each failed try that another try follows. The scheduler's option on_error. */
static void on_failure(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct parcel *p = arg;
  (void)s, (void)id;
  p->failures++;
  p->status = status;
  printf("  try %d: %s\n", p->tries, uvs_strerror(status));
}

/* On the loop, once: the parcel was delivered (0), or this is how the last try failed. */
static void on_over(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct parcel *p = arg;
  (void)s, (void)id;
  p->over = 1;
  p->status = status;
}

static uvs_task_t task_of(struct parcel *p) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.work = deliver;
  t.done = on_over;
  t.arg = p;
  t.limit.run_ns = LIMIT_NS; /* for each try: a longer one fails with UV_ETIMEDOUT */
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_SEC(1);     /* wait 1 s after the first failure, then 2 s, 4 s, */
  t.retry.max_wait_ns = UVS_SEC(5); /* and never longer than this; */
  t.retry.jitter_percent = 50;      /* minus a random 0 to 50 % */
  t.max_failures = TRIES;           /* consecutive failures end the task */
  return t;
}

/* ------------------------------------------------------------------- a poll --- */

struct peer {
  int up;
  int64_t asked_ns[16];
  int asked, failures;
  uint64_t missed;  /* as run->missed says */
  uint64_t retried; /* the same, as the missed hook says */
};

/* Without `work`, this runs on the loop. If it must wait for the answer, it returns UVS_PENDING,
 * and uvs_finish ends the run. */
static int ask(uvs_run_t *run) {
  struct peer *p = run->arg;
  p->asked_ns[p->asked++] = run->start_ns;
  p->missed += run->missed;
  return p->up ? 0 : UV_ETIMEDOUT;
}

static int poll_every_minute(uvs_t *s, struct peer *p) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MIN(1);
  t.after = ask;
  t.arg = p;
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_SEC(10);
  t.retry.max_wait_ns = UVS_SEC(40); /* less than the period; and max_failures 0: never gives up */
  return uvs_submit(s, &t, NULL);
}

static void on_no_answer(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct peer *p = arg;
  (void)s, (void)id;
  EXPECT(status == UV_ETIMEDOUT);
  p->failures++;
}

static void on_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  struct peer *p = arg;
  (void)s, (void)id;
  p->retried += reason == UVS_LATE_RETRY ? count : 0;
}

/* ------------------------------------------------------------------- check --- */

static uvs_t *open_scheduler(int concurrency, uvs_error_cb error) {
  uvs_options_t o;
  uvs_hooks_t hooks;
  uvs_t *s;

  uvs_hooks_init(&hooks);
  uvs_options_init(&o);
  o.clock = virtual_clock;
  o.seed = 1; /* the same jitter each time */
  o.concurrency = concurrency;
  o.on_error = error;
  hooks.on_missed = on_missed;
  o.hooks = &hooks;
  EXPECT(uvs_open(uv_default_loop(), &o, &s) == 0);
  return s;
}

static void close_scheduler(uvs_t *s) {
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

/* The clock moves to the next deadline, and stays there until the body on the pool has begun. */
static void next_try(uvs_t *s, struct parcel *p) {
  int failures = p->failures;
  char finds = p->finds[p->tries];
  int64_t due_ns;

  EXPECT(uvs_next_due(s, &due_ns) == 0);
  run_for(s, due_ns - uvs_now(s));
  while (uv_sem_trywait(&p->begun) != 0) { /* the runner of the last try may not be back yet */
    uv_run(uvs_loop(s), UV_RUN_NOWAIT);
    uv_sleep(1);
  }
  if (finds == '.') {
    run_for(s, LIMIT_NS - 1);
    EXPECT(p->failures == failures && !p->over);
    run_for(s, 1);
  }
  while (p->failures == failures && !p->over && uv_run(uvs_loop(s), UV_RUN_ONCE) != 0)
    ;
  EXPECT(p->status == (finds == '+' ? 0 : finds == '.' ? UV_ETIMEDOUT : UV_ECONNREFUSED));
}

/* Without jitter: at_s has the second of each try. */
static void check_parcel(const char *finds, const int at_s[]) {
  uvs_t *s = open_scheduler(1, on_failure);
  struct parcel p = {.finds = finds, .status = 1};
  int tries = (int)strlen(finds);
  int64_t begin_ns = uvs_now(s);
  uvs_task_t t = task_of(&p);

  printf("a parcel\n");
  t.retry.jitter_percent = 0;
  EXPECT(uv_sem_init(&p.begun, 0) == 0);
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  while (!p.over)
    next_try(s, &p);
  printf("  try %d: %s\n", tries, p.status == 0 ? "it is there" : uvs_strerror(p.status));
  EXPECT(p.tries == tries && p.failures == tries - 1);
  for (int i = 0; i < tries; i++)
    EXPECT(p.start_ns[i] - begin_ns == UVS_SEC(at_s[i]));
  close_scheduler(s);
  uv_sem_destroy(&p.begun);
}

/* All are refused at the same instant, but their next tries are at different instants. */
static void check_jitter(void) {
  static struct parcel p[100];
  int in_slot[10] = {0};
  uvs_t *s =
      open_scheduler(0, NULL); /* bodies run on the loop, so there is no thread to wait for */
  int64_t begin_ns = uvs_now(s);

  for (int i = 0; i < 100; i++) {
    uvs_task_t t = task_of(&p[i]);
    p[i].finds = "-+";
    EXPECT(uv_sem_init(&p[i].begun, 0) == 0);
    EXPECT(uvs_submit(s, &t, NULL) == 0);
  }
  EXPECT(run_for(s, UVS_MIN(1)) == 0);
  for (int i = 0; i < 100; i++) {
    int64_t wait_ns = p[i].start_ns[1] - begin_ns;

    EXPECT(p[i].tries == 2 && p[i].over && p[i].status == 0);
    EXPECT(wait_ns >= UVS_MS(500) && wait_ns <= UVS_SEC(1));
    in_slot[(wait_ns - UVS_MS(500)) / (UVS_MS(50) + 1)]++;
    uv_sem_destroy(&p[i].begun);
  }
  for (int i = 0; i < 10; i++)
    EXPECT(in_slot[i] < 25);
  close_scheduler(s);
}

/* There is no answer from 2:30 to 5:00. */
static void check_poll(void) {
  static const int at_s[] = {0, 60, 120, 180, 190, 210, 250, 290, 330, 360, 420};
  uvs_t *s = open_scheduler(0, on_no_answer);
  struct peer p = {.up = 1};
  int64_t begin_ns = uvs_now(s);
  int asked = sizeof at_s / sizeof at_s[0];

  EXPECT(poll_every_minute(s, &p) == 0);
  run_for(s, UVS_SEC(150));
  p.up = 0;
  run_for(s, UVS_SEC(150));
  EXPECT(p.failures == 5 && p.missed == 0);
  p.up = 1;
  run_for(s, UVS_SEC(120));
  printf("poll: asked %d times, %d without an answer, %d minutes missed\n", p.asked, p.failures,
         (int)p.missed);
  EXPECT(p.asked == asked && p.failures == 5);
  for (int i = 0; i < asked; i++)
    EXPECT(p.asked_ns[i] - begin_ns == UVS_SEC(at_s[i]));
  EXPECT(p.missed == 2 && p.retried == 2); /* 4:00 and 5:00; the grid has not moved */
  close_scheduler(s);
}

int main(void) {
  check_parcel("+", (int[]){0});
  check_parcel("-.+", (int[]){0, 1, 6});
  check_parcel("------", (int[]){0, 1, 3, 7, 12, 17}); /* there is no seventh try */
  check_parcel("-----.", (int[]){0, 1, 3, 7, 12, 17});
  check_jitter();
  check_poll();
  EXPECT(uv_loop_close(uv_default_loop()) == 0);
  return 0;
}
