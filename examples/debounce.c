/* SPDX-License-Identifier: MIT
 *
 * A document is saved when nobody has changed it for a while. Each change pushes the save back. If
 * a change comes while a save is already running, another save follows. */
#include <uvsched.h>
#include <uvsched/stats.h>

#include "expect.h"
#include "virtual_time.h"

#define QUIET_NS UVS_MS(300)

struct document {
  uvs_t *scheduler;
  uvs_id_t save;      /* 0, which names no task, until the first change */
  atomic_int version; /* counts changes, in place of a text */
  atomic_int saved;   /* the version on the disk */
  int saves;
  uv_sem_t begun, disk; /* for the check: a save has read the text; it may write it */
};

/* On the pool: saving may take long. */
static int save(uvs_run_t *run) {
  struct document *d = run->arg;
  int version = atomic_load(&d->version);
  uv_sem_post(&d->begun);
  uv_sem_wait(&d->disk);
  atomic_store(&d->saved, version);
  return 0;
}

static void save_done(uvs_t *s, uvs_id_t id, int status, void *arg);

/* On the loop, at each change. */
static int save_soon(struct document *d) {
  int rc = uvs_reschedule(d->scheduler, d->save, QUIET_NS);
  uvs_task_t t;

  if (rc == 0 || rc == UV_EBUSY)
    return 0; /* pushed back; or too late for that, because it is due or running: see save_done */
  uvs_task_init(&t); /* UV_ENOENT: it is over, or there was none yet */
  t.first_ns = QUIET_NS;
  t.work = save;
  t.done = save_done;
  t.arg = d;
  return uvs_submit(d->scheduler, &t, &d->save);
}

/* On the loop, after each save. */
static void save_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct document *d = arg;
  int version = atomic_load(&d->version);
  (void)s, (void)id;
  d->saves++;
  if (status == 0 && atomic_load(&d->saved) != version)
    status = save_soon(d); /* the document was changed during the save */
  if (status != 0)
    fprintf(stderr, "version %d is not saved: %s\n", version, uvs_strerror(status));
}

/* ------------------------------------------------------------------- check --- */

static void change(struct document *d) {
  atomic_fetch_add(&d->version, 1);
  EXPECT(save_soon(d) == 0);
}

static void run_until_saved(struct document *d, int saves) {
  while (d->saves < saves && uv_run(uvs_loop(d->scheduler), UV_RUN_ONCE) != 0)
    ;
  EXPECT(d->saves == saves);
  printf("save %d: version %d of %d\n", saves, atomic_load(&d->saved), atomic_load(&d->version));
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  struct document d = {0};
  uvs_options_t o;
  uvs_counts_t c;
  uvs_t *s;

  uvs_options_init(&o);
  o.clock = virtual_clock;
  EXPECT(uvs_open(loop, &o, &s) == 0);
  d.scheduler = s;
  EXPECT(uv_sem_init(&d.begun, 0) == 0);
  EXPECT(uv_sem_init(&d.disk, 0) == 0);

  /* Ten changes, each before the quiet time is over: nothing is saved meanwhile. */
  for (int i = 0; i < 10; i++) {
    change(&d);
    run_for(s, QUIET_NS - 1);
  }
  EXPECT(d.saves == 0);

  /* One nanosecond more, and the save begins. It cannot be moved any more. */
  run_for(s, 1);
  uv_sem_wait(&d.begun);
  EXPECT(uvs_reschedule(s, d.save, QUIET_NS) == UV_EBUSY);
  change(&d);
  uvs_counts_init(&c);
  EXPECT(uvs_counts(s, &c) == 0);
  EXPECT(c.running == 1 && c.waiting == 0); /* and no second save waits */
  uv_sem_post(&d.disk);
  run_until_saved(&d, 1);
  EXPECT(atomic_load(&d.saved) == 10);

  /* But the change is not lost: there is another save. */
  run_for(s, QUIET_NS);
  uv_sem_post(&d.disk);
  run_until_saved(&d, 2);
  EXPECT(atomic_load(&d.saved) == 11);

  /* When the program ends, it saves now, not after the quiet time: a task that is due survives the
   * shutdown. */
  change(&d);
  EXPECT(uvs_reschedule(s, d.save, 0) == 0);
  EXPECT(uvs_shutdown(s) == 0);
  uv_sem_post(&d.disk);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(atomic_load(&d.saved) == 12);

  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  uv_sem_destroy(&d.begun);
  uv_sem_destroy(&d.disk);
  return 0;
}
