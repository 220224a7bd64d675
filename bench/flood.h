/* SPDX-License-Identifier: MIT
 *
 * W11: the cost of the loop's own calls while two other threads submit and cancel. Each of the two
 * threads keeps FLOOD_ARMED tasks armed and replaces the oldest again and again: a pair is one
 * cancel and one submit. All deadlines are far, so no task ever runs. On the loop a uv_timer fires
 * once a millisecond and makes one submit and one cancel. These two calls are timed.
 *
 * Each run checks what it timed: every cancel must report that the task never runs, and at the end
 * the scheduler's counts must match the calls that were made.
 *
 * Included by uvsched.c after peers/uvbench.h. */
#ifndef FLOOD_H
#define FLOOD_H

#define FLOOD_THREADS 2
#define FLOOD_ARMED 64
#define FLOOD_PACE_NS 5000 /* W11b: one pair in 5 us, 200 000 pairs a second */

typedef struct {
  pthread_t th;
  uint64_t seed;
  uint64_t pairs, ns; /* pairs made, and the time they took; read after the join */
} flooder;
static flooder flooders[FLOOD_THREADS];
static int flood_paced, flood_over;
static uint32_t flood_ready; /* threads that have armed their tasks */
static uint64_t flood_t0, flood_last;
static double flood_secs;
static int64_t *flood_calls, *flood_beats; /* ns of the loop's pair; ns that the timer was late */
static uint64_t flood_n, flood_cap;
static uint64_t flood_seed; /* of the loop's own delays */

static int on_far(uvs_run_t *run) {
  (void)run;
  die("w11: a task with a far deadline ran");
  return 0;
}
static uvs_id_t arm_far(uint64_t *seed) { /* 30 .. 89 s: far longer than a run takes */
  uvs_task_t t;
  uvs_id_t id;

  uvs_task_init(&t);
  t.work = on_far;
  t.first_ns = UVS_MS(30000 + below(mix64(seed), 59001));
  submit(&t, &id);
  return id;
}

/* Spins until the next pair is due. A delayed thread does not catch up: the pace is never
 * exceeded. */
static void flood_wait(uint64_t *due) {
  uint64_t now;

  while ((now = now_ns()) < *due) {
  }
  *due = (now - *due > FLOOD_PACE_NS ? now : *due) + FLOOD_PACE_NS;
}
static void *flood_thread(void *a) {
  flooder *f = (flooder *)a;
  uvs_id_t armed[FLOOD_ARMED];
  uint64_t pairs = 0, t0, due;

  for (int i = 0; i < FLOOD_ARMED; i++)
    armed[i] = arm_far(&f->seed);
  __atomic_add_fetch(&flood_ready, 1, __ATOMIC_RELEASE);
  t0 = due = now_ns();
  while (!__atomic_load_n(&flood_over, __ATOMIC_RELAXED)) {
    uvs_id_t *oldest = &armed[pairs % FLOOD_ARMED];

    if (flood_paced)
      flood_wait(&due);
    p_cancel(*oldest);
    *oldest = arm_far(&f->seed);
    pairs++;
  }
  f->pairs = pairs;
  f->ns = now_ns() - t0;
  for (int i = 0; i < FLOOD_ARMED; i++)
    p_cancel(armed[i]);
  return NULL;
}

static void on_flood_beat(uv_timer_t *h) {
  uint64_t now = now_ns(), t0;

  if (flood_last && flood_n < flood_cap) {
    flood_beats[flood_n] = (int64_t)(now - flood_last) - 1000000;
    t0 = now_ns();
    p_cancel(arm_far(&flood_seed));
    flood_calls[flood_n++] = (int64_t)(now_ns() - t0);
  }
  flood_last = now;
  if ((double)(now - flood_t0) >= flood_secs * 1e9) {
    __atomic_store_n(&flood_over, 1, __ATOMIC_RELAXED);
    uv_timer_stop(h);
    p_break();
  }
}

/* All submitted tasks were cancelled, and none has run. */
static void flood_prove(void) {
  uint64_t made = flood_n;
  uvs_counts_t c;

  if (flood_n == 0)
    die("w11: the loop made no call");
  for (int i = 0; i < FLOOD_THREADS; i++) {
    flooder *f = &flooders[i];

    made += FLOOD_ARMED + f->pairs;
    if (f->pairs == 0)
      die("w11: a thread made no pair");
    if (flood_paced && f->pairs > f->ns / FLOOD_PACE_NS + 1)
      die("w11: a thread went faster than its pace");
  }
  c = settled_counts();
  if (c.submitted != made || c.cancelled != made || c.runs != 0)
    die("w11: the counts are not those of the calls");
}

static void flood(int paced, double secs) {
  static uv_timer_t beat_h;

  p_open();
  p_pump();
  flood_paced = paced;
  flood_secs = secs;
  flood_over = 0;
  flood_ready = 0;
  flood_n = flood_last = 0;
  flood_seed = 11;
  flood_cap = (uint64_t)(secs * 1000) + 100;
  flood_calls = (int64_t *)calloc(flood_cap, sizeof *flood_calls);
  flood_beats = (int64_t *)calloc(flood_cap, sizeof *flood_beats);
  for (int i = 0; i < FLOOD_THREADS; i++) {
    flooders[i].seed = 100 + (uint64_t)i;
    pthread_create(&flooders[i].th, NULL, flood_thread, &flooders[i]);
  }
  while (__atomic_load_n(&flood_ready, __ATOMIC_ACQUIRE) < FLOOD_THREADS)
    nap_us(100);
  flood_t0 = now_ns();
  uv_timer_init(L, &beat_h);
  uv_update_time(L);
  uv_timer_start(&beat_h, on_flood_beat, 1, 1);
  p_run();
  for (int i = 0; i < FLOOD_THREADS; i++)
    pthread_join(flooders[i].th, NULL);
  flood_prove();
  uv_close((uv_handle_t *)&beat_h, NULL);
  p_close();
}

static void flood_report(void) {
  double rate = 0; /* of one thread, the mean */

  for (int i = 0; i < FLOOD_THREADS; i++)
    rate += (double)flooders[i].pairs * 1e9 / (double)flooders[i].ns / FLOOD_THREADS;
  qsort(flood_calls, flood_n, sizeof *flood_calls, cmp_i64);
  qsort(flood_beats, flood_n, sizeof *flood_beats, cmp_i64);
  emit("call_p50_us", quantile_us(flood_calls, flood_n, 0.5));
  emit("call_p99_us", quantile_us(flood_calls, flood_n, 0.99));
  emit("call_worst_us", quantile_us(flood_calls, flood_n, 1));
  emit("beat_p99_us", quantile_us(flood_beats, flood_n, 0.99));
  emit("pairs_per_s", rate);
}
#endif
