/* SPDX-License-Identifier: MIT
 *
 * Zones by name: where they are looked for, which names are refused, what TZ says, one zone for one
 * name, and files that change.
 *
 * No test reads the zones of the system: paths below /etc and /usr lead into a folder of the test.
 */
#include "calendar/zone.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include "calendar/folder.h"
#include "lib/unit.h"

#define I64(EXP, GOT) ASSERT_EQ_FMT((long long)(EXP), (long long)(GOT), "%lld")

static struct folder folder; /* instead of / */
static char why[200];

/* ---- the system, replaced at link time ---- */

static const char *led(const char *path, char room[400]) {
  if (strncmp(path, "/etc/", 5) != 0 && strncmp(path, "/usr/", 5) != 0)
    return path;
  folder_name(&folder, path + 1, room);
  return room;
}

int __real_uv_fs_open(uv_loop_t *, uv_fs_t *, const char *, int, int, uv_fs_cb);
int __wrap_uv_fs_open(uv_loop_t *, uv_fs_t *, const char *, int, int, uv_fs_cb);
int __real_uv_fs_stat(uv_loop_t *, uv_fs_t *, const char *, uv_fs_cb);
int __wrap_uv_fs_stat(uv_loop_t *, uv_fs_t *, const char *, uv_fs_cb);
void *__real_uvs__mem_system(size_t);
void *__wrap_uvs__mem_system(size_t);
int __real_pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
int __wrap_pthread_atfork(void (*)(void), void (*)(void), void (*)(void));

static void (*after_open)(void); /* called once, as if by another thread while this one reads */

int __wrap_uv_fs_open(uv_loop_t *loop, uv_fs_t *req, const char *path, int flags, int mode,
                      uv_fs_cb cb) {
  void (*hook)(void) = after_open;
  char room[400];
  int fd = __real_uv_fs_open(loop, req, led(path, room), flags, mode, cb);

  after_open = NULL;
  if (hook != NULL)
    hook();
  return fd;
}

int __wrap_uv_fs_stat(uv_loop_t *loop, uv_fs_t *req, const char *path, uv_fs_cb cb) {
  char room[400];

  return __real_uv_fs_stat(loop, req, led(path, room), cb);
}

static long allocations_left = -1; /* negative: no allocation fails */
static long allocations;

void *__wrap_uvs__mem_system(size_t size) {
  if (allocations_left == 0)
    return NULL;
  if (allocations_left > 0)
    allocations_left--;
  allocations++;
  return __real_uvs__mem_system(size);
}

static bool atfork_fails;

/* The runtime of ThreadSanitizer calls it too, before instrumented code can run. */
#if UNDER_TSAN && defined(__clang__)
__attribute__((disable_sanitizer_instrumentation))
#endif
int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return atfork_fails ? ENOMEM : __real_pthread_atfork(prepare, parent, child);
}

/* ---- helpers ---- */

static int open_zone(const char *name, struct uvs__zone **ret) {
  why[0] = '\0';
  return uvs__zone_open(name, ret, why, sizeof why);
}

static int32_t offset_of(struct uvs__zone *z) {
  const struct uvs__zone_table *t = uvs__zone_table(z);
  struct uvs__zone_span s;

  uvs__zone_find(t, 0, &s);
  uvs__zone_table_release(t);
  return s.offset_s;
}

/* The offset of the zone in 1970; the code if it cannot be opened. */
static int offset_named(const char *name) {
  struct uvs__zone *z = NULL;
  int rc = open_zone(name, &z);

  if (rc < 0)
    return rc;
  rc = offset_of(z);
  uvs__zone_close(z);
  return rc;
}

/* Files that stay open make it greater. */
static int next_fd(void) {
  int fd = dup(0);

  close(fd);
  return fd;
}

static int offset_with_tz(const char *tz) {
  int rc;

  setenv("TZ", tz, 1);
  rc = offset_named("Local");
  if (rc != offset_named(NULL))
    abort();
  unsetenv("TZ");
  return rc;
}

static void use_tzdir(const char *under) {
  char path[400];

  folder_name(&folder, under, path);
  setenv("TZDIR", path, 1);
}

/* ---- names ---- */

/* The first test: the functions are registered once. */
TEST if_fork_cannot_be_told_of_the_lock_no_zone_is_opened(void) {
  atfork_fails = true;
  ASSERT_RC(UV_ENOMEM, offset_named("UTC"));
  ASSERT(why[0] != '\0');
  atfork_fails = false;
  ASSERT_RC(0, offset_named("UTC"));
  PASS();
}

/* K9 */
TEST utc_needs_no_file(void) {
  static const char *const names[] = {"UTC", "Etc/UTC", "GMT", "Etc/GMT"};

  for (int i = 0; i < 4; i++) {
    struct uvs__zone *z = NULL;

    ASSERT_RC(0, open_zone(names[i], &z));
    ASSERT_STR_EQ(names[i], uvs__zone_name(z));
    I64(0, offset_of(z));
    uvs__zone_close(z);
  }
  uvs__zone_close(NULL);
  PASS();
}

/* K9 */
TEST a_zone_is_found_in_the_usual_folders(void) {
  folder_write_offset(&folder, "usr/share/zoneinfo/Area/One", 100);
  I64(100, offset_named("Area/One"));
  folder_write_offset(&folder, "usr/lib/zoneinfo/Two", 200);
  I64(200, offset_named("Two"));
  ASSERT_RC(UV_ENOENT, offset_named("Area/Two"));
  ASSERT(strstr(why, "there is no zone \"Area/Two\"") != NULL);
  ASSERT_RC(UV_ENOENT, offset_named("Area")); /* a folder */
  PASS();
}

/* K9 */
TEST tzdir_is_the_only_folder_if_it_is_set(void) {
  char long_path[1100];

  folder_write_offset(&folder, "tzdir/Area/One", 111);
  use_tzdir("tzdir");
  I64(111, offset_named("Area/One"));
  ASSERT_RC(UV_ENOENT, offset_named("Two"));
  setenv("TZDIR", "", 1); /* empty is as if it were not set */
  I64(200, offset_named("Two"));
  memset(long_path, 'x', sizeof long_path);
  long_path[sizeof long_path - 1] = '\0';
  setenv("TZDIR", long_path, 1);
  ASSERT_RC(UV_EINVAL, offset_named("Two"));
  ASSERT_STR_EQ("TZDIR is too long", why);
  unsetenv("TZDIR");
  PASS();
}

/* K9 */
TEST names_that_could_lead_elsewhere_are_refused(void) {
  static const char *const names[] = {"",           "/etc/localtime",   "/",          "..",
                                      "../One",     "Area/../Area/One", "Area/..",    ".",
                                      "./Area/One", ".hidden",          "Area/./One", "Area//One",
                                      "Area/",      "Area/One\n",       "\001Area",   "Area/\177"};
  char long_name[300];

  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    ASSERT_EQ_FMTm(names[i], UV_EINVAL, offset_named(names[i]), "%d");
    ASSERT(why[0] != '\0');
  }
  offset_named("/etc/localtime");
  ASSERT(strstr(why, "not by its file") != NULL);
  memset(long_name, 'x', sizeof long_name);
  long_name[256] = '\0';
  ASSERT_RC(UV_EINVAL, offset_named(long_name));
  long_name[255] = '\0';
  ASSERT_RC(UV_ENOENT, offset_named(long_name));
  PASS();
}

/* K9 */
TEST files_that_are_not_zones_are_refused(void) {
  int fd = next_fd();
  char path[400], *large;

  folder_write(&folder, "usr/share/zoneinfo/Text", "# tzdb", 6);
  ASSERT_RC(UV_EINVAL, offset_named("Text"));
  ASSERT(strstr(why, "it is not a time zone file") != NULL);
  folder_write(&folder, "usr/share/zoneinfo/Empty", "", 0);
  ASSERT_RC(UV_EINVAL, offset_named("Empty"));
  large = calloc(1, (1 << 14) + 1);
  folder_write(&folder, "usr/share/zoneinfo/Large", large, (1 << 14) + 1);
  free(large);
  ASSERT_RC(UV_EINVAL, offset_named("Large"));
  ASSERT(strstr(why, "it is too large") != NULL);
  folder_name(&folder, "usr/share/zoneinfo/Pipe", path);
  folder_must(mkfifo(path, 0600) == 0, path);
  ASSERT_RC(UV_ENOENT, offset_named("Pipe")); /* and nobody waits for a writer */
  ASSERT_RC(UV_ENOENT, offset_with_tz(path));
  ASSERT(strstr(why, "it is not a regular file") != NULL);
  folder_must(unlink(path) == 0, path);
  I64(fd, next_fd());
  PASS();
}

/* ---- Local ---- */

/* K9 */
TEST local_is_what_tz_says(void) {
  char path[400], colon[401];

  I64(100, offset_with_tz("Area/One"));
  I64(100, offset_with_tz(":Area/One"));
  I64(3600, offset_with_tz("CET-1CEST,M3.5.0,M10.5.0/3"));
  I64(-5 * 3600, offset_with_tz("EST5"));
  I64(0, offset_with_tz("UTC"));
  I64(0, offset_with_tz(""));
  I64(0, offset_with_tz(":"));
  folder_write_offset(&folder, "elsewhere", 300);
  folder_name(&folder, "elsewhere", path);
  I64(300, offset_with_tz(path));
  snprintf(colon, sizeof colon, ":%s", path);
  I64(300, offset_with_tz(colon));
  folder_write_offset(&folder, "usr/share/zoneinfo/EST5", 77); /* a file comes first */
  I64(77, offset_with_tz("EST5"));
  folder_unlink(&folder, "usr/share/zoneinfo/EST5");
  PASS();
}

/* K9 */
TEST a_tz_that_says_nothing_is_an_error_and_not_utc(void) {
  char long_path[1100];

  ASSERT_RC(UV_ENOENT, offset_with_tz("Area/Two"));
  ASSERT(strstr(why, "TZ: there is no zone \"Area/Two\"") != NULL);
  ASSERT_RC(UV_ENOENT, offset_with_tz(":CET-1"));    /* after a colon there is no rule */
  ASSERT_RC(UV_ENOENT, offset_with_tz("CET-1CEST")); /* without its dates */
  ASSERT(strstr(why, "TZ: \"CET-1CEST\" is neither a zone nor a POSIX rule such as CET-1CEST,M3") !=
         NULL);
  ASSERT_RC(UV_ENOENT, offset_with_tz("EST5EDT"));
  ASSERT_RC(UV_ENOENT, offset_with_tz("/no/such/file"));
  ASSERT_RC(UV_EINVAL, offset_with_tz("../Area/One"));
  ASSERT_RC(UV_EINVAL, offset_with_tz("Text"));
  memset(long_path, '/', sizeof long_path);
  long_path[sizeof long_path - 1] = '\0';
  ASSERT_RC(UV_EINVAL, offset_with_tz(long_path));
  PASS();
}

/* K9 */
TEST without_tz_local_is_etc_localtime_and_else_utc(void) {
  struct uvs__zone *z = NULL;
  uint64_t generation;

  I64(0, offset_named("Local"));
  ASSERT_RC(0, open_zone(NULL, &z));
  ASSERT_STR_EQ("Local", uvs__zone_name(z));
  generation = uvs__zones_refresh();
  folder_write_offset(&folder, "etc/localtime", 500); /* somebody sets the zone of the system */
  ASSERT_U64(generation + 1, uvs__zones_refresh());
  I64(500, offset_of(z));
  folder_write(&folder, "etc/localtime", "?", 1);
  ASSERT_RC(UV_EINVAL, (uvs__zone_close(z), offset_named("Local")));
  folder_unlink(&folder, "etc/localtime");
  PASS();
}

/* ---- one zone for one name ---- */

TEST the_same_name_is_the_same_zone_while_it_is_open(void) {
  struct uvs__zone *a = NULL, *b = NULL, *c = NULL;
  const struct uvs__zone_table *t;
  struct uvs__zone_span s;

  ASSERT_RC(0, open_zone("Area/One", &a));
  ASSERT_RC(0, open_zone("Two", &b));
  ASSERT_RC(0, open_zone("Area/One", &c));
  ASSERT_EQ(a, c);
  ASSERT(a != b);
  t = uvs__zone_table(a);
  uvs__zone_close(a);
  uvs__zone_close(b);
  I64(100, offset_of(c));
  uvs__zone_close(c);
  uvs__zone_find(t, 0, &s); /* a table that is held outlives its zone */
  I64(100, s.offset_s);
  uvs__zone_table_release(t);
  PASS();
}

TEST local_follows_tz_when_it_is_opened_again(void) {
  struct uvs__zone *a = NULL;

  setenv("TZ", "ABC-1", 1);
  ASSERT_RC(0, open_zone("Local", &a));
  setenv("TZ", "ABC-2", 1);
  I64(7200, offset_named("Local"));
  I64(3600, offset_of(a)); /* that which is open stays */
  uvs__zone_close(a);
  unsetenv("TZ");
  ASSERT_RC(0, open_zone("Area/One", &a));
  use_tzdir("tzdir");
  I64(111, offset_named("Area/One"));
  I64(100, offset_of(a));
  uvs__zone_close(a);
  unsetenv("TZDIR");
  PASS();
}

/* ---- refresh ---- */

/* K10 */
TEST a_new_file_gives_another_table(void) {
  uint64_t generation = uvs__zones_refresh();
  const struct uvs__zone_table *old;
  long before;
  struct uvs__zone *z = NULL;
  struct uvs__zone_span s;
  int fd = next_fd();

  use_tzdir("tzdir");
  ASSERT_RC(0, open_zone("Area/One", &z));
  unsetenv("TZDIR"); /* the environment is read by open only */
  before = allocations;
  ASSERT_U64(generation, uvs__zones_refresh());
  I64(before, allocations); /* a file that did not change is not read */
  old = uvs__zone_table(z);
  folder_write_offset(&folder, "tzdir/Area/One", 222);
  I64(111, offset_of(z)); /* not before the refresh */
  ASSERT_U64(generation + 1, uvs__zones_refresh());
  ASSERT_U64(generation + 1, uvs__zones_refresh());
  I64(222, offset_of(z));
  uvs__zone_find(old, 0, &s);
  I64(111, s.offset_s);
  uvs__zone_table_release(old);
  folder_write_offset(&folder, "tzdir/Area/One", 222); /* another file that says the same */
  ASSERT_U64(generation + 1, uvs__zones_refresh());
  I64(222, offset_of(z));
  uvs__zone_close(z);
  I64(fd, next_fd());
  PASS();
}

/* K10 */
TEST a_damaged_or_missing_file_keeps_the_old_table(void) {
  uint64_t generation = uvs__zones_refresh();
  struct uvs__zone *z = NULL;
  int fd = next_fd();

  use_tzdir("tzdir");
  ASSERT_RC(0, open_zone("Area/One", &z));
  folder_write(&folder, "tzdir/Area/One", "TZif2", 5);
  for (int i = 0; i < 3; i++)
    ASSERT_U64(generation, uvs__zones_refresh());
  I64(222, offset_of(z));
  folder_unlink(&folder, "tzdir/Area/One");
  ASSERT_U64(generation, uvs__zones_refresh());
  I64(222, offset_of(z));
  folder_write_offset(&folder, "tzdir/Area/One", 333); /* and it follows again */
  ASSERT_U64(generation + 1, uvs__zones_refresh());
  I64(333, offset_of(z));
  uvs__zone_close(z);
  unsetenv("TZDIR");
  I64(fd, next_fd());
  PASS();
}

static struct uvs__zone *other;

static void open_other(void) {
  folder_must(open_zone("Area/One", &other) == 0, why);
}

/* K11 */
TEST two_threads_that_open_a_zone_at_once_get_the_same(void) {
  struct uvs__zone *z = NULL;

  after_open = open_other;
  ASSERT_RC(0, open_zone("Area/One", &z));
  ASSERT_EQ(other, z);
  uvs__zone_close(other);
  I64(100, offset_of(z));
  uvs__zone_close(z);
  PASS();
}

static void replace_and_refresh(void) {
  folder_write_offset(&folder, "usr/share/zoneinfo/Area/One", 103);
  uvs__zones_refresh();
}

/* K10 */
TEST a_slow_refresh_does_not_undo_a_later_one(void) {
  struct uvs__zone *z = NULL;

  ASSERT_RC(0, open_zone("Area/One", &z));
  folder_write_offset(&folder, "usr/share/zoneinfo/Area/One", 102);
  after_open = replace_and_refresh;
  uvs__zones_refresh();
  I64(103, offset_of(z));
  folder_write_offset(&folder, "usr/share/zoneinfo/Area/One", 100);
  uvs__zones_refresh();
  I64(100, offset_of(z));
  uvs__zone_close(z);
  PASS();
}

/* K10 */
TEST only_the_zone_whose_file_changed_changes(void) {
  uint64_t generation = uvs__zones_refresh();
  struct uvs__zone *one = NULL, *two = NULL, *rule = NULL;

  ASSERT_RC(0, open_zone("Area/One", &one));
  ASSERT_RC(0, open_zone("Two", &two));
  ASSERT_RC(0, open_zone("UTC", &rule));
  folder_write_offset(&folder, "usr/share/zoneinfo/Area/One", 101);
  ASSERT_U64(generation + 1, uvs__zones_refresh());
  I64(101, offset_of(one));
  I64(200, offset_of(two));
  I64(0, offset_of(rule));
  folder_write_offset(&folder, "usr/share/zoneinfo/Area/One", 100);
  folder_write_offset(&folder, "usr/lib/zoneinfo/Two", 201);
  ASSERT_U64(generation + 3, uvs__zones_refresh());
  I64(100, offset_of(one));
  I64(201, offset_of(two));
  uvs__zone_close(one);
  uvs__zone_close(two);
  uvs__zone_close(rule);
  folder_write_offset(&folder, "usr/lib/zoneinfo/Two", 200);
  ASSERT_U64(generation + 3, uvs__zones_refresh()); /* no open zone has this file */
  PASS();
}

/* ---- memory, fork ---- */

TEST every_allocation_that_fails_leaves_nothing_behind(void) {
  struct uvs__zone *z = NULL;
  int fd = next_fd();
  uint64_t generation;
  long n;

  for (n = 0;; n++) {
    int rc;

    allocations_left = n;
    rc = offset_named("Area/One");
    allocations_left = -1;
    if (rc == 100)
      break;
    ASSERT_RC(UV_ENOMEM, rc);
    ASSERT(why[0] != '\0');
  }
  I64(3, n); /* the zone, the bytes, the table */
  ASSERT_RC(0, open_zone("Area/One", &z));
  folder_write_offset(&folder, "usr/share/zoneinfo/Area/One", 99);
  generation = uvs__zones_refresh() - 1;
  folder_write_offset(&folder, "usr/share/zoneinfo/Area/One", 100);
  for (n = 0; offset_of(z) != 100; n++) { /* a refresh that fails is made up for by the next */
    allocations_left = n;
    ASSERT_U64(generation + (n < 2 ? 1 : 2), uvs__zones_refresh());
    allocations_left = -1;
  }
  I64(3, n);
  uvs__zone_close(z);
  I64(fd, next_fd());
  PASS();
}

static _Atomic bool stop;

static void *hold_and_release(void *zone) {
  while (!atomic_load(&stop))
    uvs__zone_table_release(uvs__zone_table(zone));
  return NULL;
}

/* K11. If the other thread had the lock in the moment of the fork, the child would wait for ever.
 */
TEST a_child_can_use_zones_whatever_other_threads_did(void) {
  struct uvs__zone *z = NULL;
  pthread_t thread;

  if (UNDER_TSAN)
    SKIPm("a forked child of a process with threads");
  ASSERT_RC(0, open_zone("Area/One", &z));
  folder_must(pthread_create(&thread, NULL, hold_and_release, z) == 0, "thread");
  for (int i = 0; i < 60; i++) {
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
      alarm(60); /* ends a child that hangs */
      _exit(offset_named("Area/One") == 100 && uvs__zones_refresh() > 0 ? 0 : 1);
    }
    ASSERT(pid > 0);
    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    ASSERT_RC(0, status);
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  uvs__zone_close(z);
  PASS();
}

static void make_folder(void) {
  static const char *const under[] = {"etc",
                                      "usr",
                                      "usr/share",
                                      "usr/share/zoneinfo",
                                      "usr/share/zoneinfo/Area",
                                      "usr/lib",
                                      "usr/lib/zoneinfo",
                                      "tzdir",
                                      "tzdir/Area"};

  unsetenv("TZ");
  unsetenv("TZDIR");
  folder_make(&folder);
  for (size_t i = 0; i < sizeof under / sizeof *under; i++) {
    char path[400];

    folder_name(&folder, under[i], path);
    folder_must(mkdir(path, 0700) == 0, path);
  }
}

static void remove_folder(void) {
  char command[300];

  snprintf(command, sizeof command, "rm -r '%s'", folder.path);
  folder_must(system(command) == 0, command);
}

SUITE(zone) {
  make_folder();
  RUN_TEST(if_fork_cannot_be_told_of_the_lock_no_zone_is_opened);
  RUN_TEST(utc_needs_no_file);
  RUN_TEST(a_zone_is_found_in_the_usual_folders);
  RUN_TEST(tzdir_is_the_only_folder_if_it_is_set);
  RUN_TEST(names_that_could_lead_elsewhere_are_refused);
  RUN_TEST(files_that_are_not_zones_are_refused);
  RUN_TEST(local_is_what_tz_says);
  RUN_TEST(a_tz_that_says_nothing_is_an_error_and_not_utc);
  RUN_TEST(without_tz_local_is_etc_localtime_and_else_utc);
  RUN_TEST(the_same_name_is_the_same_zone_while_it_is_open);
  RUN_TEST(local_follows_tz_when_it_is_opened_again);
  RUN_TEST(a_new_file_gives_another_table);
  RUN_TEST(a_damaged_or_missing_file_keeps_the_old_table);
  RUN_TEST(two_threads_that_open_a_zone_at_once_get_the_same);
  RUN_TEST(a_slow_refresh_does_not_undo_a_later_one);
  RUN_TEST(only_the_zone_whose_file_changed_changes);
  RUN_TEST(every_allocation_that_fails_leaves_nothing_behind);
  RUN_TEST(a_child_can_use_zones_whatever_other_threads_did);
  remove_folder();
}

TEST_MAIN(RUN_SUITE(zone));
