/* SPDX-License-Identifier: MIT
 *
 * Slots of jobs, and maps of slots to servers. No server is needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "lib/main.h"

#include "jobs/redis_map.h"

#ifndef EQ
#define EQ(EXP, GOT) ASSERT_EQ_FMT((long long)(EXP), (long long)(GOT), "%lld")
#endif

static struct uvs__redis_map map, other;
static char text[UVS__REDIS_MAP_TEXT], again[UVS__REDIS_MAP_TEXT];
static char why[200];

static int read_map(const char *from) {
  why[0] = '\0';
  return uvs__redis_map_read(from, strlen(from), &map, why, sizeof why);
}

/* The text is refused with these words. */
#define REFUSED(from, words) \
  do { \
    EQ(UV_EINVAL, read_map(from)); \
    if (strstr(why, words) == NULL) \
      FAILm(why); \
  } while (0)

/* The numbers are those of Python's binascii.crc_hqx(text, 0) % 1024. */
TEST a_slot_comes_from_the_key_or_else_from_the_id(void) {
  EQ(472, uvs__redis_slot("queue", "rest", NULL));
  EQ(615, uvs__redis_slot("a", "b", NULL));
  EQ(914, uvs__redis_slot("emails", "x", "user-17"));
  EQ(914, uvs__redis_slot("emails", "y", "user-17"));
  EQ(uvs__redis_slot("uvs.cron", "c", NULL), uvs__redis_slot("emails", "c@2026", "uvs.cron:c"));
  PASS();
}

static size_t count(const uint8_t *owner, size_t server) {
  size_t n = 0;

  for (unsigned slot = 0; slot < UVS__SLOTS; slot++)
    n += owner[slot] == server;
  return n;
}

TEST the_first_map_has_equal_ranges(void) {
  static const char *const three[] = {"redis://a:1/0", "redis://b:1/0", "redis://c:1/0"};

  uvs__redis_map_first(&map, three, 3);
  uvs__redis_map_print(&map, text);
  ASSERT_STR_EQ("uvsched map 1\ngeneration 1\nstate stable\n"
                "server redis://a:1/0 0-341\nserver redis://b:1/0 342-682\n"
                "server redis://c:1/0 683-1023\n",
                text);
  EQ(1, uvs__redis_map_find(&map, "redis://b:1/0"));
  ASSERT(uvs__redis_map_find(&map, "redis://b:1/1") == SIZE_MAX);
  PASS();
}

static bool same(const struct uvs__redis_map *a, const struct uvs__redis_map *b) {
  for (unsigned slot = 0; slot < UVS__SLOTS; slot++)
    if (strcmp(a->servers[a->owner[slot]], b->servers[b->owner[slot]]) != 0 ||
        strcmp(a->servers[a->from[slot]], b->servers[b->from[slot]]) != 0)
      return false;
  return a->generation == b->generation && a->moving == b->moving && a->n == b->n &&
         a->n_all == b->n_all;
}

/* Changes of 1 to 64 servers at random. */
TEST a_change_has_equal_shares_and_moves_as_few_slots_as_possible(void) {
  static char names[100][20];
  const char *servers[UVS__REDIS_SERVERS];
  uint64_t generation = 1;

  for (int i = 0; i < 100; i++)
    snprintf(names[i], sizeof names[i], "redis://h%d:1/0", i);
  servers[0] = names[0];
  uvs__redis_map_first(&map, servers, 1);
  srand((unsigned)test_seed);
  for (int round = 0; round < 300; round++) {
    size_t n = 1 + (size_t)rand() % UVS__REDIS_SERVERS, first = (size_t)rand() % 100, moved = 0;
    size_t least = 0;

    for (size_t i = 0; i < n; i++)
      servers[i] = names[(first + i) % 100];
    uvs__redis_map_change(&other, &map, servers, n);
    EQ(++generation, other.generation);
    for (size_t i = 0; i < n; i++) {
      size_t had = count(other.from, i), has = count(other.owner, i);

      ASSERT(has == UVS__SLOTS / n || has == UVS__SLOTS / n + (UVS__SLOTS % n > 0));
      least += has > had ? has - had : 0;
    }
    for (unsigned slot = 0; slot < UVS__SLOTS; slot++) {
      ASSERT_STR_EQ(map.servers[map.owner[slot]], other.servers[other.from[slot]]);
      moved += other.owner[slot] != other.from[slot];
    }
    EQ(least, moved); /* nothing moves from a server that then gets something */
    ASSERT(uvs__redis_map_print(&other, text) < sizeof text);
    EQ(0, uvs__redis_map_read(text, strlen(text), &map, why, sizeof why));
    ASSERT(same(&map, &other));
    uvs__redis_map_print(&map, again);
    ASSERT_STR_EQ(text, again);
    uvs__redis_map_finish(&map);
    EQ(++generation, map.generation);
    EQ(n, map.n_all);
    uvs__redis_map_print(&map, text);
    EQ(0, uvs__redis_map_read(text, strlen(text), &other, why, sizeof why));
    ASSERT(same(&map, &other));
  }
  PASS();
}

#define HEAD "uvsched map 1\ngeneration 3\nstate stable\n"

TEST damaged_maps_are_refused(void) {
  EQ(0, read_map(HEAD "server redis://a:1/0 0-511,513-1023\nserver redis://b:1/0 512\n"));
  EQ(3, map.generation);
  EQ(1, map.owner[512]);
  REFUSED("", "first line");
  REFUSED("uvsched map 2\n", "first line");
  REFUSED("uvsched map 1\ngeneration 0\n", "generation");
  REFUSED("uvsched map 1\ngeneration 07\nstate stable\n", "generation");
  REFUSED("uvsched map 1\ngeneration 99999999999999999999\n", "generation");
  REFUSED("uvsched map 1\ngeneration 1\nstate what\n", "state");
  REFUSED(HEAD, "no owner");
  REFUSED(HEAD "server redis://a:1/0 0-1022\n", "no owner");
  REFUSED(HEAD "server redis://a:1/0 0-1023\nserver redis://b:1/0 5\n", "two owners");
  REFUSED(HEAD "server redis://a:1/0 0-1024\n", "range");
  REFUSED(HEAD "server redis://a:1/0 5-5\n", "range");
  REFUSED(HEAD "server redis://a:1/0 x\n", "number");
  REFUSED(HEAD "server redis://a:1/0 \n", "number");
  REFUSED(HEAD "server redis://a:1/0\n", "name of a server");
  REFUSED(HEAD "server redis://a\t:1/0 0-1023\n", "byte");
  REFUSED(HEAD "server redis://a:1/0 0-1023", "something after");
  REFUSED(HEAD "server a 0-5\nserver a 6-1023\n", "two lines");
  REFUSED(HEAD "server a 0-1023\nfrom b 0-1023\n", "too many");
  REFUSED("uvsched map 1\ngeneration 3\nstate moving\nserver a 0-1023\n", "no owner");
  PASS();
}

TEST a_map_with_a_byte_changed_is_read_or_refused_but_never_crashes(void) {
  static const char *const two[] = {"redis://a:1/0", "redis://b:1/0"};
  static const char *const one[] = {"redis://b:1/0"};
  size_t length;

  uvs__redis_map_first(&other, two, 2);
  uvs__redis_map_change(&map, &other, one, 1);
  length = uvs__redis_map_print(&map, text);
  for (size_t i = 0; i < length; i++) {
    char old = text[i];

    for (int c = 0; c < 256; c++) {
      text[i] = (char)c;
      why[0] = '\0';
      if (uvs__redis_map_read(text, length, &other, why, sizeof why) != 0)
        ASSERT(why[0] != '\0');
    }
    text[i] = old;
    EQ(UV_EINVAL, uvs__redis_map_read(text, i, &other, why, sizeof why));
  }
  PASS();
}

SUITE(maps) {
  RUN_TEST(a_slot_comes_from_the_key_or_else_from_the_id);
  RUN_TEST(the_first_map_has_equal_ranges);
  RUN_TEST(a_change_has_equal_shares_and_moves_as_few_slots_as_possible);
  RUN_TEST(damaged_maps_are_refused);
  RUN_TEST(a_map_with_a_byte_changed_is_read_or_refused_but_never_crashes);
}

TEST_MAIN(RUN_SUITE(maps));
