/* SPDX-License-Identifier: MIT
 *
 * Zones used by several threads while their file is replaced again and again. Every table that a
 * thread gets must be whole. ThreadSanitizer sees the rest.
 */
#include "calendar/zone.h"

#include <pthread.h>

#include "calendar/folder.h"
#include "lib/unit.h"

#define READERS 3
#define REFRESHERS 2

static struct folder folder;
static _Atomic bool stop;
static _Atomic unsigned reads, wrong;

/* The last offset is the first one plus 1, so half of another table would be seen. */
static void write_zone(int32_t offset_s) {
  struct tzif_plan p = {.version = '2',
                        .types = 2,
                        .times = 1,
                        .offset_s = {offset_s, offset_s + 1},
                        .at_s = {1000},
                        .type = {1}};
  struct tzif_image m = image_of(&p);

  folder_write(&folder, "Zone", m.bytes, m.size);
}

static void read_once(const struct uvs__zone_table *t) {
  struct uvs__zone_span before, after;

  uvs__zone_find(t, 999, &before);
  uvs__zone_find(t, 1000, &after);
  if (after.offset_s != before.offset_s + 1 || after.before_s != before.offset_s ||
      before.end_s != 1000)
    atomic_fetch_add(&wrong, 1);
  atomic_fetch_add(&reads, 1);
}

/* Opens the zone, sometimes as the only one who has it open. */
static void *read_zone(void *unused) {
  (void)unused;
  while (!atomic_load(&stop)) {
    const struct uvs__zone_table *t;
    struct uvs__zone *z = NULL;
    char why[200];

    if (uvs__zone_open("Zone", &z, why, sizeof why) < 0) {
      atomic_fetch_add(&wrong, 1);
      continue;
    }
    for (int i = 0; i < 5; i++) {
      t = uvs__zone_table(z);
      read_once(t);
      uvs__zone_table_release(t);
    }
    t = uvs__zone_table(z);
    uvs__zone_close(z);
    read_once(t);
    uvs__zone_table_release(t);
  }
  return NULL;
}

static void *refresh_zones(void *unused) {
  uint64_t before = 0;

  (void)unused;
  while (!atomic_load(&stop)) {
    uint64_t generation = uvs__zones_refresh();

    if (generation < before)
      atomic_fetch_add(&wrong, 1);
    before = generation;
  }
  return NULL;
}

static unsigned rounds(void) {
  return getenv("UVS_STRESS") != NULL ? 20000 : 500;
}

/* K10 K11 */
TEST refreshes_beside_readers_give_whole_tables(void) {
  pthread_t threads[READERS + REFRESHERS];
  const struct uvs__zone_table *t;
  struct uvs__zone *z = NULL;
  struct uvs__zone_span s;
  uint64_t generation;
  char why[200];

  folder_make(&folder);
  setenv("TZDIR", folder.path, 1); /* before there are threads */
  write_zone(0);
  for (int i = 0; i < READERS + REFRESHERS; i++)
    folder_must(pthread_create(&threads[i], NULL, i < READERS ? read_zone : refresh_zones, NULL) ==
                    0,
                "thread");
  for (unsigned i = 1; i <= rounds(); i++) {
    if (i == rounds() / 2)
      ASSERT_RC(0, uvs__zone_open("Zone", &z, why, sizeof why)); /* from now on it stays open */
    write_zone((int32_t)i);
    uvs__zones_refresh();
  }
  while (atomic_load(&reads) < rounds())
    uvs__zones_refresh();
  atomic_store(&stop, true);
  for (int i = 0; i < READERS + REFRESHERS; i++)
    pthread_join(threads[i], NULL);
  ASSERT_U64(0, atomic_load(&wrong));
  generation = uvs__zones_refresh(); /* the last file has been seen, at the latest now */
  ASSERT_U64(generation, uvs__zones_refresh());
  ASSERT(generation > 0);
  t = uvs__zone_table(z);
  uvs__zone_find(t, 0, &s);
  ASSERT_EQ_FMT((int)rounds(), (int)s.offset_s, "%d");
  uvs__zone_table_release(t);
  uvs__zone_close(z);
  folder_unlink(&folder, "Zone");
  folder_must(rmdir(folder.path) == 0, folder.path);
  PASS();
}

SUITE(zone_threads) {
  RUN_TEST(refreshes_beside_readers_give_whole_tables);
}

TEST_MAIN(RUN_SUITE(zone_threads));
