/* SPDX-License-Identifier: MIT
 *
 * against-memory [--steps N] [--store NAME]: runs random programs of requests on two stores at
 * once, the store in memory and another one (fault test F12). It compares every answer, and every
 * few hundred steps the whole content. The clock moves at random, also back. Openers are closed
 * while jobs run, and opened again.
 *
 * Prints SEED; SEED=n repeats a run. Without NAME, each store of the fixture is compared, also
 * the store in memory with itself.
 */
#include <string.h>

#include "describe.h"
#include "random_calls.h"

uint64_t test_seed;

#define RING 30 /* the last steps, printed if something differs */

struct world {
  struct maker maker;
  struct store_fixture sides[2];
  int64_t next_us; /* of the last claim */
  long step;
  char *ring[RING];
};

/* ----------------------------------------------------------------- compare --- */

static void give_up(struct world *w, const char *what, const char *a, const char *b) {
  long i;

  printf("\nThe last steps:\n");
  for (i = w->step < RING ? 0 : w->step - RING + 1; i <= w->step; i++) {
    if (w->ring[i % RING] != NULL)
      printf("%s", w->ring[i % RING]);
  }
  printf("\nstep %ld: %s differs\n--- memory:\n%s--- %s:\n%sSEED=%llu\n", w->step, what, a,
         w->sides[1].kind->name, b, (unsigned long long)test_seed);
  printf("%s\n", w->sides[1].at->trouble);
  exit(1);
}

/* The lines that differ are easier to read than two whole contents. */
static void compare_contents(struct world *w) {
  char *text[2];
  size_t size[2];
  int side;

  for (side = 0; side < 2; side++) {
    FILE *to = open_memstream(&text[side], &size[side]);

    describe_store(to, w->sides[side].at, w->sides[1].kind->server);
    fclose(to);
  }
  if (strcmp(text[0], text[1]) != 0) {
    size_t i = 0;

    while (text[0][i] == text[1][i])
      i++;
    while (i > 0 && text[0][i - 1] != '\n')
      i--;
    give_up(w, "the content, from this line on,", text[0] + i, text[1] + i);
  }
  free(text[0]);
  free(text[1]);
}

/* A page may be short, so requests with cursors are repeated until all has been looked at. Returns
 * true if there is more to do. */
static bool go_on(struct call *c) {
  switch (c->head.op) {
  case UVS__LIST:
    c->list.cursor = c->list.next;
    return c->head.status == 0 && c->list.next != 0;
  case UVS__REDRIVE:
  case UVS__PURGE:
    c->bulk.cursor = c->bulk.next;
    return c->head.status == 0 && c->bulk.next != 0;
  case UVS__EVENTS:
    c->events.after = c->events.n == 0 ? c->events.last : c->events.events[c->events.n - 1].number;
    return c->head.status == 0 && c->events.after < c->events.last;
  case UVS__TRIM: /* which records go first is not defined, and a clock set back shows it */
    return c->head.status == 0 && c->trim.count > 0;
  default:
    return false;
  }
}

static bool has_pages(enum uvs__op op) {
  return op == UVS__LIST || op == UVS__REDRIVE || op == UVS__PURGE || op == UVS__EVENTS ||
         op == UVS__TRIM;
}

/* Lists of a server have no order, and pages of another size. */
static void write_pages(FILE *to, char *text, bool sorted) {
  if (sorted)
    describe_sorted(to, text);
  else
    fputs(text, to);
  free(text);
}

static void run_pages(struct store_fixture *f, struct call *c, bool sorted, FILE *whole) {
  uint64_t count = 0;
  bool more;
  char *text;
  size_t size;
  FILE *to = open_memstream(&text, &size);

  do {
    c->head.next = NULL;
    store_run(f, &c->head);
    if (c->head.op == UVS__REDRIVE || c->head.op == UVS__PURGE)
      count += c->bulk.count;
    else
      describe_answer(to, &c->head);
    more = go_on(c);
    free_answer(&c->head);
  } while (more);
  fclose(to);
  write_pages(whole, text, sorted);
  fprintf(whole, "  status=%d total=%llu\n", c->head.status, (unsigned long long)count);
}

/* Runs n requests as a batch; the questions and answers are written to `to`. */
static void run_batch(struct world *w, int side, struct call *calls, size_t n, FILE *to) {
  struct store_fixture *f = &w->sides[side];
  size_t i;

  for (i = 0; i + 1 < n; i++)
    calls[i].head.next = &calls[i + 1].head;
  calls[n - 1].head.next = NULL;
  store_run(f, &calls[0].head);
  for (i = 0; i < n; i++) {
    describe_answer(to, &calls[i].head);
    if (calls[i].head.op == UVS__CLAIM) {
      remember_claims(&w->maker, side, &calls[i].claim);
      w->next_us = calls[i].claim.next_us;
    }
    free_answer(&calls[i].head);
  }
}

/* A server needs two steps for COUNT; so what follows in the batch could come between them. */
static void run_calls(struct world *w, int side, struct call *calls, size_t n, FILE *to) {
  size_t i, from = 0;

  for (i = 0; i < n; i++) {
    if (!has_pages(calls[i].head.op) && calls[i].head.op != UVS__COUNT)
      continue;
    if (i > from)
      run_batch(w, side, calls + from, i - from, to);
    if (calls[i].head.op == UVS__COUNT)
      run_batch(w, side, calls + i, 1, to);
    else
      run_pages(&w->sides[side], &calls[i],
                calls[i].head.op == UVS__LIST && w->sides[1].kind->server, to);
    from = i + 1;
  }
  if (n > from)
    run_batch(w, side, calls + from, n - from, to);
}

/* -------------------------------------------------------------------- steps --- */

static void remember_step(struct world *w, const struct call *calls, size_t n) {
  size_t size, i;
  FILE *to;

  free(w->ring[w->step % RING]);
  to = open_memstream(&w->ring[w->step % RING], &size);
  fprintf(to, "step %ld at %lld ns\n", w->step, (long long)w->sides[0].wall_ns);
  for (i = 0; i < n; i++) {
    fprintf(to, "  ");
    describe_question(to, &calls[i].head);
    fprintf(to, "\n");
  }
  fclose(to);
}

static void do_requests(struct world *w) {
  static struct call calls[2][3];
  size_t n = one_in(&w->maker, 4) ? 1 + below(&w->maker, 3) : 1, size, i;
  uint64_t before = w->maker.random;
  char *text[2];
  int side;

  for (side = 0; side < 2; side++) {
    w->maker.random = before;
    for (i = 0; i < n; i++)
      make_call(&w->maker, side, store_now(&w->sides[side]), &calls[side][i]);
  }
  remember_step(w, calls[0], n);
  for (side = 0; side < 2; side++) {
    FILE *to = open_memstream(&text[side], &size);

    run_calls(w, side, calls[side], n, to);
    fclose(to);
  }
  if (strcmp(text[0], text[1]) != 0)
    give_up(w, "an answer", text[0], text[1]);
  free(text[0]);
  free(text[1]);
}

static void move_clock(struct world *w) {
  int64_t ns = 0;

  switch (below(&w->maker, 64)) {
  case 0:
    ns = UVS_SEC(31);
    break;
  case 1:
    ns = one_in(&w->maker, 4) ? UVS_HOUR(1) : UVS_MIN(2);
    break;
  case 2:
    ns = one_in(&w->maker, 8) ? UVS_DAY(1) : 0;
    break;
  case 3:
    ns = one_in(&w->maker, 6) ? -UVS_HOUR(1) : -UVS_SEC(10);
    break;
  default:
    if (one_in(&w->maker, 8) && w->next_us > store_now(&w->sides[0]) &&
        w->next_us < UVS__NEVER_US / 2)
      ns = w->next_us * 1000 - w->sides[0].wall_ns;
    else if (one_in(&w->maker, 4))
      ns = (int64_t)below(&w->maker, 3000000) * 1000 + (int64_t)below(&w->maker, 1000);
    else if (one_in(&w->maker, 4))
      ns = (int64_t)below(&w->maker, 3000);
  }
  w->sides[0].wall_ns += ns;
  w->sides[1].wall_ns += ns;
}

/* Opens or closes the second opener, or closes the first opener and opens it again. */
static void change_openers(struct world *w) {
  uint64_t what = below(&w->maker, 3);
  int side;

  for (side = 0; side < 2; side++) {
    struct store_fixture *f = &w->sides[side];

    if (what == 0 && f->second == NULL) {
      if (store_open_second(f) != 0)
        exit(1);
    } else if (what == 1 && f->second != NULL) {
      store_end(f->second);
      f->second = NULL;
      f->at = f->first;
    } else if (store_reopen(f) != 0) {
      exit(1);
    }
  }
}

static void do_step(struct world *w) {
  bool second = one_in(&w->maker, 3);
  int side;

  move_clock(w);
  if (one_in(&w->maker, 200))
    change_openers(w);
  for (side = 0; side < 2; side++) {
    struct store_fixture *f = &w->sides[side];

    f->at = second && f->second != NULL ? f->second : f->first;
  }
  do_requests(w);
  for (side = 0; side < 2 && one_in(&w->maker, 20); side++)
    w->sides[side].at->ops->poll(w->sides[side].at);
  if (w->step % 300 == 299)
    compare_contents(w);
}

static void compare_with(const struct store_kind *memory, const struct store_kind *other,
                         long steps) {
  struct world *w = calloc(1, sizeof *w);
  int i;

  w->maker.random = test_seed;
  store_kind = memory;
  store_init(&w->sides[0]);
  store_kind = other;
  store_init(&w->sides[1]);
  for (w->step = 0; w->step < steps; w->step++)
    do_step(w);
  compare_contents(w);
  store_close(&w->sides[0]);
  store_close(&w->sides[1]);
  for (i = 0; i < RING; i++)
    free(w->ring[i]);
  printf("%ld steps: %s answers as memory does\n", steps, other->name);
  free(w);
}

/* Q49 */
int main(int argc, char **argv) {
  const struct store_kind *memory;
  const char *only = NULL;
  long steps = 100000;
  size_t i;

  for (i = 1; i + 1 < (size_t)argc; i += 2) {
    if (strcmp(argv[i], "--steps") == 0)
      steps = (long)strtod(argv[i + 1], NULL);
    else if (strcmp(argv[i], "--store") == 0)
      only = argv[i + 1];
    else
      break;
  }
  if (i != (size_t)argc || steps < 1) {
    fprintf(stderr, "usage: against-memory [--steps N] [--store NAME]\n");
    return 2;
  }
  test_seed_init();
  memory = store_kind_named("memory");
  if (only != NULL) {
    if (store_kind_named(only) == NULL) {
      fprintf(stderr, "there is no store \"%s\" in this build\n", only);
      return 2;
    }
    compare_with(memory, store_kind_named(only), steps);
    return 0;
  }
  for (i = 0; store_choose(i); i++) {
    if (store_kind != NULL)
      compare_with(memory, store_kind, steps);
  }
  return 0;
}
