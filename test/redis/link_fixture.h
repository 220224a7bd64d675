/* SPDX-License-Identifier: MIT
 *
 * For tests of the link: a loop, a link on it, and what its hooks and answers said. The scripts are
 * small ones of the tests.
 */
#ifndef TEST_LINK_FIXTURE_H
#define TEST_LINK_FIXTURE_H

#include "lib/main.h"

#include "jobs/redis.h"
#include "redis_server.h"

#ifndef EQ
#define EQ(EXP, GOT) ASSERT_EQ_FMT((long long)(EXP), (long long)(GOT), "%lld")
#endif

/* The scripts of the tests. */
enum {
  SCRIPT_ECHO = UVS__REDIS_INIT,   /* answers its key and its argument */
  SCRIPT_COUNT = UVS__REDIS_PUT,   /* INCR of its key */
  SCRIPT_READ = UVS__REDIS_CLAIM,  /* GET of its key; runs when the server is full */
  SCRIPT_STORE = UVS__REDIS_SETTLE /* SET of its key to its argument */
};

struct answer {
  int times, status;
  long long number;
  char text[100];    /* a string, or the first one of an array */
  char trouble[200]; /* if it is an error */
  int64_t sent_ns, received_ns;
  struct link_fixture *f;
};

struct link_fixture {
  uv_loop_t loop;
  struct uvs__redis_options *options;
  struct uvs__redis_link *link;
  int ups, downs, subscribed, messages;
  char run_id[64], channel[100], message[100];
  int answers;
  uint64_t turns; /* passes of the loop */
};

/* `url` is a format. */
void link_init(struct link_fixture *f, const char *url, ...);
void link_close(struct link_fixture *f); /* also frees the options and the loop */

void link_turn(struct link_fixture *f);
/* Runs the loop until the condition holds; aborts after a minute. */
#define RUN_UNTIL(f, condition) \
  do { \
    uint64_t until_ = uv_hrtime() + UINT64_C(60000000000); \
    while (!(condition)) { \
      if (uv_hrtime() > until_) \
        FAILm("a minute has passed: " #condition); \
      link_turn(f); \
    } \
  } while (0)
#define LINK_UP(f) RUN_UNTIL(f, (f)->link->is_up)
void link_run_ms(struct link_fixture *f, unsigned ms);

/* Sends; the words are strings behind one another up to NULL. */
void link_send(struct link_fixture *f, struct answer *a, int script, ...);
void link_send_durable(struct link_fixture *f, struct answer *a, int script, ...);
/* Sends, and runs until it is answered. Returns the status. */
int link_ask(struct link_fixture *f, struct answer *a, int script, ...);
/* The same with words of any bytes. */
int link_set(struct link_fixture *f, struct answer *a, int n, const char *const *words,
             const size_t *sizes);

#endif
