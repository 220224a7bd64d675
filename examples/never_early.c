/* SPDX-License-Identifier: MIT
 *
 * Many real timers with random delays, half of them on the pool and half on the loop. Each body
 * reads the nanosecond clock itself: none may start before its deadline.
 *
 *   never_early [how many]     default 100000 */
#include <stdatomic.h>
#include <uvsched.h>

#include "expect.h"

struct shot {
  int64_t due_ns;  /* computed here, not by the scheduler */
  int64_t late_ns; /* below zero: early */
};

static atomic_size_t fired;

static int fire(uvs_run_t *run) {
  struct shot *shot = run->arg;
  shot->late_ns = (int64_t)uv_hrtime() - shot->due_ns;
  atomic_fetch_add(&fired, 1);
  return 0;
}

/* xorshift64: good enough to spread delays, and the same on every machine. */
static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
  struct shot *shots = calloc(n + 1, sizeof *shots);
  int64_t *late_ns = calloc(n + 1, sizeof *late_ns);
  uint64_t random = uv_hrtime() | 1; /* any number but 0 */
  uv_loop_t *loop = uv_default_loop();
  size_t early = 0;
  uvs_task_t t;
  uvs_t *s;

  EXPECT(n > 0 && shots != NULL && late_ns != NULL);
  printf("%zu timers within a second, seed %llu\n", n, (unsigned long long)random);
  EXPECT(uvs_open(loop, NULL, &s) == 0);
  uvs_task_init(&t);
  for (size_t i = 0; i < n; i++) {
    t.work = i % 2 == 0 ? fire : NULL;
    t.after = i % 2 == 0 ? NULL : fire;
    t.arg = &shots[i];
    t.first_ns = (int64_t)(next_random(&random) % (uint64_t)UVS_SEC(1));
    shots[i].due_ns = (int64_t)uv_hrtime() + t.first_ns;
    EXPECT(uvs_submit(s, &t, NULL) == 0);
  }
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);

  for (size_t i = 0; i < n; i++) {
    late_ns[i] = shots[i].late_ns;
    early += late_ns[i] < 0;
  }
  qsort(late_ns, n, sizeof *late_ns, by_value);
  printf("%zu fired, %zu early\n", atomic_load(&fired), early);
  printf("half of them at most %.3f ms late\n", (double)late_ns[n / 2] / 1e6);
  EXPECT(atomic_load(&fired) == n && early == 0);
  free(late_ns);
  free(shots);
  return 0;
}
