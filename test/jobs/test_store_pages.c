/* SPDX-License-Identifier: MIT
 *
 * LIST in pages. Pages of a store that is a server have no order.
 */
#include "store_fixture.h"

#include <string.h>

static uvs_job_filter_t filter_state(int state) {
  uvs_job_filter_t filter;

  uvs_job_filter_init(&filter);
  filter.state = state;
  return filter;
}

TEST the_pages_of_a_list_have_every_job(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(0);
  unsigned char seen[3000] = {0};
  char rest[40];
  int n = 0;

  store_init(&f);
  for (int i = 0; i < 3000; i++) {
    snprintf(rest, sizeof rest, "a-long-name-of-a-job-%d", i);
    EQ(0, store_put_simple(&f, i % 3 ? "q" : "p", rest));
  }
  do {
    store_list(&f, &filter, f.cursor, 100);
    ASSERT(f.n_infos <= (f.kind->server ? 100 + 512 : 100)); /* Redis: small hashes are whole */
    for (size_t i = 0; i < f.n_infos; i++) {
      int job = atoi(strrchr(f.infos[i].id, '-') + 1);

      n += !seen[job];
      seen[job] = 1;
    }
  } while (f.cursor != 0);
  EQ(3000, n);
  store_close(&f);
  PASS();
}

/* Q58 */
TEST a_list_comes_in_pages(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(0);
  char all[200] = "";
  int i, pages = 0;
  char rest[2] = "";

  store_init(&f);
  for (i = 0; i < 26; i++) {
    rest[0] = (char)('a' + i);
    EQ(0, store_put_simple(&f, i % 2 ? "q" : "p", rest));
  }
  filter.queue = "q";
  do {
    strcat(all, store_list(&f, &filter, f.cursor, 5));
    ASSERT(f.n_infos <= 5);
    strcat(all, ",");
    ASSERT(++pages < 30);
  } while (f.cursor != 0);
  SAYS("b d f h j,l n p r t,v x z,", all);
  store_close(&f);
  PASS();
}

/* Q58 */
TEST jobs_that_are_put_while_a_list_is_read_come_at_its_end(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(0);

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "c"));
  EQ(0, store_put_simple(&f, "q", "d"));
  EQ(0, store_put_simple(&f, "q", "e"));
  SAYS("c d", store_list(&f, &filter, 0, 2));
  EQ(0, store_cancel(&f, "q", "c"));
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("e a", store_list(&f, &filter, f.cursor, 2));
  store_close(&f);
  PASS();
}

SUITE(pages) {
  RUN_TEST(the_pages_of_a_list_have_every_job);
}

SUITE(order) {
  RUN_TEST(a_list_comes_in_pages);
  RUN_TEST(jobs_that_are_put_while_a_list_is_read_come_at_its_end);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(pages); if (!store_kind->server) RUN_SUITE(order)));
