/* SPDX-License-Identifier: MIT
 *
 * How soon an open store notices what another process has done. These bounds do not hold with a
 * replaced clock, so the tests stop the system's clocks and move them by hand.
 */
#include <string.h>
#include <time.h>

#include "engine_fixture.h"
#include "jobs/store.h"

/* ------------------------------------------------------------------ clocks --- */

static _Atomic int64_t now_ns = UVS_SEC(1000), step_ns; /* step_ns: of the wall clock */

uint64_t __wrap_uv_hrtime(void);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

uint64_t __wrap_uv_hrtime(void) {
  return (uint64_t)now_ns;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret) {
  int64_t ns = clock == CLOCK_REALTIME ? VCLOCK_WALL_NS + now_ns + step_ns : now_ns;

  *ret = (struct timespec){.tv_sec = (time_t)(ns / UVS_SEC(1)), .tv_nsec = (long)(ns % UVS_SEC(1))};
  return 0;
}

static void pass(struct engine *f, int64_t ns) {
  now_ns += ns;
  engine_quiesce(f); /* each store looks at the clock */
}

/* ------------------------------------------------------------------ stores --- */

static bool is_blind; /* stores that are opened now do not notice changes */

typedef int opener(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                   size_t size);
opener __real_uvs__memory_open, __real_uvs__sqlite_open;
opener __wrap_uvs__memory_open, __wrap_uvs__sqlite_open;

static bool see_nothing(struct uvs__store *store) {
  (void)store;
  return false;
}

/* One table for each kind of store. It is written once: later, the threads of open stores read it.
 */
static void make_blind(struct uvs__store *store) {
  static struct {
    const struct uvs__store_ops *seeing;
    struct uvs__store_ops blind;
  } kinds[2];
  int i = 0;

  if (!is_blind)
    return;
  while (kinds[i].seeing != NULL && kinds[i].seeing != store->ops)
    i++;
  if (kinds[i].seeing == NULL) {
    kinds[i].seeing = store->ops;
    kinds[i].blind = *store->ops;
    kinds[i].blind.poll = see_nothing;
  }
  store->ops = &kinds[i].blind;
}

int __wrap_uvs__memory_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size) {
  int rc = __real_uvs__memory_open(config, ret, text, size);

  if (rc == 0)
    make_blind(*ret);
  return rc;
}

int __wrap_uvs__sqlite_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size) {
  int rc = __real_uvs__sqlite_open(config, ret, text, size);

  if (rc == 0)
    make_blind(*ret);
  return rc;
}

/* Node 0 has a handler. Node 1 puts. */
static struct engine *start(bool blind) {
  struct engine *f = engine_new();

  is_blind = blind;
  f->real_clock = true;
  engine_open(f);
  engine_open_node(f);
  engine_quiesce(f);
  engine_handle(f, "n", NULL);
  f->to = 1;
  return f;
}

/* ------------------------------------------------------------------- tests --- */

/* Q18 */
TEST a_change_by_another_process_is_noticed_within_250_ms(void) {
  struct engine *f = start(false);

  pass(f, UVS_MS(250));
  EQ(0, engine_put_simple(f, "n", "a", 0));
  pass(f, UVS_MS(249));
  SAYS("", engine_ran(f));
  pass(f, UVS_MS(1));
  SAYS("n/a", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q18 */
TEST each_queue_is_looked_at_every_30_s_although_nothing_was_noticed(void) {
  struct engine *f = start(true);

  EQ(0, engine_put_simple(f, "n", "a", 0));
  pass(f, UVS_SEC(30) - 1);
  SAYS("", engine_ran(f));
  pass(f, 1);
  SAYS("n/a", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q18 */
TEST a_queue_is_asked_every_30_s_although_its_first_job_is_due_much_later(void) {
  struct engine *f = start(true);

  f->to = 0;
  EQ(0, engine_put_simple(f, "n", "far", UVS_DAY(15)));
  f->to = 1;
  EQ(0, engine_put_simple(f, "n", "near", UVS_SEC(1)));
  pass(f, UVS_SEC(30) - 1);
  SAYS("", engine_ran(f));
  pass(f, 1);
  SAYS("n/near", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q19 */
TEST a_clock_that_is_set_is_noticed_within_250_ms(void) {
  struct engine *f = start(true);

  step_ns += UVS_MS(500);
  pass(f, UVS_MS(250)); /* earlier, if the store has something to do */
  SAYS("clock set forward; 1:clock set forward", engine_events(f));
  engine_close(f);
  PASS();
}

SUITE(look) {
  RUN_TEST(a_clock_that_is_set_is_noticed_within_250_ms);
  RUN_TEST(a_change_by_another_process_is_noticed_within_250_ms);
  RUN_TEST(each_queue_is_looked_at_every_30_s_although_nothing_was_noticed);
  RUN_TEST(a_queue_is_asked_every_30_s_although_its_first_job_is_due_much_later);
}

TEST_MAIN(ON_EVERY_LOCAL_STORE(RUN_SUITE(look)));
