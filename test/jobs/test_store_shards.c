/* SPDX-License-Identifier: MIT
 *
 * What only a store on several Redis servers does.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/redis_shards.h"
#include "redis/redis_server.h"
#include "redis_ns.h"
#include "store_fixture.h"

#define MANY 60

static char rests[MANY][20];

static const char *rest_of(int i) {
  snprintf(rests[i], sizeof rests[i], "job-%d", i);
  return rests[i];
}

static struct uvs__shards *shards_of(const struct store_fixture *f) {
  return (struct uvs__shards *)(void *)f->first;
}

/* The index of the server that owns this slot. */
static int owner_of(const struct store_fixture *f, unsigned slot) {
  const char *name = uvs__shard_of(shards_of(f), slot)->name;
  int i = 0;

  while (strstr(name, redis_ns_server(i)->socket) == NULL)
    i++;
  return i;
}

static const char *ns_of(const struct store_fixture *f) {
  static char ns[20];

  snprintf(ns, sizeof ns, "%s", strstr(f->name, "?ns=") + 4);
  *strchr(ns, '&') = '\0';
  return ns;
}

/* Is the job of queue "q" on this server? */
static bool is_on(const struct store_fixture *f, int server, const char *rest) {
  return redis_ask_number(redis_ns_server(server), "HEXISTS {%s}:job:q %s", ns_of(f), rest) == 1;
}

/* --------------------------------------------------------------------- jobs --- */

TEST jobs_are_on_the_servers_that_own_their_slots(void) {
  struct store_fixture f;
  int on[3] = {0};

  store_init(&f);
  for (int i = 0; i < MANY; i++)
    EQ(0, store_put_simple(&f, "q", rest_of(i)));
  for (int i = 0; i < MANY; i++) {
    int owner = owner_of(&f, uvs__redis_slot("q", rests[i], NULL));

    ASSERT(is_on(&f, owner, rests[i]));
    on[owner]++;
  }
  ASSERT(on[0] > 0 && on[1] > 0 && on[2] > 0);
  EQ(MANY, store_count(&f, "q")->pending);
  store_list_state(&f, 0);
  store_claim(&f, "q", 1000);
  EQ(MANY, f.n_claimed);
  for (size_t i = 0; i < MANY; i++)
    EQ(0, store_ack(&f, i));
  EQ(0, store_count(&f, "q") == NULL ? 0 : store_count(&f, "q")->pending);
  store_close(&f);
  PASS();
}

/* Q67 */
TEST a_job_with_a_key_is_found_by_its_key_and_by_its_id(void) {
  struct store_fixture f;
  int elsewhere = 0;

  store_init(&f);
  for (int i = 0; i < MANY; i++) {
    char key[20], other[20];
    int owner;

    snprintf(key, sizeof key, "key-%d", i);
    snprintf(other, sizeof other, "other-%d", i);
    EQ(0, store_put_key(&f, rest_of(i), key, UVS_KEY_KEEP));
    EQ(UVS_JOB_EXISTS, store_put_key(&f, other, key, UVS_KEY_KEEP));
    SAYS(rests[i], f.there);
    owner = owner_of(&f, uvs__redis_slot("q", rests[i], key));
    ASSERT(is_on(&f, owner, rests[i]));
    elsewhere += owner != owner_of(&f, uvs__redis_slot("q", rests[i], NULL));
    EQ(0, store_get(&f, "q", rests[i]));
    EQ(0, store_move(&f, "q", rests[i], after_us(SEC)));
    if (i % 2 == 0)
      EQ(0, store_cancel(&f, "q", rests[i]));
  }
  ASSERT(elsewhere > 0); /* not where the id's slot is */
  EQ(MANY / 2, store_count(&f, "q")->pending);
  EQ(UV_ENOENT, store_get(&f, "q", "no-such-job"));
  EQ(UV_ENOENT, store_cancel(&f, "q", "no-such-job"));
  store_close(&f);
  PASS();
}

TEST jobs_that_a_job_puts_are_on_its_server_or_on_that_of_their_slot(void) {
  struct store_fixture f;
  struct uvs__put puts[3] = {{.status = 0}};
  struct uvs__settle s;
  const char *queue = "q";

  store_init(&f);
  for (int i = 0; i < 12; i++) {
    char made[20], given[20], keyed[20], key[20];
    int server;

    snprintf(made, sizeof made, "made-%d", i);
    snprintf(given, sizeof given, "given-%d", i);
    snprintf(keyed, sizeof keyed, "keyed-%d", i);
    snprintf(key, sizeof key, "key-%d", i);
    EQ(0, store_put_simple(&f, queue, rest_of(i)));
    SAYS(rests[i], store_claim(&f, queue, 1));
    server = owner_of(&f, uvs__redis_slot(queue, rests[i], NULL));
    memset(puts, 0, sizeof puts);
    for (int j = 0; j < 3; j++)
      puts[j].job = store_job(queue, j == 0 ? made : j == 1 ? given : keyed);
    for (int j = 0; j < 3; j++)
      puts[j].job.due = after_us(SEC);
    puts[0].job.made = true;
    puts[2].job.key = key;
    s = store_settlement(&f, 0, UVS__ACK);
    s.puts = puts;
    s.n_puts = 3;
    EQ(0, store_settle(&f, &s));
    for (int j = 0; j < 3; j++)
      EQ(0, puts[j].status);
    ASSERT(is_on(&f, server, made));
    ASSERT(is_on(&f, owner_of(&f, uvs__redis_slot(queue, given, NULL)), given));
    ASSERT(is_on(&f, owner_of(&f, uvs__redis_slot(queue, keyed, key)), keyed));
    EQ(0, store_get(&f, queue, made));
  }
  EQ(36, store_count(&f, queue)->pending);
  store_close(&f);
  PASS();
}

/* The lease is extended meanwhile. */
TEST a_job_whose_put_waits_for_another_server_keeps_its_lease(void) {
  struct store_fixture f;
  struct uvs__put put = {.status = 0};
  struct uvs__settle s;
  int64_t end_ns;
  int own, other, rc, i = 0;

  store_init(&f);
  put.job = store_job("q", "next");
  put.job.key = "key";
  other = owner_of(&f, uvs__redis_slot("q", "next", "key"));
  while (owner_of(&f, uvs__redis_slot("q", rest_of(i), NULL)) == other)
    i++;
  own = owner_of(&f, uvs__redis_slot("q", rests[i], NULL));
  EQ(0, store_put_simple(&f, "q", rests[i]));
  SAYS(rests[i], store_claim(&f, "q", 1));
  EQ(0, store_get(&f, "q", rests[i]));
  end_ns = f.infos[0].due_ns;
  s = store_settlement(&f, 0, UVS__ACK);
  s.puts = &put;
  s.n_puts = 1;
  s.lease_us = 30 * SEC;
  redis_server_kill(redis_ns_server(other));
  do /* the connection may not be lost yet */
    rc = store_settle(&f, &s);
  while (rc == UVS_EUNKNOWN);
  EQ(UV_EAGAIN, rc);
  ASSERT(is_on(&f, own, rests[i]));
  EQ(0, store_get(&f, "q", rests[i]));
  ASSERT(f.infos[0].due_ns > end_ns);
  redis_ns_start_again(other);
  do
    rc = store_settle(&f, &s);
  while (rc == UV_EAGAIN);
  EQ(0, rc);
  EQ(0, put.status);
  ASSERT(is_on(&f, other, "next") && !is_on(&f, own, rests[i]));
  store_close(&f);
  PASS();
}

TEST a_claim_that_is_lost_puts_nothing_on_another_server(void) {
  struct store_fixture f;
  struct uvs__put put = {.status = 0};
  struct uvs__settle s;
  int other, i = 0;

  store_init(&f);
  put.job = store_job("q", "next");
  put.job.key = "key";
  other = owner_of(&f, uvs__redis_slot("q", "next", "key"));
  while (owner_of(&f, uvs__redis_slot("q", rest_of(i), NULL)) == other)
    i++;
  EQ(0, store_put_simple(&f, "q", rests[i]));
  SAYS(rests[i], store_claim(&f, "q", 1));
  s = store_settlement(&f, 0, UVS__ACK);
  s.puts = &put;
  s.n_puts = 1;
  s.lease_us = 30 * SEC;
  store_advance(&f, 11 * SEC); /* the lease ends */
  SAYS(rests[i], store_claim(&f, "q", 1));
  EQ(UVS_ELOST, store_settle(&f, &s));
  ASSERT(!is_on(&f, other, "next"));
  s.fence = f.claimed[0]->fence;
  EQ(0, store_settle(&f, &s));
  EQ(0, put.status);
  ASSERT(is_on(&f, other, "next"));
  store_close(&f);
  PASS();
}

TEST a_settle_of_another_claim_is_lost_on_each_server(void) {
  struct store_fixture f;

  store_init(&f);
  for (int i = 0; i < 9; i++)
    EQ(0, store_put_simple(&f, "q", rest_of(i)));
  store_claim(&f, "q", 9);
  EQ(9, f.n_claimed);
  for (size_t i = 0; i < 9; i++) {
    f.claimed[i]->fence++;
    EQ(UVS_ELOST, store_ack(&f, i));
  }
  store_close(&f);
  PASS();
}

TEST a_cron_is_on_one_server_and_so_are_its_jobs(void) {
  struct store_fixture f;

  store_init(&f);
  for (int i = 0; i < 10; i++) {
    struct uvs__cron c = store_cron(rest_of(i), 1);

    EQ(0, store_set_cron(&f, &c));
    EQ(UVS_JOB_EXISTS, store_set_cron(&f, &c));
  }
  EQ(0, store_crons(&f));
  EQ(10, f.n_crons);
  for (int i = 1; i < 10; i++)
    ASSERT(strcmp(f.crons[i - 1].name, f.crons[i].name) < 0);
  store_claim(&f, UVS__CRON_QUEUE, 99);
  EQ(10, f.n_claimed);
  for (size_t i = 0; i < 10; i++)
    EQ(0, store_release(&f, i, SEC));
  for (int i = 0; i < 10; i++)
    EQ(0, store_remove_cron(&f, rests[i]));
  EQ(UV_ENOENT, store_remove_cron(&f, rests[0]));
  EQ(0, store_crons(&f));
  EQ(0, f.n_crons);
  store_close(&f);
  PASS();
}

/* 7 on 3 servers is 3 each. */
TEST each_server_has_its_share_of_the_bounds_of_a_queue(void) {
  struct store_fixture f;
  uvs_job_queue_t q = store_queue("q");
  size_t on[3] = {0};

  store_init(&f);
  q.concurrency = 7;
  EQ(0, store_set_queue(&f, &q));
  SAYS("queue q", store_events(&f)); /* once, not for each server */
  for (int i = 0; i < MANY; i++)
    EQ(0, store_put_simple(&f, "q", rest_of(i)));
  store_claim(&f, "q", 1000);
  EQ(9, f.n_claimed);
  for (size_t i = 0; i < 9; i++)
    on[f.claimed[i]->part - 1]++;
  ASSERT(on[0] == 3 && on[1] == 3 && on[2] == 3);
  EQ(7, store_count(&f, "q")->concurrency);
  EQ(9, store_count(&f, "q")->running);
  store_close(&f);
  PASS();
}

/* -------------------------------------------------------------------- maps --- */

static void open_servers(struct store_fixture *f, const char *name, int expected) {
  struct uvs__store_config config = {.name = name};
  struct uvs__store *store = NULL;
  int rc;

  f->text[0] = '\0';
  rc = uvs__redis_open(&config, &store, f->text, sizeof f->text);
  if (rc == 0)
    store->ops->close(store);
  if (rc != expected || (rc == 0) != (f->text[0] == '\0')) {
    fprintf(stderr, "%s: %d %s\n", name, rc, f->text);
    abort();
  }
}

#define HAS(words, text) \
  do { \
    if (strstr((text), (words)) == NULL) \
      FAILm(text); \
  } while (0)

static char *name_of(int server, const char *ns) {
  static char name[400];

  snprintf(name, sizeof name, "redis+unix://%s?ns=%s", redis_ns_server(server)->socket, ns);
  return name;
}

static char *name_of_two(int a, int b, const char *ns) {
  static char name[600];

  snprintf(name, sizeof name, "redis+unix://%s,redis+unix://%s?ns=%s", redis_ns_server(a)->socket,
           redis_ns_server(b)->socket, ns);
  return name;
}

TEST wrong_lists_of_servers_are_refused(void) {
  struct store_fixture f;
  char name[600];

  store_init(&f); /* its three servers are used here with namespaces of their own */
  redis_ask(redis_ns_server(0), "HSET {jobs}:meta epoch x");
  open_servers(&f, name_of_two(0, 1, "jobs"), UV_EINVAL);
  HAS("the server has a store without a map", f.text);
  snprintf(name, sizeof name, "redis+unix://%s,redis+unix:///no/such/socket?ns=new",
           redis_ns_server(0)->socket);
  open_servers(&f, name, UV_ENOENT);
  HAS("/no/such/socket?db=0: ", f.text);
  HAS("all servers must answer when the list is used first", f.text);
  redis_ask(redis_ns_server(0), "SET {bad}:map nonsense");
  open_servers(&f, name_of_two(0, 1, "bad"), UV_EIO);
  HAS("the map of the servers is damaged: the first line", f.text);
  open_servers(&f, name_of(0, "bad"), UV_EIO);
  store_close(&f);
  PASS();
}

static void set_map(int server, const char *ns, int first, int second, int generation) {
  char text[1000];

  snprintf(text, sizeof text,
           "uvsched map 1\ngeneration %d\nstate stable\nserver redis+unix://%s?db=0 0-511\n"
           "server redis+unix://%s?db=0 512-1023\n",
           generation, redis_ns_server(first)->socket, redis_ns_server(second)->socket);
  redis_ask(redis_ns_server(server), "SET {%s}:map %s", ns, text);
}

/* Q68 */
TEST servers_that_do_not_belong_together_are_refused(void) {
  struct store_fixture f;

  store_init(&f);
  set_map(0, "m", 0, 1, 3);
  open_servers(&f, name_of(0, "m"), 0);
  open_servers(&f, name_of_two(0, 1, "m"), 0);
  open_servers(&f, name_of_two(1, 0, "m"), 0);
  open_servers(&f, name_of_two(0, 2, "m"), UV_EINVAL);
  HAS("not in the map of generation 3: `uvsched jobs reshard` adds a server", f.text);
  HAS(redis_ns_server(2)->socket, f.text);
  redis_ask(redis_ns_server(2), "HSET {m}:meta epoch x");
  open_servers(&f, name_of_two(0, 2, "m"), UV_EINVAL);
  HAS("the server has jobs of its own", f.text);
  set_map(2, "m", 2, 1, 2);
  open_servers(&f, name_of_two(0, 2, "m"), UV_EINVAL);
  HAS("the server has a map of other servers", f.text);
  set_map(2, "m", 1, 0, 3);
  open_servers(&f, name_of_two(0, 2, "m"), UV_EINVAL);
  HAS("the server has a map of other servers", f.text);
  set_map(2, "m", 0, 1, 2); /* this server was removed; its map says where the jobs are */
  open_servers(&f, name_of(2, "m"), 0);
  store_close(&f);
  PASS();
}

/* Q68 */
TEST one_server_of_the_map_is_enough_to_find_the_others(void) {
  struct store_fixture f;
  char name[400];
  struct uvs__store *all;

  store_init(&f);
  for (int i = 0; i < MANY; i++)
    EQ(0, store_put_simple(&f, "q", rest_of(i)));
  snprintf(name, sizeof name, "redis+unix://jobs:secret@%s%s", redis_ns_server(2)->socket,
           strstr(f.name, "?ns="));
  all = f.first;
  strcpy(f.name, name);
  EQ(0, store_open_second(&f));
  EQ(3, ((struct uvs__shards *)(void *)f.second)->n);
  for (int i = 0; i < MANY; i++)
    EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", rests[i]));
  store_claim(&f, "q", 1000);
  EQ(MANY, f.n_claimed);
  f.at = all;
  store_close(&f);
  PASS();
}

/* ------------------------------------------------------------ a new map --- */

/* Gives the store on the first server a map in which all slots move to the second one. */
static void begin_move(struct store_fixture *f) {
  char text[1000], epoch[100];
  const redisReply *reply;

  reply = redis_ask(redis_ns_server(0), "HGET {%s}:meta epoch", ns_of(f));
  snprintf(epoch, sizeof epoch, "%s.1", reply->str);
  snprintf(text, sizeof text,
           "uvsched map 1\ngeneration 1\nstate moving\nserver redis+unix://%s?db=0 0-1023\n"
           "from redis+unix://%s?db=0 0-1023\n",
           redis_ns_server(1)->socket, redis_ns_server(0)->socket);
  redis_ask(redis_ns_server(0), "SET {%s}:map %s", ns_of(f), text);
  redis_ask(redis_ns_server(0), "HSET {%s}:meta epoch %s servers 2 moving 1", ns_of(f), epoch);
}

/* Requests that come while the new map is read are to be repeated. */
static int put_again(struct store_fixture *f, const char *rest, const char *key, int policy) {
  int rc;

  do
    rc = store_put_key(f, rest, key, policy);
  while (rc == UV_EAGAIN);
  return rc;
}

/* Gives a server a newer map, as a move does that has ended. */
static void set_new_map(int server, const char *ns, int first, int second, int generation) {
  char epoch[100];

  snprintf(epoch, sizeof epoch, "%s",
           redis_ask(redis_ns_server(server), "HGET {%s}:meta epoch", ns)->str);
  *strchr(epoch, '.') = '\0';
  set_map(server, ns, first, second, generation);
  redis_ask(redis_ns_server(server), "HSET {%s}:meta epoch %s.%d", ns, epoch, generation);
}

static void begin_on_one_of_two(struct store_fixture *f) {
  store_kind = store_kind_named("redis2");
  store_init(f); /* starts both servers */
  store_close(f);
  store_kind = store_kind_named("redis");
  store_init(f);
}

TEST a_new_map_is_followed_and_puts_ask_the_old_owner_first(void) {
  struct store_fixture f;
  size_t claimed = 0;

  begin_on_one_of_two(&f);
  EQ(0, store_put_key(&f, "a", "key-a", UVS_KEY_KEEP));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(0, store_put_simple(&f, "q", "running"));
  SAYS("a b running", store_claim(&f, "q", 9));
  EQ(0, store_release(&f, 0, 0));
  EQ(0, store_release(&f, 1, 0));
  begin_move(&f);
  EQ(UVS_JOB_EXISTS, put_again(&f, "x", "key-a", UVS_KEY_KEEP));
  SAYS("a", f.there);
  EQ(2, shards_of(&f)->n);
  EQ(0, store_last_event(f.first)); /* no reset */
  EQ(UVS_JOB_EXISTS, put_again(&f, "b", NULL, 0));
  EQ(0, put_again(&f, "c", NULL, 0));
  EQ(0, put_again(&f, "d", "key-d", UVS_KEY_KEEP));
  EQ(0, put_again(&f, "e", "key-a", UVS_KEY_REPLACE)); /* takes the place of a, where a is */
  ASSERT(is_on(&f, 0, "b") && is_on(&f, 0, "e") && !is_on(&f, 0, "a"));
  ASSERT(is_on(&f, 1, "c") && is_on(&f, 1, "d"));
  EQ(0, store_state(&f, "q", "x"));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "b"));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "c"));
  EQ(0, store_cancel(&f, "q", "c"));
  EQ(0, store_ack(&f, 2));      /* claimed before there was a map */
  for (int i = 0; i < 4; i++) { /* each claim asks one server */
    store_claim(&f, "q", 9);
    claimed += f.n_claimed;
  }
  EQ(3, claimed); /* b and e at the old owner, d at the new one */
  store_close(&f);
  PASS();
}

/* A job ends during a move, and puts the next one with its own key. */
TEST a_chain_of_jobs_with_one_key_goes_on_during_a_move(void) {
  struct store_fixture f;
  struct uvs__put put = {.status = 0};
  struct uvs__settle s;
  int rc;

  begin_on_one_of_two(&f);
  EQ(0, store_put_key(&f, "a", "key-a", UVS_KEY_KEEP));
  SAYS("a", store_claim(&f, "q", 1));
  begin_move(&f);
  EQ(0, put_again(&f, "b", NULL, 0)); /* follows the map */
  put.job = store_job("q", "next");
  put.job.key = "key-a";
  put.job.key_policy = UVS_KEY_KEEP;
  s = store_settlement(&f, 0, UVS__ACK);
  s.key = "key-a";
  s.puts = &put;
  s.n_puts = 1;
  s.lease_us = 30 * SEC;
  do
    rc = store_settle(&f, &s);
  while (rc == UV_EAGAIN);
  EQ(0, rc);
  EQ(0, put.status);
  ASSERT(is_on(&f, 0, "next") && !is_on(&f, 0, "a"));
  EQ(1, redis_ask_number(redis_ns_server(0), "HEXISTS {%s}:meta strays", ns_of(&f)));
  store_close(&f);
  PASS();
}

/* Another process puts a job, and no message says so. */
TEST a_server_is_asked_although_another_one_always_has_jobs(void) {
  struct store_fixture f;
  char busy[20];
  bool found = false;
  int own, i = 0;

  store_init(&f);
  own = owner_of(&f, uvs__redis_slot("q", "quiet", NULL));
  SAYS("", store_claim(&f, "q", 1));
  EQ(0, store_open_second(&f));
  f.at = f.second;
  EQ(0, store_put_simple(&f, "q", "quiet"));
  f.at = f.first;
  for (int second = 0; second <= 30 && !found; second++) {
    do
      snprintf(busy, sizeof busy, "busy-%d", i++);
    while (owner_of(&f, uvs__redis_slot("q", busy, NULL)) == own);
    EQ(0, store_put_simple(&f, "q", busy));
    store_claim(&f, "q", 1);
    EQ(1, f.n_claimed);
    found = strcmp(f.claimed[0]->rest, "quiet") == 0;
    EQ(0, store_ack(&f, 0));
    store_advance(&f, SEC);
  }
  ASSERT(found);
  store_close(&f);
  PASS();
}

static void *resume_later(void *server) {
  uv_sleep(300);
  redis_server_resume(server);
  return NULL;
}

/* While the second server is silent, the third one is removed from the map. */
TEST a_search_does_not_ask_a_server_that_was_removed_meanwhile(void) {
  struct store_fixture f;
  struct uvs__shards *all;
  int at[3], i = 0;
  pthread_t thread;

  store_kind = store_kind_named("redis3");
  store_init(&f);
  all = shards_of(&f);
  for (unsigned k = 0; k < 3; k++)
    for (at[k] = 0; strstr(all->shards[k]->name, redis_ns_server(at[k])->socket) == NULL;)
      at[k]++;
  while (uvs__shard_of(all, uvs__redis_slot("q", rest_of(i), NULL)) != all->shards[0])
    i++;
  EQ(UV_ENOENT, store_get(&f, "q", rests[i])); /* all three have the first map */
  set_new_map(at[0], ns_of(&f), at[0], at[1], 2);
  redis_server_pause(redis_ns_server(at[1]));
  EQ(0, pthread_create(&thread, NULL, resume_later, redis_ns_server(at[1])));
  EQ(UV_EAGAIN, store_get(&f, "q", rests[i]));
  EQ(0, pthread_join(thread, NULL));
  ASSERT(all->shards[2]->stopped);
  while (store_get(&f, "q", rests[i]) == UV_EAGAIN)
    store_count(&f, "q");
  EQ(UV_ENOENT, store_get(&f, "q", rests[i]));
  store_close(&f);
  PASS();
}

/* Otherwise a server that is removed would always have one. */
TEST a_chain_of_jobs_without_a_key_leaves_a_server_that_is_removed(void) {
  struct store_fixture f;
  struct uvs__put put = {.status = 0};
  struct uvs__settle s;
  int rc;

  begin_on_one_of_two(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 1));
  begin_move(&f);
  EQ(0, put_again(&f, "b", NULL, 0)); /* follows the map */
  put.job = store_job("q", "next");
  put.job.made = true;
  s = store_settlement(&f, 0, UVS__ACK);
  s.puts = &put;
  s.n_puts = 1;
  s.lease_us = 30 * SEC;
  do
    rc = store_settle(&f, &s);
  while (rc == UV_EAGAIN);
  EQ(0, rc);
  EQ(0, put.status);
  ASSERT(is_on(&f, 1, "next") && !is_on(&f, 0, "next") && !is_on(&f, 0, "a"));
  store_close(&f);
  PASS();
}

/* Processes that were opened with different lists at the same moment. */
TEST a_server_with_another_map_of_the_same_generation_is_refused(void) {
  struct store_fixture f;
  int first, second, rc, i = 0;

  store_kind = store_kind_named("redis2");
  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a")); /* both servers have the map */
  first = owner_of(&f, 0);
  second = owner_of(&f, UVS__SLOTS - 1);
  while (owner_of(&f, uvs__redis_slot("q", rest_of(i), NULL)) != 1)
    i++;
  EQ(0, store_put_simple(&f, "q", rests[i]));
  set_map(1, ns_of(&f), second, first, 1);
  redis_ask(redis_ns_server(1), "CLIENT KILL USER jobs");
  do {
    store_count(&f, "q"); /* time passes until the connection is there again */
    rc = store_put_simple(&f, "q", rests[i]);
  } while (rc == UV_EAGAIN || rc == UVS_EUNKNOWN || rc == UVS_JOB_EXISTS);
  EQ(UV_EIO, rc);
  HAS("the server has another map of generation 1", f.first->trouble);
  set_map(1, ns_of(&f), first, second, 1);
  EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", rests[i]));
  store_close(&f);
  PASS();
}

SUITE(jobs) {
  RUN_TEST(jobs_are_on_the_servers_that_own_their_slots);
  RUN_TEST(a_job_with_a_key_is_found_by_its_key_and_by_its_id);
  RUN_TEST(jobs_that_a_job_puts_are_on_its_server_or_on_that_of_their_slot);
  RUN_TEST(a_job_whose_put_waits_for_another_server_keeps_its_lease);
  RUN_TEST(a_claim_that_is_lost_puts_nothing_on_another_server);
  RUN_TEST(a_settle_of_another_claim_is_lost_on_each_server);
  RUN_TEST(a_cron_is_on_one_server_and_so_are_its_jobs);
  RUN_TEST(each_server_has_its_share_of_the_bounds_of_a_queue);
  RUN_TEST(a_server_is_asked_although_another_one_always_has_jobs);
}

SUITE(maps) {
  RUN_TEST(wrong_lists_of_servers_are_refused);
  RUN_TEST(servers_that_do_not_belong_together_are_refused);
  RUN_TEST(one_server_of_the_map_is_enough_to_find_the_others);
  RUN_TEST(a_new_map_is_followed_and_puts_ask_the_old_owner_first);
  RUN_TEST(a_server_with_another_map_of_the_same_generation_is_refused);
  RUN_TEST(a_search_does_not_ask_a_server_that_was_removed_meanwhile);
  RUN_TEST(a_chain_of_jobs_without_a_key_leaves_a_server_that_is_removed);
  RUN_TEST(a_chain_of_jobs_with_one_key_goes_on_during_a_move);
}

TEST_MAIN(store_kind = store_kind_named("redis3"); RUN_SUITE(jobs); RUN_SUITE(maps));
