/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "weave.h"

#define ROOM ((size_t)4 << 20)
#define GONE 0xdb
#define NEW 0xa5
#define PIECES 512
#define GRAIN 64

static _Alignas(64) unsigned char room[ROOM];
static size_t used;
static struct {
  unsigned char *at;
  size_t size;
  bool live;
} pieces[PIECES];
static unsigned made;
static unsigned live;
static bool gone[ROOM / GRAIN]; /* a grain belongs to at most one block */

void arena_reset(void) {
  used = 0;
  made = live = 0;
}

static void *take(size_t size, void *arg) {
  size_t rounded = (size + GRAIN + 15) / GRAIN * GRAIN; /* with a gap between blocks */

  (void)arg;
  WEAVE_CHECK(!model_is_guarded());
  weave_flush();
  if (made == PIECES || ROOM - used < rounded)
    weave_fail("the arena is too small");
  pieces[made].at = room + used;
  pieces[made].size = size;
  pieces[made++].live = true;
  live++;
  used += rounded;
  memset(room + used - rounded, NEW, rounded);
  memset(&gone[(used - rounded) / GRAIN], false, rounded / GRAIN);
  return room + used - rounded;
}

static void give(void *ptr, void *arg) {
  (void)arg;
  WEAVE_CHECK(!model_is_guarded());
  weave_flush();
  for (unsigned i = made; i > 0; i--) {
    if (pieces[i - 1].at != ptr)
      continue;
    if (!pieces[i - 1].live)
      weave_fail("freed twice");
    pieces[i - 1].live = false;
    live--;
    memset(ptr, GONE, pieces[i - 1].size);
    memset(&gone[(size_t)(pieces[i - 1].at - room) / GRAIN], true,
           (pieces[i - 1].size + GRAIN - 1) / GRAIN);
    return;
  }
  weave_fail("freed, but never allocated");
}

bool arena_is_gone(const volatile void *at) {
  uintptr_t offset = (uintptr_t)at - (uintptr_t)room;

  return offset < used && gone[offset / GRAIN];
}

uvs_allocator_t arena_option(void) {
  return (uvs_allocator_t){take, give, NULL};
}

void arena_check(void) {
  if (live != 0)
    weave_fail("%u pieces of memory were not given back", live);
  for (unsigned i = 0; i < made; i++) {
    const unsigned char *p = pieces[i].at;

    if (pieces[i].size > 0 && (p[0] != GONE || memcmp(p, p + 1, pieces[i].size - 1) != 0))
      weave_fail("memory was written to after it was freed");
  }
}
