/* SPDX-License-Identifier: MIT
 *
 * The wheel in front of the heap. What a scheduler does with slots is played here by hand; after
 * every step uvs__wheel_check must hold, and the random runs compare with a list that is searched
 * from end to end.
 */
#include "agenda.h"

#include <string.h>

#include "lib/unit.h"

#define TICK (UINT64_C(1) << UVS__TICK_BITS)
/* A day after the machine was started, and not at the border of anything. */
#define START_NS (UINT64_C(86400) * 1000000000 + 123456789)

/* A wheel with the slots of an agenda, whose own wheel it is. */
struct yard {
  struct uvs__agenda agenda;
  struct uvs__wheel *w;
  struct fault fault;
  uvs_allocator_t mem;
};

static int yard_init(struct yard *y) {
  int rc;

  fault_init(&y->fault);
  y->mem = fault_option(&y->fault);
  rc = uvs__agenda_init(&y->agenda, &y->mem);
  y->w = &y->agenda.wheel;
  y->w->now_ns = START_NS;
  return rc;
}

static bool yard_destroy(struct yard *y) {
  uvs__agenda_destroy(&y->agenda);
  return y->fault.live == 0;
}

static struct uvs__slot *at(struct yard *y, uint32_t slot) {
  return uvs__agenda_slot(&y->agenda, slot);
}

static uint64_t key(struct yard *y, uint32_t slot) {
  return (atomic_load(&at(y, slot)->seq_cold) & ~(uint64_t)UVS__SLOT_MASK) | slot;
}

static uint64_t deadline(struct yard *y, uint32_t slot) {
  return atomic_load(&at(y, slot)->deadline_ns);
}

static uint32_t fresh(struct yard *y) {
  uint32_t slot;

  if (uvs__agenda_take_slot(&y->agenda, 0, false, false, &slot) < 0)
    abort();
  atomic_store(&at(y, slot)->word, uvs__word_in(atomic_load(&at(y, slot)->word), UVS__WAITING));
  uvs__agenda_number(&y->agenda, slot);
  return slot;
}

static void put(struct yard *y, uint32_t slot, uint64_t deadline_ns) {
  atomic_store(&at(y, slot)->deadline_ns, deadline_ns);
  uvs__wheel_put(y->w, slot, deadline_ns, key(y, slot));
}

static uint32_t add(struct yard *y, uint64_t deadline_ns) {
  uint32_t slot = fresh(y);

  put(y, slot, deadline_ns);
  return slot;
}

/* As the loop pushes back: the queue is not told when to. */
static void push_back(struct yard *y, uint32_t slot, uint64_t deadline_ns) {
  uvs__wheel_push_back(y->w, slot, deadline(y, slot));
  atomic_store(&at(y, slot)->deadline_ns, deadline_ns);
}

static void move(struct yard *y, uint32_t slot, uint64_t deadline_ns) {
  atomic_store(&at(y, slot)->deadline_ns, deadline_ns);
  uvs__wheel_move(y->w, slot, deadline_ns, key(y, slot));
}

/* The first of all, with its true deadline; UVS__NONE. False in *ret_sane if a check failed on the
 * way, or a step was longer than it may be. */
static uint32_t first(struct yard *y, bool *ret_sane) {
  struct uvs__heap_entry e;
  unsigned n;

  for (;;) {
    while ((n = uvs__wheel_step(y->w)) > 0)
      *ret_sane &= n <= 16 && uvs__wheel_check(y->w);
    if (!uvs__wheel_head(y->w, &e))
      return UVS__NONE;
    if (deadline(y, uvs__heap_slot(&e)) <= e.deadline_ns)
      return uvs__heap_slot(&e);
    if (deadline(y, uvs__heap_slot(&e)) >= UVS__NEVER)
      uvs__wheel_remove(y->w, uvs__heap_slot(&e));
    else
      uvs__wheel_move(y->w, uvs__heap_slot(&e), deadline(y, uvs__heap_slot(&e)), e.key);
  }
}

static uint32_t take(struct yard *y) {
  bool sane = true;
  uint32_t slot = first(y, &sane);

  if (!sane)
    return UVS__NONE - 1;
  if (slot != UVS__NONE)
    uvs__wheel_remove(y->w, slot);
  return slot;
}

/* Is it in no heap and no front: did it cost nothing but a link? */
static uint32_t in_buckets(struct yard *y) {
  uint32_t n = 0;

  for (uint32_t list = 0; list < UVS__BUCKETS; list++)
    for (uint32_t slot = y->w->list[list].ends.b; (slot & UVS__LIST_MARK) == 0;
         slot = uvs__wheel_link(y->w, slot)->b)
      n++;
  return n;
}

TEST an_empty_wheel_has_no_head(void) {
  struct uvs__heap_entry e;
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  ASSERT_U64(0, uvs__wheel_step(y.w));
  ASSERT_FALSE(uvs__wheel_head(y.w, &e));
  ASSERT(uvs__wheel_check(y.w));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* One at each border of each level, from below and from above, in three orders of arrival. */
TEST entries_at_every_border_come_out_in_order(void) {
  for (int order = 0; order < 3; order++) {
    uint64_t due_ns[UVS__LEVELS * 6 + 2];
    unsigned n = 0;
    struct yard y;

    ASSERT_RC(0, yard_init(&y));
    due_ns[n++] = 0;
    for (unsigned level = 0; level < UVS__LEVELS; level++) {
      uint64_t width = TICK << level * UVS__DIGIT_BITS;
      uint64_t border_ns = (START_NS / width + 1) * width;

      if (border_ns >= UVS__NEVER - 1)
        border_ns = UVS__NEVER - 2;
      due_ns[n++] = border_ns - 1;
      due_ns[n++] = border_ns;
      due_ns[n++] = border_ns + 1;
      due_ns[n++] = border_ns + (UVS__NEVER - border_ns > 64 * width ? 63 * width : 0);
      due_ns[n++] = border_ns;
    }
    due_ns[n++] = UVS__NEVER - 1;
    for (unsigned i = 0; i < n; i++) {
      add(&y, due_ns[order == 0 ? i : order == 1 ? n - 1 - i : i * 7 % n]);
      ASSERT(uvs__wheel_check(y.w));
    }
    for (uint64_t last_ns = 0, last_key = 0; n > 0; n--) {
      uint32_t slot = take(&y);

      ASSERT(slot < UVS__NONE - 1);
      ASSERT(deadline(&y, slot) >= last_ns);
      ASSERT(deadline(&y, slot) > last_ns || key(&y, slot) > last_key);
      last_ns = deadline(&y, slot);
      last_key = key(&y, slot);
      ASSERT(uvs__wheel_check(y.w));
    }
    ASSERT_U64(UVS__NONE, take(&y));
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

/* W1: what is far costs a link, and no more. */
TEST what_is_far_is_not_in_the_heap(void) {
  enum { N = 20000 };
  uint64_t random = test_seed;
  bool sane = true;
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (int i = 0; i < N; i++)
    add(&y, START_NS + 1000000000 + test_random_below(&random, UINT64_C(59000000000)));
  ASSERT_U64(N, in_buckets(&y));
  first(&y, &sane);
  ASSERT(sane);
  ASSERT(in_buckets(&y) > N - 100);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* W3: all at one instant, the front gets them all in one step, and the heap none. */
TEST one_instant_is_pulled_at_once(void) {
  enum { N = 5000 };
  uint64_t due_ns = START_NS + UINT64_C(7200000000000);
  bool sane = true;
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (uint32_t i = 0; i < N; i++)
    add(&y, due_ns);
  ASSERT_U64(1, uvs__wheel_step(y.w));
  ASSERT_U64(0, uvs__wheel_step(y.w));
  for (uint64_t i = 1; i <= N; i++) {
    uint32_t slot = first(&y, &sane);

    ASSERT(sane);
    ASSERT_U64(i, key(&y, slot) >> UVS__SLOT_BITS);
    ASSERT_U64(0, y.w->heap.count);
    uvs__wheel_remove(y.w, slot);
  }
  ASSERT_U64(UVS__NONE, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* So does what is due at once, or with one delay after the other: in order it comes, and in order
 * it stays. */
TEST what_comes_in_order_does_not_see_the_heap(void) {
  enum { N = 5000 };
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (uint64_t i = 0; i < N; i++) {
    add(&y, START_NS + i * 1000);
    add(&y, START_NS + UINT64_C(5000000000) + i * 100000);
  }
  for (uint64_t i = 1; i <= 2 * N; i++) {
    uint32_t slot = take(&y);

    ASSERT(slot < UVS__NONE - 1);
    ASSERT_U64(i <= N ? 2 * i - 1 : 2 * (i - N), key(&y, slot) >> UVS__SLOT_BITS);
    ASSERT_U64(0, y.w->heap.count);
  }
  ASSERT_U64(UVS__NONE, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* A large bucket comes down a few at a time, and may be added to and taken from meanwhile. */
TEST a_bucket_comes_down_step_by_step(void) {
  enum { N = 1000 };
  uint64_t from_ns = (START_NS / TICK + 5) * TICK;
  static uint32_t slot[N];
  struct uvs__heap_entry e;
  unsigned steps = 0, n;
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (uint32_t i = 0; i < N; i++)
    slot[i] = add(&y, from_ns + (N - i) * 64);
  while ((n = uvs__wheel_step(y.w)) > 0) {
    ASSERT(n <= 16);
    ASSERT(uvs__wheel_check(y.w));
    steps++;
    if (steps == 10) { /* one of those that are on their way, one that is there, and a new one */
      uvs__wheel_remove(y.w, slot[N - 1]);
      uvs__wheel_remove(y.w, slot[0]);
      slot[0] = add(&y, from_ns + 32);
      ASSERT(uvs__wheel_check(y.w));
    }
  }
  ASSERT(steps >= N / 16);
  ASSERT_U64(N - 1, y.w->count);
  ASSERT(uvs__wheel_head(y.w, &e));
  ASSERT_U64(slot[0], uvs__heap_slot(&e));
  ASSERT_U64(slot[0], take(&y));
  for (uint32_t i = N - 2; i > 0; i--)
    ASSERT_U64(slot[i], take(&y));
  ASSERT_U64(UVS__NONE, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* The first was an hour away, and alone; what comes then must not all go through the heap. */
TEST a_far_first_one_does_not_spoil_it_for_the_near(void) {
  enum { N = 10000 };
  uint64_t random = test_seed;
  uint64_t last_ns = 0;
  bool sane = true;
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (int i = 0; i < 3; i++)
    add(&y, START_NS + UINT64_C(3600000000000) + (uint64_t)i * TICK / 2);
  first(&y, &sane); /* the timer is armed for it */
  for (int i = 0; i < N; i++) {
    add(&y, START_NS + 1000000 + test_random_below(&random, UINT64_C(60000000000)));
    ASSERT(y.w->heap.count <= 200);
    if (i % 100 == 0)
      ASSERT(uvs__wheel_check(y.w));
  }
  for (int i = 0; i < N + 3; i++) {
    uint32_t slot = take(&y);

    ASSERT(slot < UVS__NONE - 1);
    ASSERT(deadline(&y, slot) >= last_ns);
    last_ns = deadline(&y, slot);
  }
  ASSERT_U64(UVS__NONE, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* One short time-out at a time, armed and cancelled, beside many that are an hour away and in the
 * front: nobody else is moved for that. */
TEST a_lone_short_one_moves_nobody_else(void) {
  enum { N = 1000 };
  bool sane = true;
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (int i = 0; i < N; i++)
    add(&y, START_NS + UINT64_C(3600000000000));
  first(&y, &sane);
  for (uint64_t i = 0; i < 10 * N; i++) {
    uint32_t slot = add(&y, START_NS + 1000000);

    ASSERT_U64(1, y.w->heap.count);
    ASSERT_U64(0, uvs__wheel_step(y.w));
    ASSERT_U64(slot, first(&y, &sane));
    uvs__wheel_remove(y.w, slot);
    ASSERT_U64(0, uvs__wheel_step(y.w));
  }
  ASSERT(yard_destroy(&y));
  PASS();
}

/* In a bucket, in the front and in the heap. */
TEST a_push_back_hides_nobody(void) {
  for (int where = 0; where < 3; where++) {
    uint64_t due_ns = START_NS + 50 * TICK;
    uint32_t slot[4];
    bool sane = true;
    struct yard y;

    ASSERT_RC(0, yard_init(&y));
    for (uint32_t i = 0; i < 4; i++)
      slot[i] = add(&y, due_ns - (where == 2 ? i : 0));
    if (where > 0)
      ASSERT_U64(where == 1 ? slot[0] : slot[3], first(&y, &sane));
    for (uint32_t i = 0; i < 4; i++) {
      push_back(&y, slot[i], due_ns + (4 - i) * 10);
      ASSERT(uvs__wheel_check(y.w));
    }
    push_back(&y, slot[1], due_ns + 35); /* again */
    for (uint32_t i = 4; i-- > 0;)
      ASSERT_U64(slot[i], take(&y));
    ASSERT_U64(UVS__NONE, take(&y));
    ASSERT(sane);
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

/* Another thread moves without a word; the loop sees it by MOVING or INBOX, and must not let that
 * one stand before those behind it. */
TEST one_in_anothers_hand_hides_nobody(void) {
  static const uint64_t mark[] = {UVS__MOVING, UVS__INBOX};

  for (int m = 0; m < 2; m++)
    for (int how = 0; how < 3; how++) { /* pulled before, pulled after, and not in order */
      uint64_t due_ns = START_NS + 50 * TICK;
      uint32_t slot[4], between;
      bool sane = true;
      struct yard y;

      ASSERT_RC(0, yard_init(&y));
      for (uint32_t i = 0; i < 4; i++)
        slot[i] = add(&y, due_ns + i);
      between = add(&y, due_ns + 70 * TICK); /* of the first's old and its new deadline */
      if (how == 2)
        uvs__wheel_remove(y.w, add(&y, due_ns));
      if (how == 0)
        ASSERT_U64(slot[0], first(&y, &sane));
      atomic_fetch_or(&at(&y, slot[0])->word, mark[m]);
      atomic_store(&at(&y, slot[0])->deadline_ns, due_ns + 100 * TICK);
      atomic_fetch_or(&at(&y, slot[1])->word, mark[m]);
      atomic_store(&at(&y, slot[1])->deadline_ns, UVS__NEVER);
      ASSERT_U64(slot[2], first(&y, &sane));
      ASSERT(sane);
      ASSERT(uvs__wheel_has(y.w, slot[0]));
      ASSERT_FALSE(uvs__wheel_has(y.w, slot[1]));
      ASSERT_U64(4, y.w->count);
      ASSERT_U64(slot[2], take(&y));
      ASSERT_U64(slot[3], take(&y));
      ASSERT_U64(between, take(&y));
      ASSERT_U64(slot[0], take(&y));
      ASSERT(yard_destroy(&y));
    }
  PASS();
}

TEST who_is_moved_far_away_leaves_the_heap(void) {
  uint32_t slot[2];
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (uint32_t i = 0; i < 2; i++)
    slot[i] = add(&y, START_NS - i); /* the front, and the heap */
  ASSERT_U64(1, y.w->heap.count);
  for (uint32_t i = 0; i < 2; i++) {
    move(&y, slot[i], START_NS + 1000 * TICK - i);
    ASSERT(uvs__wheel_check(y.w));
  }
  ASSERT_U64(2, in_buckets(&y));
  ASSERT_U64(0, y.w->heap.count);
  move(&y, slot[0], START_NS); /* and back */
  ASSERT_U64(slot[0], take(&y));
  ASSERT_U64(slot[1], take(&y));
  ASSERT_U64(2, y.w->puts);
  ASSERT_U64(3, y.w->moves);
  ASSERT_U64(2, y.w->removals);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* ---- several at once ---- */

/* L20: equal deadlines keep their sequence, whichever of them are in the heap. */
TEST the_front_gives_way_to_the_heap_also_among_equals(void) {
  uint32_t slot[8], got[8];
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (uint32_t i = 0; i < 8; i++)
    slot[i] = fresh(&y);
  for (uint32_t i = 1; i < 8; i += 2) /* in order: the front */
    put(&y, slot[i], START_NS);
  for (uint32_t i = 0; i < 8; i += 2) /* each of an older number than the front's last: the heap */
    put(&y, slot[i], START_NS);
  ASSERT_U64(4, y.w->heap.count);
  for (uint32_t i = 0; i < 8; i++) {
    if (i % 2 == 0) {
      ASSERT_U64(0, uvs__wheel_take_front(y.w, START_NS, got, 8));
      ASSERT_U64(slot[i], take(&y));
    } else {
      ASSERT_U64(0, uvs__wheel_take_front(y.w, START_NS - 1, got, 8)); /* never early */
      ASSERT_U64(1, uvs__wheel_take_front(y.w, START_NS, got, 8));
      ASSERT_U64(slot[i], got[0]);
      ASSERT_FALSE(uvs__wheel_has(y.w, got[0]));
    }
    ASSERT(uvs__wheel_check(y.w));
  }
  ASSERT_U64(0, uvs__wheel_take_front(y.w, UVS__NEVER, got, 8));
  ASSERT_U64(0, y.w->count);
  ASSERT(yard_destroy(&y));
  PASS();
}

TEST no_more_than_asked_for_leave_the_front(void) {
  enum { N = 100 };
  uint32_t slot[N], got[N];
  unsigned taken = 0;
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (uint32_t i = 0; i < N; i++)
    slot[i] = add(&y, START_NS + i / 10);
  for (unsigned most = 0; taken < N; most++) {
    unsigned n = uvs__wheel_take_front(y.w, START_NS + 9, got, most);

    ASSERT_U64(most < N - taken ? most : N - taken, n);
    for (unsigned i = 0; i < n; i++)
      ASSERT_U64(slot[taken++], got[i]);
    ASSERT_U64(N - taken, y.w->count);
    ASSERT(uvs__wheel_check(y.w));
  }
  ASSERT_U64(N, y.w->removals);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* What falls may be earlier than what is in front: nothing is taken before it is filed. */
TEST while_some_fall_the_front_is_left_alone(void) {
  enum { N = 40 };
  uint64_t from_ns = (START_NS / TICK + 5) * TICK;
  uint32_t got[4], last;
  struct yard y;

  ASSERT_RC(0, yard_init(&y));
  for (uint32_t i = 0; i < N; i++)
    add(&y, from_ns + 100 + i);
  last = add(&y, from_ns + 3); /* not in order, so they fall a few at a time, and it the last */
  while (uvs__wheel_step(y.w) != 16) {
  }
  ASSERT_U64(0, y.w->list[UVS__FALLING].ends.b & UVS__LIST_MARK);
  ASSERT_U64(0, uvs__wheel_take_front(y.w, from_ns + TICK, got, 4));
  ASSERT_U64(last, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* Another thread has moved the first: it stays, filed for what it says now, or goes if that is
 * never; and those behind it are not held up. */
TEST one_in_anothers_hand_is_not_taken_from_the_front(void) {
  static const uint64_t mark[] = {UVS__MOVING, UVS__INBOX};
  static const uint64_t to_ns[] = {START_NS - 5, START_NS, START_NS + 2, START_NS + 500 * TICK,
                                   UVS__NEVER};

  for (unsigned m = 0; m < 2; m++)
    for (unsigned k = 0; k < 5; k++) {
      uint32_t slot[4], got[4];
      unsigned n = 0, part;
      struct yard y;

      ASSERT_RC(0, yard_init(&y));
      for (uint32_t i = 0; i < 4; i++)
        slot[i] = add(&y, START_NS + i);
      atomic_fetch_or(&at(&y, slot[0])->word, mark[m]);
      atomic_store(&at(&y, slot[0])->deadline_ns, to_ns[k]);
      do { /* what it says now may be earlier than what is behind it: then the heap has a turn */
        bool sane = true;

        part = uvs__wheel_take_front(y.w, START_NS + 9, got + n, 4 - n);
        for (unsigned i = n; i < n + part; i++)
          ASSERT_U64(slot[i + 1], got[i]);
        n += part;
        ASSERT(uvs__wheel_check(y.w));
        if (n < 3)
          ASSERT_U64(slot[0], first(&y, &sane));
        ASSERT(sane);
      } while (part > 0 && n < 3);
      ASSERT(n == 3 || to_ns[k] <= START_NS + 2);
      ASSERT_U64((k != 4 ? 4u : 3u) - n, y.w->count);
      ASSERT_EQ(k != 4, uvs__wheel_has(y.w, slot[0]));
      ASSERT(yard_destroy(&y));
    }
  PASS();
}

/* ------------------------------------------------------------------- random --- */

#define TASKS 400

struct task {
  bool live;
  bool moving; /* another thread has it in hand */
  uint32_t slot;
  uint64_t deadline_ns;
  uint64_t number;
};

static int naive_first(const struct task *t) {
  int best = -1;

  for (int i = 0; i < TASKS; i++)
    if (t[i].live && !t[i].moving && t[i].deadline_ns < UVS__NEVER &&
        (best < 0 || t[i].deadline_ns < t[best].deadline_ns ||
         (t[i].deadline_ns == t[best].deadline_ns && t[i].number < t[best].number)))
      best = i;
  return best;
}

/* Near and far, close to borders, equal to others. */
static uint64_t some_ns(uint64_t *random, const struct task *t, uint64_t now_ns) {
  unsigned level = (unsigned)test_random_below(random, UVS__LEVELS);
  uint64_t width = TICK << level * UVS__DIGIT_BITS;
  uint64_t ns;

  switch (test_random_below(random, 6)) {
  case 0:
    ns = now_ns + test_random_below(random, 2 * TICK);
    break;
  case 1:
    ns = (now_ns / width + 1 + test_random_below(random, 2)) * width +
         test_random_below(random, 3) - 1;
    break;
  case 2:
    ns = t[test_random_below(random, TASKS)].deadline_ns;
    break;
  case 3:
    ns = now_ns + test_random_below(random, 200 * TICK);
    break;
  case 4:
    ns = UVS__NEVER - 1 - test_random_below(random, 3);
    break;
  default:
    ns = now_ns + test_random_below(random, width);
  }
  return ns < now_ns ? now_ns : ns >= UVS__NEVER ? UVS__NEVER - 1 : ns;
}

/* The loop hears of all who are in others' hands, so that there is one truth. */
static void let_go_of_all(struct yard *y, struct task *t) {
  for (int k = 0; k < TASKS; k++) {
    if (!t[k].live || !t[k].moving)
      continue;
    t[k].moving = false;
    atomic_fetch_and(&at(y, t[k].slot)->word, ~UVS__MOVING);
    uvs__agenda_insert(&y->agenda, t[k].slot, atomic_load(&at(y, t[k].slot)->word));
  }
}

/* All that is due by then, in batches as a turn of the loop takes it: first what the front gives,
 * then one by one. In order, to the last. */
static enum greatest_test_res take_all_due(struct yard *y, struct task *t, uint64_t *random,
                                           uint64_t until_ns) {
  uint32_t got[64];

  for (;;) {
    unsigned most = 1 + (unsigned)test_random_below(random, 64);
    unsigned n;
    int i;

    for (uint64_t k = test_random_below(random, 3); k > 0; k--) /* some may be half-way down */
      uvs__wheel_step(y->w);
    n = uvs__wheel_take_front(y->w, until_ns, got, most);

    ASSERT(n <= most);
    ASSERT(uvs__wheel_check(y->w));
    for (unsigned k = 0; k < n; k++) {
      i = naive_first(t);
      ASSERT(i >= 0);
      ASSERT_U64(t[i].slot, got[k]);
      ASSERT(t[i].deadline_ns <= until_ns);
      t[i].live = false;
    }
    for (; n < most; n++) {
      bool sane = true;
      uint32_t slot = first(y, &sane);

      i = naive_first(t);
      ASSERT(sane);
      ASSERT_U64(i < 0 ? UVS__NONE : t[i].slot, slot);
      if (i < 0 || t[i].deadline_ns > until_ns)
        PASS();
      uvs__wheel_remove(y->w, slot);
      t[i].live = false;
    }
  }
}

static enum greatest_test_res random_run(uint64_t *random, int steps, bool crowded) {
  static struct task t[TASKS];
  uint64_t now_ns = START_NS, numbers = 0;
  bool sane = true;
  struct yard y;

  memset(t, 0, sizeof t);
  ASSERT_RC(0, yard_init(&y));
  for (int step = 0; step < steps; step++) {
    struct task *x = &t[test_random_below(random, TASKS)];
    int i;

    y.w->now_ns = now_ns;
    switch (test_random_below(random, crowded ? 9 : 13)) {
    case 0:
    case 1:
    case 2:
      if (x->live)
        break;
      x->live = true;
      x->deadline_ns = some_ns(random, t, now_ns);
      x->number = ++numbers;
      x->slot = add(&y, x->deadline_ns);
      break;
    case 3:
      if (!x->live || x->moving || test_random_below(random, 3) == 0)
        break;
      x->live = false;
      if (uvs__wheel_has(y.w, x->slot))
        uvs__wheel_remove(y.w, x->slot);
      atomic_store(&at(&y, x->slot)->word,
                   uvs__word_in(atomic_load(&at(&y, x->slot)->word), UVS__FREE));
      uvs__agenda_give_slot(&y.agenda, 0, x->slot);
      break;
    case 4:
      if (!x->live || x->moving || x->deadline_ns == UVS__NEVER)
        break;
      x->deadline_ns = some_ns(random, t, x->deadline_ns);
      push_back(&y, x->slot, x->deadline_ns);
      break;
    case 5:
      if (!x->live || x->moving)
        break;
      x->deadline_ns = some_ns(random, t, now_ns);
      if (uvs__wheel_has(y.w, x->slot))
        move(&y, x->slot, x->deadline_ns);
      else
        put(&y, x->slot, x->deadline_ns);
      break;
    case 6: /* another thread takes it in hand, or the loop hears of it */
      if (!x->live)
        break;
      x->moving = !x->moving;
      if (x->moving) {
        x->deadline_ns = test_random_below(random, 8) == 0 ? UVS__NEVER : some_ns(random, t, 0);
        atomic_fetch_or(&at(&y, x->slot)->word, UVS__MOVING);
        atomic_store(&at(&y, x->slot)->deadline_ns, x->deadline_ns);
        break;
      }
      atomic_fetch_and(&at(&y, x->slot)->word, ~UVS__MOVING);
      uvs__agenda_insert(&y.agenda, x->slot, atomic_load(&at(&y, x->slot)->word));
      break;
    case 7:
      uvs__wheel_step(y.w);
      break;
    case 8: { /* what the timer is armed for is not later than the first */
      uint64_t next_ns = uvs__agenda_next(&y.agenda, false);

      i = naive_first(t);
      ASSERT(i < 0 || next_ns <= t[i].deadline_ns);
      break;
    }
    case 9: /* let some time pass, and take all of it */
      let_go_of_all(&y, t);
      i = naive_first(t);
      if (i < 0 || t[i].deadline_ns > UVS__NEVER / 2)
        break;
      now_ns = now_ns > t[i].deadline_ns ? now_ns : t[i].deadline_ns;
      now_ns += test_random_below(random, 3) == 0 ? test_random_below(random, 100 * TICK) : 0;
      CHECK_CALL(take_all_due(&y, t, random, now_ns));
      break;
    default:
      for (uint64_t n = test_random_below(random, 4); n > 0; n--) {
        uint32_t slot;

        let_go_of_all(&y, t);
        i = naive_first(t);
        slot = first(&y, &sane);
        ASSERT(sane);
        ASSERT_U64(i < 0 ? UVS__NONE : t[i].slot, slot);
        if (i < 0)
          break;
        if (t[i].deadline_ns > UVS__NEVER / 2)
          break; /* do not go to the end of time yet */
        now_ns = now_ns > t[i].deadline_ns ? now_ns : t[i].deadline_ns;
        uvs__wheel_remove(y.w, slot);
        t[i].deadline_ns = some_ns(random, t, now_ns); /* the next period */
        put(&y, slot, t[i].deadline_ns);
      }
    }
    ASSERT(uvs__wheel_check(y.w));
  }
  let_go_of_all(&y, t);
  for (int i; (i = naive_first(t)) >= 0;) { /* to the end of time */
    ASSERT_U64(t[i].slot, take(&y));
    t[i].live = false;
  }
  ASSERT_U64(UVS__NONE, take(&y));
  ASSERT_U64(0, y.w->count);
  ASSERT(yard_destroy(&y));
  PASS();
}

TEST random_runs_agree_with_a_searched_list(void) {
  uint64_t random = test_seed;

  for (int run = 0; run < 20; run++)
    CHECK_CALL(random_run(&random, 3000, run % 2 == 0));
  PASS();
}

SUITE(wheel) {
  RUN_TEST(an_empty_wheel_has_no_head);
  RUN_TEST(entries_at_every_border_come_out_in_order);
  RUN_TEST(what_is_far_is_not_in_the_heap);
  RUN_TEST(one_instant_is_pulled_at_once);
  RUN_TEST(what_comes_in_order_does_not_see_the_heap);
  RUN_TEST(a_bucket_comes_down_step_by_step);
  RUN_TEST(a_far_first_one_does_not_spoil_it_for_the_near);
  RUN_TEST(a_lone_short_one_moves_nobody_else);
  RUN_TEST(a_push_back_hides_nobody);
  RUN_TEST(one_in_anothers_hand_hides_nobody);
  RUN_TEST(who_is_moved_far_away_leaves_the_heap);
  RUN_TEST(the_front_gives_way_to_the_heap_also_among_equals);
  RUN_TEST(no_more_than_asked_for_leave_the_front);
  RUN_TEST(while_some_fall_the_front_is_left_alone);
  RUN_TEST(one_in_anothers_hand_is_not_taken_from_the_front);
  RUN_TEST(random_runs_agree_with_a_searched_list);
}

TEST_MAIN(RUN_SUITE(wheel));
