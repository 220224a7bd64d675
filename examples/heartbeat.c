/* SPDX-License-Identifier: MIT
 *
 * A thousand heartbeats, one per peer, every second. Jitter spreads them over the second, beats
 * that were missed in a stall are not made up for, and waiting heartbeats do not keep the program
 * alive. */
#include <uvsched.h>

#include "expect.h"
#include "virtual_time.h"

#define PEERS 1000
#define PERIOD_NS UVS_SEC(1)
#define SLOT_NS UVS_MS(100)

struct peer {
  uint64_t beats, missed;
};

static int64_t begin_ns;
static int beats_in_slot[100];

/* A real program sends its packet here. If that fails, it still returns 0, because a failure would
 * end the periodic task. */
static int beat(uvs_run_t *run) {
  struct peer *p = run->arg;
  p->beats++;
  p->missed += run->missed;
  beats_in_slot[(run->start_ns - begin_ns) / SLOT_NS]++;
  return 0;
}

static int start_heartbeat(uvs_t *s, struct peer *p) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = PERIOD_NS;
  t.jitter_ns = PERIOD_NS * 9 / 10;  /* each beat anywhere in the first 0.9 s of its period */
  t.missed_policy = UVS_MISSED_SKIP; /* a beat that was missed is worth nothing now */
  t.flags = UVS_UNREF;               /* while it waits, the program may end */
  t.after = beat;                    /* and no `work`: on the loop, where the sockets are */
  t.arg = p;
  return uvs_submit(s, &t, NULL);
}

/* ------------------------------------------------------------------- check --- */

/* A callback of the program that takes far too long. */
static int hold_up_the_loop(uvs_run_t *run) {
  pass_ns(run->scheduler, UVS_MS(3500));
  return 0;
}

static int end_of_business(uvs_run_t *run) {
  printf("%.1f s: the program has nothing left to do\n", (double)(run->start_ns - begin_ns) / 1e9);
  return 0;
}

static void do_at(uvs_t *s, int64_t delay_ns, uvs_after_cb what) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.first_ns = delay_ns;
  t.after = what;
  EXPECT(uvs_submit(s, &t, NULL) == 0);
}

int main(void) {
  static struct peer peers[PEERS];
  uv_loop_t *loop = uv_default_loop();
  int busiest = 0, beats = 0;
  uvs_options_t o;
  uvs_t *s;

  uvs_options_init(&o);
  o.clock = virtual_clock;
  o.seed = 1; /* the same jitter each time */
  EXPECT(uvs_open(loop, &o, &s) == 0);
  begin_ns = uvs_now(s);
  for (int i = 0; i < PEERS; i++)
    EXPECT(start_heartbeat(s, &peers[i]) == 0);
  do_at(s, UVS_SEC(3), hold_up_the_loop);
  do_at(s, UVS_SEC(10), end_of_business);

  /* The loop ends with the last task that is not unref'd, though a thousand others wait. */
  EXPECT(run_for(s, UVS_MIN(1)) == 0);
  EXPECT(uvs_now(s) - begin_ns == UVS_SEC(10));

  for (size_t i = 0; i < sizeof beats_in_slot / sizeof beats_in_slot[0]; i++) {
    beats += beats_in_slot[i];
    if (beats_in_slot[i] > busiest)
      busiest = beats_in_slot[i];
  }
  printf("%d heartbeats: %d beats, at most %d of them in the same %d ms\n", PEERS, beats, busiest,
         (int)(SLOT_NS / 1000000));
  EXPECT(busiest < PEERS / 5); /* the beats are spread out at first, and after the stall, too */
  for (int i = 0; i < PEERS; i++) {
    EXPECT(peers[i].beats + peers[i].missed == 10); /* ten periods; no point counted twice */
    EXPECT(peers[i].beats == 6);                    /* 0, 1, 2, then the stall, 7, 8, 9 */
  }

  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
