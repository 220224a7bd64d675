/* SPDX-License-Identifier: MIT
 *
 * Which deliveries are acknowledged: never one whose message is not safe, and in the end all.
 */
#include <string.h>

#include "amqp/alloc.h"
#include "amqp/identity.h"
#include "amqp/tags.h"
#include "lib/main.h"

static struct uvs__tags tags;
static bool multiple;

static void add(uint64_t n) {
  uvs__tags_init(&tags);
  for (uint64_t tag = 1; tag <= n; tag++)
    if (uvs__tags_add(&tags, tag) != 0)
      abort();
}

TEST the_finished_prefix_is_acknowledged_at_once(void) {
  add(5);
  ASSERT_EQ(0, uvs__tags_ack(&tags, &multiple));
  uvs__tags_finish(&tags, 2);
  uvs__tags_finish(&tags, 3);
  ASSERT_EQ(0, uvs__tags_ack(&tags, &multiple));
  uvs__tags_finish(&tags, 1);
  ASSERT_EQ(3, uvs__tags_ack(&tags, &multiple));
  ASSERT(multiple);
  ASSERT_EQ(0, uvs__tags_ack(&tags, &multiple));
  uvs__tags_finish(&tags, 5);
  uvs__tags_finish(&tags, 4);
  ASSERT_EQ(5, uvs__tags_ack(&tags, &multiple));
  ASSERT(uvs__tags_is_empty(&tags));
  uvs__tags_free(&tags);
  PASS();
}

TEST behind_a_slow_one_each_is_acknowledged_alone(void) {
  add(4);
  uvs__tags_slow(&tags, 1);
  uvs__tags_finish(&tags, 2);
  uvs__tags_finish(&tags, 4);
  ASSERT_EQ(2, uvs__tags_ack(&tags, &multiple));
  ASSERT_FALSE(multiple);
  ASSERT_EQ(4, uvs__tags_ack(&tags, &multiple));
  ASSERT_FALSE(multiple);
  ASSERT_EQ(0, uvs__tags_ack(&tags, &multiple));
  uvs__tags_finish(&tags, 1);
  ASSERT_EQ(1, uvs__tags_ack(&tags, &multiple));
  uvs__tags_finish(&tags, 3);
  ASSERT_EQ(3, uvs__tags_ack(&tags, &multiple));
  ASSERT_EQ(0, uvs__tags_ack(&tags, &multiple));
  ASSERT(uvs__tags_is_empty(&tags));
  uvs__tags_free(&tags);
  PASS();
}

TEST a_tag_out_of_order_is_refused(void) {
  add(1);
  ASSERT_EQ(UV_EPROTO, uvs__tags_add(&tags, 3));
  ASSERT_EQ(UV_EPROTO, uvs__tags_add(&tags, 1));
  uvs__tags_finish(&tags, 9); /* of an earlier channel */
  ASSERT_EQ(0, uvs__tags_ack(&tags, &multiple));
  uvs__tags_free(&tags);
  PASS();
}

/* Random programs against a plain array. */
TEST random_programs_agree_with_a_model(void) {
  enum { N = 5000 };
  static char state[N + 1]; /* 0 none, 1 pending, 2 slow, 3 finished, 4 acknowledged */
  uint64_t random = test_seed, next = 1;
  size_t acked = 0;

  memset(state, 0, sizeof state);
  uvs__tags_init(&tags);
  while (acked < N) {
    uint64_t what = test_random_below(&random, 4);
    uint64_t tag = 1 + test_random_below(&random, next), got;

    if (what < 2 && next <= N && next < tags.first + 1500) {
      ASSERT_EQ(0, uvs__tags_add(&tags, next));
      state[next++] = 1;
    } else if (what == 2 && tag < next && test_random_below(&random, 8) == 0) {
      uvs__tags_slow(&tags, tag);
      state[tag] = state[tag] == 1 ? 2 : state[tag];
    } else {
      if (next > N || test_random_below(&random, 2) == 0)
        tag = tags.first;
      if (tag < next && state[tag] > 0) {
        uvs__tags_finish(&tags, tag);
        state[tag] = state[tag] < 3 ? 3 : state[tag];
      }
    }
    while ((got = uvs__tags_ack(&tags, &multiple)) != 0) {
      for (uint64_t i = multiple ? 1 : got; i <= got; i++) {
        ASSERT(state[i] >= 3); /* never one that is not safe */
        acked += state[i] == 3;
        state[i] = 4;
      }
    }
  }
  ASSERT(uvs__tags_is_empty(&tags));
  uvs__tags_free(&tags);
  PASS();
}

/* ---------------------------------------------------------------- identity --- */

static void hex(const uint8_t hash[32], char ret[65]) {
  for (int i = 0; i < 32; i++)
    snprintf(ret + 2 * i, 3, "%02x", (unsigned)hash[i]);
}

TEST sha256_has_the_values_of_its_standard(void) {
  struct uvs__sha256 h;
  uint8_t hash[32];
  char text[65], a[1000];

  uvs__sha256_init(&h);
  uvs__sha256_end(&h, hash);
  hex(hash, text);
  ASSERT_STR_EQ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", text);
  uvs__sha256_init(&h);
  uvs__sha256_add(&h, "abc", 3);
  uvs__sha256_end(&h, hash);
  hex(hash, text);
  ASSERT_STR_EQ("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", text);
  memset(a, 'a', sizeof a);
  uvs__sha256_init(&h);
  for (int i = 0; i < 1000; i++)
    uvs__sha256_add(&h, a, sizeof a);
  uvs__sha256_end(&h, hash);
  hex(hash, text);
  ASSERT_STR_EQ("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", text);
  PASS();
}

TEST sha256_does_not_depend_on_the_pieces(void) {
  uint64_t random = test_seed;
  uint8_t data[300], one[32], two[32];

  for (size_t i = 0; i < sizeof data; i++)
    data[i] = (uint8_t)test_random(&random);
  for (size_t n = 0; n <= sizeof data; n++) {
    struct uvs__sha256 h;
    size_t cut = (size_t)test_random_below(&random, n + 1);

    uvs__sha256_init(&h);
    uvs__sha256_add(&h, data, n);
    uvs__sha256_end(&h, one);
    uvs__sha256_init(&h);
    uvs__sha256_add(&h, data, cut);
    uvs__sha256_add(&h, data + cut, n - cut);
    uvs__sha256_end(&h, two);
    ASSERT_MEM_EQ(one, two, 32);
  }
  PASS();
}

static amqp_bytes_t text_of(const char *s) {
  amqp_bytes_t b = {strlen(s), (void *)(uintptr_t)s};

  return b;
}

TEST the_id_depends_on_queue_message_id_and_body(void) {
  char first[UVS__AMQP_ID_BYTES], other[UVS__AMQP_ID_BYTES];

  uvs__amqp_identity("q", text_of("id"), text_of("body"), first);
  ASSERT_EQ(40, strlen(first));
  uvs__amqp_identity("q", text_of("id"), text_of("body"), other);
  ASSERT_STR_EQ(first, other);
  uvs__amqp_identity("r", text_of("id"), text_of("body"), other);
  ASSERT(strcmp(first, other) != 0);
  uvs__amqp_identity("q", text_of("ie"), text_of("body"), other);
  ASSERT(strcmp(first, other) != 0);
  uvs__amqp_identity("q", text_of("id"), text_of("bodz"), other);
  ASSERT(strcmp(first, other) != 0);
  uvs__amqp_identity("q", text_of("idb"), text_of("ody"), other);
  ASSERT(strcmp(first, other) != 0);
  PASS();
}

SUITE(acknowledge) {
  RUN_TEST(the_finished_prefix_is_acknowledged_at_once);
  RUN_TEST(behind_a_slow_one_each_is_acknowledged_alone);
  RUN_TEST(a_tag_out_of_order_is_refused);
  RUN_TEST(random_programs_agree_with_a_model);
}

SUITE(identity) {
  RUN_TEST(sha256_has_the_values_of_its_standard);
  RUN_TEST(sha256_does_not_depend_on_the_pieces);
  RUN_TEST(the_id_depends_on_queue_message_id_and_body);
}

TEST_MAIN(RUN_SUITE(acknowledge); RUN_SUITE(identity));
