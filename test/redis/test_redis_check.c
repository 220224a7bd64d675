/* SPDX-License-Identifier: MIT
 *
 * What the settings of a server mean for a store that is being opened.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/alloc.h"
#include "jobs/redis_socket.h"
#include "link_fixture.h"

static char warning[400], text[200];
static struct uvs__redis_found found;

static int check_url(const char *url, int port) {
  struct uvs__redis_options *o;
  char name[300];
  int rc;

  snprintf(name, sizeof name, url, port);
  if (uvs__redis_read_url(name, &o, text, sizeof text) != 0)
    abort();
  text[0] = '\0';
  rc = uvs__redis_check(o, warning, sizeof warning, text, sizeof text, &found);
  uvs__jobs_free(found.map);
  if ((rc == 0) != (text[0] == '\0') || strchr(text, '\n') != NULL || strchr(warning, '\n') != NULL)
    abort();
  uvs__redis_free_options(o);
  return rc;
}

#define HAS(words, line) \
  do { \
    if (strstr(line, words) == NULL) \
      FAILm(line); \
  } while (0)

TEST a_safe_server_is_accepted_without_a_warning(void) {
  struct redis_server *s = redis_server_start(NULL);

  EQ(0, check_url("redis://127.0.0.1:%d?strict=1", s->port));
  ASSERT_STR_EQ("", warning);
  redis_server_stop(s);
  PASS();
}

/* Q65 */
TEST settings_that_lose_jobs_are_warned_of_and_refused_if_strict(void) {
  static const char *const settings[][2] = {
      {"appendonly no", "appendonly is not yes"},
      {"appendfsync everysec", "appendfsync is not always"},
      {"no-appendfsync-on-rewrite yes", "no-appendfsync-on-rewrite is yes"},
  };

  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    struct redis_server *s = redis_server_start(NULL);
    char command[100];

    snprintf(command, sizeof command, "CONFIG SET %s", settings[i][0]);
    redis_ask(s, command);
    EQ(0, check_url("redis://127.0.0.1:%d", s->port));
    HAS(settings[i][1], warning);
    EQ(UV_ENOTSUP, check_url("redis://127.0.0.1:%d?strict=1", s->port));
    HAS(settings[i][1], text);
    redis_server_stop(s);
  }
  PASS();
}

TEST a_check_finds_the_data_and_the_map_of_a_namespace(void) {
  struct redis_server *s = redis_server_start(NULL);

  redis_ask(s, "HSET {uvsched}:meta epoch x");
  redis_ask(s, "SET {mapped}:map text");
  EQ(0, check_url("redis://127.0.0.1:%d?ns=none", s->port));
  ASSERT(!found.data && found.map_size == 0);
  EQ(0, check_url("redis://127.0.0.1:%d", s->port));
  ASSERT(found.data && found.map_size == 0);
  EQ(0, check_url("redis://127.0.0.1:%d?ns=mapped", s->port));
  ASSERT(!found.data && found.map_size == 4);
  redis_server_stop(s);
  PASS();
}

/* Q65 */
TEST a_server_that_evicts_is_refused_always(void) {
  struct redis_server *s = redis_server_start("--maxmemory-policy allkeys-lru");

  EQ(UV_ENOTSUP, check_url("redis://127.0.0.1:%d", s->port));
  HAS("allkeys-lru", text);
  /* also if CONFIG is forbidden, because INFO says it */
  redis_ask(s, "ACL SETUSER u on >p ~* &* +info +client");
  EQ(UV_ENOTSUP, check_url("redis://u:p@127.0.0.1:%d", s->port));
  HAS("allkeys-lru", text);
  redis_server_stop(s);
  PASS();
}

TEST a_user_who_may_not_read_settings_is_warned(void) {
  struct redis_server *s = redis_server_start(NULL);

  redis_ask(s, "ACL SETUSER u on >p ~* &* +info +get");
  EQ(0, check_url("redis://u:p@127.0.0.1:%d", s->port));
  HAS("settings could not be read", warning);
  EQ(UV_ENOTSUP, check_url("redis://u:p@127.0.0.1:%d?strict=1", s->port));
  redis_server_stop(s);
  PASS();
}

/* Q65 */
TEST a_replica_is_refused(void) {
  struct redis_server *s = redis_server_start(NULL), *r = redis_server_start(NULL);

  redis_ask(r, "REPLICAOF 127.0.0.1 %d", s->port);
  EQ(UV_EROFS, check_url("redis://127.0.0.1:%d", r->port));
  HAS("replica", text);
  redis_server_stop(r);
  redis_server_stop(s);
  PASS();
}

TEST missing_replicas_are_warned_of(void) {
  struct redis_server *s = redis_server_start(NULL), *r;

  EQ(0, check_url("redis://127.0.0.1:%d?replicas=1", s->port));
  HAS("1 replicas are wanted, and 0 are connected", warning);
  r = redis_server_start(NULL);
  redis_ask(r, "REPLICAOF 127.0.0.1 %d", s->port);
  while (strstr(redis_ask(s, "INFO replication")->str, "state=online") == NULL)
    uv_sleep(10);
  EQ(0, check_url("redis://127.0.0.1:%d?replicas=1", s->port));
  ASSERT_STR_EQ("", warning);
  EQ(0, check_url("redis://127.0.0.1:%d", s->port));
  HAS("min-replicas-to-write is 0", warning);
  redis_ask(s, "CONFIG SET min-replicas-to-write 1");
  EQ(0, check_url("redis://127.0.0.1:%d", s->port));
  ASSERT_STR_EQ("", warning);
  redis_server_stop(r);
  redis_server_stop(s);
  PASS();
}

TEST a_server_that_cannot_be_reached_is_an_error_in_time(void) {
  struct redis_server *s = redis_server_start("--requirepass secret");
  uint64_t began_ns;

  EQ(UV_ECONNREFUSED, check_url("redis://127.0.0.1:%d", free_port()));
  HAS("refused", text);
  EQ(UV_ENOENT, check_url("redis+unix:///no/such/socket?db=%d", 0));
  EQ(UV_EACCES, check_url("redis://127.0.0.1:%d", s->port));
  HAS("NOAUTH", text);
  EQ(UV_EACCES, check_url("redis://:wrong@127.0.0.1:%d", s->port));
  HAS("WRONGPASS", text);
  EQ(0, check_url("redis://:secret@127.0.0.1:%d", s->port));
  EQ(UV_EIO, check_url("redis://:secret@127.0.0.1:%d/77", s->port));
  HAS("DB index", text);
  redis_server_pause(s);
  began_ns = uv_hrtime();
  EQ(UV_ETIMEDOUT, check_url("redis://:secret@127.0.0.1:%d?timeout=300ms", s->port));
  ASSERT(uv_hrtime() - began_ns >= 300000000);
  HAS("in time", text);
  redis_server_stop(s);
  PASS();
}

/* A server that says what the test wants: its version, for one. */
static int fake_fd;
static const char *fake_info;

static void fake_run(void *arg) {
  char in[1000], out[1000];
  int fd = accept(fake_fd, NULL, NULL);

  (void)arg;
  /* One reply for SETNAME and one for INFO, which come in one piece or in two. */
  if (fd < 0 || read(fd, in, sizeof in) <= 0)
    return;
  snprintf(out, sizeof out, "+OK\r\n$%zu\r\n%s\r\n", strlen(fake_info), fake_info);
  if (write(fd, out, strlen(out)) < 0)
    abort();
  while (read(fd, in, sizeof in) > 0)
    ;
  close(fd);
}

static int check_fake(const char *info) {
  struct sockaddr_in address;
  socklen_t size = sizeof address;
  uv_thread_t thread;
  int rc;

  fake_info = info;
  fake_fd = socket(AF_INET, SOCK_STREAM, 0);
  uv_ip4_addr("127.0.0.1", 0, &address);
  if (bind(fake_fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fake_fd, 1) != 0 ||
      getsockname(fake_fd, (struct sockaddr *)&address, &size) != 0 ||
      uv_thread_create(&thread, fake_run, NULL) != 0)
    abort();
  rc = check_url("redis://127.0.0.1:%d?timeout=300ms", ntohs(address.sin_port));
  uv_thread_join(&thread);
  close(fake_fd);
  return rc;
}

TEST a_server_that_is_too_old_or_none_is_refused(void) {
  EQ(UV_ENOTSUP, check_fake("redis_version:6.2.14\r\nrun_id:x\r\nrole:master\r\n"));
  HAS("6.2.14", text);
  EQ(UV_EAGAIN, check_fake("redis_version:7.0.0\r\nrun_id:x\r\nrole:master\r\nloading:1\r\n"));
  HAS("loading", text);
  EQ(UV_EPROTO, check_fake("hello"));
  HAS("INFO", text);
  EQ(UV_ETIMEDOUT, check_fake("redis_version:7.0.0\r\nrun_id:x\r\nrole:master\r\nloading:0\r\n"));
  PASS();
}

static bool sigpipe_is_blocked(void) {
  sigset_t set;

  pthread_sigmask(SIG_BLOCK, NULL, &set);
  return sigismember(&set, SIGPIPE) == 1;
}

/* libuv does not keep SIGPIPE from ending the process. A check leaves the thread as it was. */
TEST a_write_to_a_closed_connection_does_not_end_the_process(void) {
  struct redis_server *s = redis_server_start(NULL);
  struct link_fixture f;
  sigset_t before;

  ASSERT_FALSE(sigpipe_is_blocked());
  EQ(0, check_url("redis://127.0.0.1:%d", s->port));
  ASSERT_FALSE(sigpipe_is_blocked());
  uvs__redis_block_sigpipe(&before);
  pthread_kill(pthread_self(), SIGPIPE);
  uvs__redis_restore_sigpipe(&before); /* would end the process here */
  ASSERT_FALSE(sigpipe_is_blocked());
  link_init(&f, "redis://127.0.0.1:%d", s->port);
  ASSERT(sigpipe_is_blocked());
  link_close(&f);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  redis_server_stop(s);
  PASS();
}

TEST a_reply_that_repeats_the_password_is_not_shown(void) {
  struct redis_server *s = redis_server_start("--rename-command AUTH other");

  EQ(UV_EACCES, check_url("redis://:secret@127.0.0.1:%d", s->port));
  HAS("AUTH", text);
  ASSERT(strstr(text, "secret") == NULL);
  redis_server_stop(s);
  PASS();
}

SUITE(check) {
  RUN_TEST(a_write_to_a_closed_connection_does_not_end_the_process);
  RUN_TEST(a_safe_server_is_accepted_without_a_warning);
  RUN_TEST(settings_that_lose_jobs_are_warned_of_and_refused_if_strict);
  RUN_TEST(a_check_finds_the_data_and_the_map_of_a_namespace);
  RUN_TEST(a_server_that_evicts_is_refused_always);
  RUN_TEST(a_user_who_may_not_read_settings_is_warned);
  RUN_TEST(a_replica_is_refused);
  RUN_TEST(missing_replicas_are_warned_of);
  RUN_TEST(a_server_that_cannot_be_reached_is_an_error_in_time);
  RUN_TEST(a_server_that_is_too_old_or_none_is_refused);
  RUN_TEST(a_reply_that_repeats_the_password_is_not_shown);
}

TEST_MAIN(redis_server_need(); RUN_SUITE(check));
