/* SPDX-License-Identifier: MIT
 *
 * Nodes that share a queue in Redis: one leads, one is its deputy, and the others sleep. The
 * store's clock is the test's, which otherwise takes no part in leading.
 */
#include "store_fixture.h"

#include "jobs/redis_store.h"
#include "redis_ns.h"

#define TERM 20000
#define DELAY 80000
#define SLEEP (30 * SEC)

/* Three openers that listen. */
struct nodes {
  struct store_fixture f;
  struct uvs__store *node[3];
};

static void begin_to_listen(struct uvs__store *store) {
  uvs__redis_server_of(store, 0)->leads = true;
  store_woken(store);
}

static void open_nodes(struct nodes *n) {
  store_init(&n->f);
  n->node[0] = n->f.first;
  for (int i = 1; i < 3; i++) {
    if (store_open_second(&n->f) != 0)
      abort();
    n->node[i] = n->f.second;
  }
  for (int i = 0; i < 3; i++)
    begin_to_listen(n->node[i]);
}

static void close_nodes(struct nodes *n) {
  if (n->node[1] != NULL)
    store_end(n->node[1]);
  store_close(&n->f);
}

/* The next time of a claim by one node, after now. */
static int64_t claim(struct nodes *n, int node, uint32_t max) {
  n->f.at = n->node[node];
  store_claim(&n->f, "q", max);
  return n->f.next_us - store_now(&n->f);
}

static int put(struct nodes *n, int node, const char *rest, int64_t delay_us) {
  struct uvs__record job = store_job("q", rest);

  n->f.at = n->node[node];
  job.due = after_us(delay_us);
  return store_put(&n->f, &job);
}

#define BETWEEN(low, high, got) \
  do { \
    long long got_ = (long long)(got); \
    ASSERT(got_ >= (long long)(low)); \
    ASSERT(got_ <= (long long)(high)); \
  } while (0)

TEST the_first_leads_the_second_is_the_deputy_and_the_third_sleeps(void) {
  struct nodes n;

  open_nodes(&n);
  EQ(0, put(&n, 0, "a", 10 * SEC));
  EQ(10 * SEC, claim(&n, 0, 9));
  BETWEEN(10 * SEC + TERM, 10 * SEC + TERM + DELAY, claim(&n, 1, 9));
  BETWEEN(SLEEP - 50 * DELAY, SLEEP, claim(&n, 2, 9));
  EQ(10 * SEC, claim(&n, 0, 9)); /* again */
  BETWEEN(SLEEP - 50 * DELAY, SLEEP, claim(&n, 2, 9));
  BETWEEN(10 * SEC + TERM, 10 * SEC + TERM + DELAY, claim(&n, 1, 9));
  close_nodes(&n);
  PASS();
}

TEST the_term_of_a_leader_of_an_empty_queue_is_half_a_minute(void) {
  struct nodes n;

  open_nodes(&n);
  EQ(UVS__NEVER_US, claim(&n, 0, 9) + store_now(&n.f));
  BETWEEN(SLEEP + TERM, SLEEP + TERM + DELAY, claim(&n, 1, 9));
  close_nodes(&n);
  PASS();
}

TEST a_deputy_leads_when_the_leader_has_not_come_back(void) {
  struct nodes n;

  open_nodes(&n);
  EQ(0, put(&n, 0, "a", 10 * SEC));
  claim(&n, 0, 9);
  claim(&n, 1, 9);
  claim(&n, 2, 9);
  EQ(0, put(&n, 0, "b", 20 * SEC));
  store_advance(&n.f, 10 * SEC + TERM + 1);
  EQ(10 * SEC - TERM - 1, claim(&n, 1, 9));
  SAYS("a", n.f.text);
  SAYS("q ", store_woken(n.node[2])); /* there must be a deputy */
  BETWEEN(10 * SEC - 1, 10 * SEC - 1 + DELAY, claim(&n, 2, 9));
  BETWEEN(SLEEP - 50 * DELAY, SLEEP, claim(&n, 0, 9)); /* the old leader */
  close_nodes(&n);
  PASS();
}

TEST a_deputy_that_is_gone_is_replaced_when_the_leader_looks(void) {
  struct nodes n;

  open_nodes(&n);
  EQ(0, put(&n, 0, "a", SEC));
  claim(&n, 0, 9);
  claim(&n, 1, 9);
  claim(&n, 2, 9);
  store_end(n.node[1]);
  n.node[1] = NULL;
  store_advance(&n.f, 2 * SEC);
  claim(&n, 0, 9);
  SAYS("q ", store_woken(n.node[2]));
  BETWEEN(n.f.lease_us + TERM, n.f.lease_us + TERM + DELAY, claim(&n, 2, 9));
  close_nodes(&n);
  PASS();
}

/* If the leader dies after the put, the deputy must not sleep until the old term is over. */
TEST a_nearer_job_wakes_the_deputy_too(void) {
  struct nodes n;

  open_nodes(&n);
  EQ(0, put(&n, 0, "a", 10 * SEC));
  claim(&n, 0, 9);
  claim(&n, 1, 9);
  EQ(0, put(&n, 2, "nearer", 5 * SEC));
  SAYS("q ", store_woken(n.node[0]));
  EQ(store_now(&n.f) + 5 * SEC, store_woken_us(n.node[0]));
  SAYS("q ", store_woken(n.node[1]));
  EQ(store_now(&n.f) + 5 * SEC + 2 * TERM, store_woken_us(n.node[1]));
  BETWEEN(5 * SEC + TERM, 5 * SEC + TERM + DELAY, claim(&n, 1, 9)); /* it is the deputy again */
  close_nodes(&n);
  PASS();
}

TEST only_a_nearer_job_wakes_the_leader(void) {
  struct nodes n;

  open_nodes(&n);
  EQ(0, put(&n, 0, "a", 10 * SEC));
  claim(&n, 0, 9);
  claim(&n, 1, 9);
  EQ(0, put(&n, 1, "later", 11 * SEC));
  EQ(0, put(&n, 1, "same", 10 * SEC));
  EQ(0, put(&n, 1, "nearer", 5 * SEC));
  SAYS("q ", store_woken(n.node[0]));
  EQ(0, put(&n, 1, "not the nearest", 6 * SEC));
  EQ(0, put(&n, 1, "now", 0));
  SAYS("q ", store_woken(n.node[0]));
  EQ(0, put(&n, 1, "now, too", 0));
  claim(&n, 0, 9);
  SAYS("now now, too", n.f.text);
  EQ(0, put(&n, 1, "nearest", SEC));
  SAYS("q ", store_woken(n.node[0]));
  close_nodes(&n);
  PASS();
}

TEST a_node_without_free_places_wakes_an_idle_one(void) {
  struct nodes n;

  open_nodes(&n);
  claim(&n, 0, 9);
  store_advance(&n.f, 1);
  claim(&n, 1, 9);
  store_advance(&n.f, 1);
  claim(&n, 2, 9);
  EQ(0, put(&n, 0, "a", 0));
  SAYS("q ", store_woken(n.node[1])); /* the deputy */
  EQ(0, put(&n, 0, "b", 0));
  EQ(0, put(&n, 0, "c", 0));
  redis_ns_ask("CONFIG RESETSTAT");
  EQ(0, claim(&n, 0, 1));
  EQ(1, redis_ns_commands("publish"));
  SAYS("q ", store_woken(n.node[1])); /* it has been idle for longest */
  EQ(0, claim(&n, 1, 1));
  SAYS("b", n.f.text);
  SAYS("q ", store_woken(n.node[2]));
  EQ(n.f.lease_us, claim(&n, 2, 9));
  SAYS("c", n.f.text);
  close_nodes(&n);
  PASS();
}

TEST a_run_that_ends_wakes_the_leader_if_the_concurrency_is_bounded(void) {
  uvs_job_queue_t q = store_queue("q");
  struct nodes n;

  open_nodes(&n);
  q.concurrency = 1;
  EQ(0, store_set_queue(&n.f, &q));
  claim(&n, 1, 9);
  EQ(0, put(&n, 0, "a", 0));
  SAYS("q ", store_woken(n.node[1]));
  claim(&n, 0, 9);
  SAYS("a", n.f.text);
  claim(&n, 1, 9);
  EQ(0, put(&n, 0, "b", 0));
  SAYS("q ", store_woken(n.node[1]));
  EQ(n.f.lease_us, claim(&n, 1, 9));
  SAYS("", n.f.text);
  n.f.at = n.node[0];
  n.f.claimed[0] = n.f.history;
  n.f.n_claimed = 1;
  EQ(0, store_extend(&n.f, 0, n.f.lease_us));
  EQ(0, store_ack(&n.f, 0));
  SAYS("q ", store_woken(n.node[1]));
  claim(&n, 1, 9);
  SAYS("b", n.f.text);
  close_nodes(&n);
  PASS();
}

TEST a_leader_that_closes_hands_on(void) {
  struct nodes n;

  open_nodes(&n);
  EQ(0, put(&n, 0, "a", 10 * SEC));
  claim(&n, 1, 9);
  claim(&n, 2, 9);
  store_end(n.node[1]);
  n.node[1] = NULL;
  SAYS("q ", store_woken(n.node[2]));
  EQ(10 * SEC, claim(&n, 2, 9));
  close_nodes(&n);
  PASS();
}

SUITE(lead) {
  RUN_TEST(the_first_leads_the_second_is_the_deputy_and_the_third_sleeps);
  RUN_TEST(the_term_of_a_leader_of_an_empty_queue_is_half_a_minute);
  RUN_TEST(a_deputy_leads_when_the_leader_has_not_come_back);
  RUN_TEST(a_deputy_that_is_gone_is_replaced_when_the_leader_looks);
  RUN_TEST(a_nearer_job_wakes_the_deputy_too);
  RUN_TEST(only_a_nearer_job_wakes_the_leader);
  RUN_TEST(a_node_without_free_places_wakes_an_idle_one);
  RUN_TEST(a_run_that_ends_wakes_the_leader_if_the_concurrency_is_bounded);
  RUN_TEST(a_leader_that_closes_hands_on);
}

TEST_MAIN(store_kind = store_kind_named("redis"); RUN_SUITE(lead));
