/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

static bool make_room(struct uvs__words *w) {
  int room = w->room == 0 ? 64 : 2 * w->room;
  const char **words;
  size_t *sizes;

  if (w->n < w->room)
    return true;
  words = uvs__jobs_realloc(w->words, (size_t)room * sizeof *words);
  if (words != NULL)
    w->words = words;
  sizes = uvs__jobs_realloc(w->sizes, (size_t)room * sizeof *sizes);
  if (sizes != NULL)
    w->sizes = sizes;
  if (words == NULL || sizes == NULL)
    return false;
  w->room = room;
  return true;
}

void uvs__words_add(struct uvs__words *w, const void *data, size_t size) {
  w->no_memory = w->no_memory || !make_room(w);
  if (w->no_memory)
    return;
  w->words[w->n] = size == 0 ? "" : data;
  w->sizes[w->n++] = size;
  w->bytes += size;
}

void uvs__words_text(struct uvs__words *w, const char *text) {
  uvs__words_add(w, text, text == NULL ? 0 : strlen(text));
}

static void add_copy(struct uvs__words *w, const char *text, int length) {
  char *copy = uvs__arena_copy(&w->arena, text, (size_t)length);

  w->no_memory = w->no_memory || copy == NULL;
  uvs__words_add(w, copy, (size_t)length);
}

void uvs__words_int(struct uvs__words *w, int64_t number) {
  static const char *const small[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  char text[24];

  if (number >= 0 && number < 10)
    uvs__words_add(w, small[number], 1);
  else
    add_copy(w, text, snprintf(text, sizeof text, "%" PRId64, number));
}

void uvs__words_when(struct uvs__words *w, struct uvs__when when) {
  char text[24];

  if (when.delay_us == 0)
    uvs__words_text(w, "+0");
  else if (when.delay_us > 0)
    add_copy(w, text, snprintf(text, sizeof text, "+%" PRId64, when.delay_us));
  else
    uvs__words_int(w, when.at_us);
}

void uvs__words_free(struct uvs__words *w) {
  uvs__arena_free(&w->arena);
  uvs__jobs_free(w->words);
  uvs__jobs_free(w->sizes);
  memset(w, 0, sizeof *w);
}
