/* SPDX-License-Identifier: MIT
 *
 * The road to the loop: push, take, sleep, wake; first the room alone, then the whole way.
 */
#include "scenes.h"

#include <string.h>

#include "arena.h"
#include "inbox.h"
#include "model.h"
#include "stage.h"

/* ---- the room alone ---- */

#define NUMBERS 8

static struct {
  uvs_allocator_t mem;
  struct uvs__agenda agenda;
  struct uvs__inbox inbox;
  uint32_t slot[NUMBERS];
  bool pushed[NUMBERS], refused[NUMBERS];
  bool sent; /* somebody has woken the loop */
  unsigned pushes;
  uint32_t got[NUMBERS];
  unsigned got_count;
  bool shut;
} in;

static void open_inbox(void) {
  memset(&in, 0, sizeof in);
  arena_reset();
  model_reset(0);
  in.mem = arena_option();
  WEAVE_SAME(0, uvs__agenda_init(&in.agenda, &in.mem));
  uvs__inbox_init(&in.inbox, &in.agenda);
  for (unsigned i = 0; i < NUMBERS; i++)
    WEAVE_SAME(0, uvs__agenda_take_slot(&in.agenda, 1, false, false, &in.slot[i]));
}

/* Its number among ours. */
static unsigned number_of(uint32_t slot) {
  for (unsigned i = 0; i < NUMBERS; i++) {
    if (in.slot[i] == slot)
      return i;
  }
  weave_fail("a slot that was never pushed");
}

static void push(unsigned i, bool fresh, uint64_t due_ns) {
  bool wake = false;

  in.pushed[i] = uvs__inbox_push(&in.inbox, in.slot[i], in.slot[i], fresh, due_ns, &wake);
  in.refused[i] = !in.pushed[i];
  if (wake) {
    weave_here();
    in.sent = true;
  }
}

static void push_two(void *arg) {
  unsigned first = *(unsigned *)arg;

  push(first, true, 5);
  push(first + 1, true, 5);
}

static void take(void) {
  bool shut;
  uint32_t last, before = UVS__NONE;
  uint32_t slot = uvs__inbox_take(&in.inbox, &last, &shut);

  while (slot != UVS__NONE) {
    WEAVE_CHECK(in.got_count < NUMBERS);
    in.got[in.got_count++] = number_of(slot);
    before = slot;
    slot = uvs__load(&uvs__agenda_slot(&in.agenda, slot)->next, relaxed);
  }
  WEAVE_SAME(before, last);
}

static bool was_sent(const void *arg) {
  (void)arg;
  return in.sent;
}

/* What the loop finds when it is shut is all that will ever come. */
static void take_until_shut(void) {
  for (;;) {
    uvs__inbox_lower(&in.inbox, UVS__AWAKE);
    take();
    if (uvs__inbox_is_shut(&in.inbox) && uvs__load(&in.inbox.head, seq_cst) == UVS__SHUTDOWN_TAG)
      break;
    if (!uvs__inbox_sleep(&in.inbox, UVS__ASLEEP))
      continue;
    WEAVE_CHECK(weave_rest(was_sent, NULL, WEAVE_NEVER));
    in.sent = false;
  }
  do { /* until all have ended, whatever they send */
    in.sent = false;
  } while (weave_rest(was_sent, NULL, WEAVE_NEVER));
}

/* As a turn does it: take, and sleep if nothing has come; until all others sleep for ever. */
static void take_and_sleep(uint64_t next_wake) {
  for (;;) {
    uvs__inbox_lower(&in.inbox, UVS__AWAKE);
    take();
    if (!uvs__inbox_sleep(&in.inbox, next_wake))
      continue;
    if (!weave_rest(was_sent, NULL, WEAVE_NEVER))
      return;
    in.sent = false;
  }
}

static void close_inbox(unsigned pushers) {
  unsigned next[NUMBERS] = {0};
  unsigned pushed = 0;

  weave_calm(true);
  for (unsigned i = 0; i < NUMBERS; i++)
    pushed += in.pushed[i];
  if (in.got_count != pushed)
    weave_fail("%u were pushed, %u came in, and the loop sleeps", pushed, in.got_count);
  for (unsigned i = 0; i < in.got_count; i++) { /* each pusher's in their order, each once */
    unsigned who = in.got[i] % pushers == in.got[i] ? in.got[i] : in.got[i] / 2;

    WEAVE_CHECK(in.pushed[in.got[i]]);
    WEAVE_CHECK(next[who] <= in.got[i]);
    next[who] = in.got[i] + 1;
  }
  for (unsigned i = 0; i < NUMBERS; i++)
    uvs__agenda_give_slot(&in.agenda, 1, in.slot[i]);
  uvs__agenda_destroy(&in.agenda);
  arena_check();
}

static unsigned first[] = {0, 2, 4};

static void pushers_meet_sleep(void) {
  open_inbox();
  weave_spawn("a", push_two, &first[0], false);
  weave_spawn("b", push_two, &first[1], false);
  weave_calm(false);
  take_and_sleep(UVS__ASLEEP);
  close_inbox(1);
}

static void three_pushers_meet_sleep(void) {
  open_inbox();
  for (int i = 0; i < 3; i++)
    weave_spawn(i == 0 ? "a" : i == 1 ? "b" : "c", push_two, &first[i], false);
  weave_calm(false);
  take_and_sleep(UVS__ASLEEP);
  close_inbox(1);
}

/* The loop wakes by itself at 10: what is due at 5 must wake it, what is due at 20 need not. */
static void pusher_meets_a_set_alarm(void) {
  open_inbox();
  weave_spawn("a", push_two, &first[0], false);
  weave_calm(false);
  take_and_sleep(10);
  close_inbox(1);
}

static void shut(void *arg) {
  (void)arg;
  uvs__inbox_shut(&in.inbox);
  in.shut = true;
  in.sent = true;
}

/* What came in before the tag is accepted, what came after is refused; nothing in between. */
static void push_meets_shut(void) {
  open_inbox();
  weave_spawn("a", push_two, &first[0], false);
  weave_spawn("shut", shut, NULL, false);
  weave_calm(false);
  take_until_shut();
  WEAVE_CHECK(uvs__inbox_is_shut(&in.inbox) && uvs__inbox_is_shutting(&in.inbox));
  WEAVE_CHECK(!in.refused[0] || in.refused[1]);
  close_inbox(1);
}

/* ---- the whole way ---- */

static void submit_meets_sleep(void) {
  stage_open(1);
  weave_spawn("a", stage_submit_arg, stage_part('a'), false);
  stage_play();
  stage_close();
}

static void two_submitters(void) {
  stage_open(1);
  weave_spawn("a", stage_submit_arg, stage_part('a'), false);
  weave_spawn("b", stage_submit_arg, stage_part('b'), false);
  stage_play();
  stage_close();
}

static void loop_tasks_of_two(void) {
  stage_open(1);
  weave_spawn("a", stage_submit_arg, stage_loop_part('a'), false);
  weave_spawn("b", stage_submit_arg, stage_loop_part('b'), false);
  stage_play();
  stage_close();
}

static unsigned in_time;

static int at_its_time(uvs_run_t *run) {
  WEAVE_SAME(0, run->late_ns);
  in_time++;
  return 0;
}

/* The near one first: the loop is woken for that, not for what comes last. */
static void submit_batch(void *arg) {
  uvs_task_t specs[3];

  (void)arg;
  for (int i = 0; i < 3; i++) {
    uvs_task_init(&specs[i]);
    specs[i].after = at_its_time;
    specs[i].flags = UVS_UNREF; /* else it is woken for what keeps it */
    specs[i].delay_ns = UVS_MS(i == 1 ? 10 : 1000 - i);
  }
  WEAVE_SAME(0, uvs_submit_many(stage.s, specs, 3, NULL));
}

static void batch_meets_sleep(void) {
  stage_open(1);
  in_time = 0;
  stage_part('a')->spec.delay_ns = UVS_MS(500);
  stage_submit(&stage.parts[0]);
  weave_spawn("submit", submit_batch, NULL, false);
  stage_play();
  WEAVE_SAME(3, in_time);
  stage_close();
}

const struct weave_scene scenes_inbox[] = {
    {"inbox", "pushers-meet-sleep", pushers_meet_sleep},
    {"inbox", "three-pushers-meet-sleep", three_pushers_meet_sleep},
    {"inbox", "pusher-meets-a-set-alarm", pusher_meets_a_set_alarm},
    {"inbox", "push-meets-shut", push_meets_shut},
    {"inbox", "submit-meets-sleep", submit_meets_sleep},
    {"inbox", "two-submitters", two_submitters},
    {"inbox", "loop-tasks-of-two", loop_tasks_of_two},
    {"inbox", "batch-meets-sleep", batch_meets_sleep},
    {NULL, NULL, NULL},
};
