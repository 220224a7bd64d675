/* SPDX-License-Identifier: MIT
 *
 * The inbox, with another thread let in between every two atomic steps: built with -DUVS__STEPS.
 * One call is stopped at its n-th step while another runs from start to end; then the next n, until
 * the call is over before it comes to that.
 */
#include "inbox.h"

#include <string.h>

#include "lib/unit.h"

enum { ACT_NOTHING, ACT_PUSH, ACT_TAKE, ACT_SLEEP, ACT_SHUT };

struct scene {
  struct uvs__agenda agenda;
  struct uvs__inbox inbox;
  struct fault fault;
  uvs_allocator_t mem;
  int left;  /* steps until the other one comes in */
  int act;   /* what it does; ACT_NOTHING once it was there */
  bool wake; /* the push's decision */
  bool slept;
  uint64_t until; /* next_wake that is published */
  uint32_t got[8];
  uint32_t count;
};

static struct scene *scene;

static void take(struct scene *s) {
  bool shut;
  uint32_t last, slot = uvs__inbox_take(&s->inbox, &last, &shut);

  for (; slot != UVS__NONE && s->count < 8;
       slot = atomic_load(&uvs__agenda_slot(&s->agenda, slot)->next))
    s->got[s->count++] = slot;
}

static void act(struct scene *s) {
  switch (s->act) {
  case ACT_PUSH:
    (void)uvs__inbox_push(&s->inbox, 2, 2, true, 5, &s->wake);
    break;
  case ACT_TAKE:
    take(s);
    break;
  case ACT_SLEEP:
    s->slept = uvs__inbox_sleep(&s->inbox, s->until);
    break;
  case ACT_SHUT:
    uvs__inbox_shut(&s->inbox);
    break;
  default:
    break;
  }
  s->act = ACT_NOTHING;
}

static void hook(void) {
  if (scene->act == ACT_NOTHING || scene->left-- > 0)
    return;
  uvs__step_hook = NULL; /* the other one is not interrupted */
  act(scene);
  uvs__step_hook = hook;
}

static int scene_init(struct scene *s) {
  uint32_t slot;
  int rc;

  memset(s, 0, sizeof *s);
  fault_init(&s->fault);
  s->mem = fault_option(&s->fault);
  rc = uvs__agenda_init(&s->agenda, &s->mem);
  if (rc == 0)
    rc = uvs__agenda_take_slot(&s->agenda, 0, false, false, &slot); /* makes 0 .. 63 */
  uvs__inbox_init(&s->inbox, &s->agenda);
  return rc;
}

/* From now on, at step n, `what`. */
static void scene_arm(struct scene *s, int n, int what) {
  scene = s;
  s->left = n;
  s->act = what;
  uvs__step_hook = hook;
}

/* True if the other one came in. */
static bool scene_disarm(struct scene *s) {
  bool came = s->act == ACT_NOTHING;

  uvs__step_hook = NULL;
  return came;
}

static const uint64_t untils[] = {UVS__ASLEEP, 10}; /* what is pushed is due at 5 */

TEST a_push_at_any_step_of_falling_asleep_wakes_or_is_seen(void) {
  for (size_t i = 0; i < 2; i++) {
    bool came = true;
    int n;

    for (n = 0; came; n++) {
      struct scene s;
      bool slept;

      ASSERT_RC(0, scene_init(&s));
      scene_arm(&s, n, ACT_PUSH);
      slept = uvs__inbox_sleep(&s.inbox, untils[i]);
      came = scene_disarm(&s);
      if (came) {
        ASSERT(!slept || s.wake);
        ASSERT_U64(slept ? untils[i] : UVS__AWAKE, uvs__inbox_next_wake(&s.inbox));
        take(&s);
        ASSERT_U64(1, s.count);
      } else {
        ASSERT(slept);
      }
      uvs__agenda_destroy(&s.agenda);
    }
    ASSERT(n > 2);
  }
  PASS();
}

TEST falling_asleep_at_any_step_of_a_push_is_woken_or_sees_it(void) {
  for (size_t i = 0; i < 2; i++) {
    bool came = true;
    int n;

    for (n = 0; came; n++) {
      struct scene s;
      bool wake;

      ASSERT_RC(0, scene_init(&s));
      s.until = untils[i];
      scene_arm(&s, n, ACT_SLEEP);
      ASSERT(uvs__inbox_push(&s.inbox, 1, 1, true, 5, &wake));
      came = scene_disarm(&s);
      if (came)
        ASSERT(!s.slept || wake);
      take(&s);
      ASSERT_U64(1, s.count);
      ASSERT_U64(1, s.got[0]);
      uvs__agenda_destroy(&s.agenda);
    }
    ASSERT(n > 3);
  }
  PASS();
}

TEST taking_at_any_step_of_a_push_loses_nothing(void) {
  bool came = true;
  int n;

  for (n = 0; came; n++) {
    struct scene s;
    bool wake;

    ASSERT_RC(0, scene_init(&s));
    ASSERT(uvs__inbox_push(&s.inbox, 0, 0, true, 5, &wake));
    scene_arm(&s, n, ACT_TAKE);
    ASSERT(uvs__inbox_push(&s.inbox, 1, 1, true, 5, &wake));
    came = scene_disarm(&s);
    take(&s);
    ASSERT_U64(2, s.count);
    ASSERT_U64(0, s.got[0]);
    ASSERT_U64(1, s.got[1]);
    uvs__agenda_destroy(&s.agenda);
  }
  ASSERT(n > 3);
  PASS();
}

TEST a_push_at_any_step_of_taking_or_of_a_push_loses_nothing(void) {
  for (int taking = 0; taking < 2; taking++) {
    bool came = true;

    for (int n = 0; came; n++) {
      bool seen[3] = {false, false, false};
      struct scene s;
      bool wake;

      ASSERT_RC(0, scene_init(&s));
      ASSERT(uvs__inbox_push(&s.inbox, 0, 0, true, 5, &wake));
      if (taking)
        ASSERT(uvs__inbox_push(&s.inbox, 1, 1, true, 5, &wake));
      scene_arm(&s, n, ACT_PUSH);
      if (taking)
        take(&s);
      else
        ASSERT(uvs__inbox_push(&s.inbox, 1, 1, true, 5, &wake));
      came = scene_disarm(&s);
      take(&s);
      ASSERT_U64(came ? 3 : 2, s.count);
      ASSERT_U64(0, s.got[0]); /* it was there before all others */
      for (uint32_t i = 0; i < s.count; i++) {
        ASSERT(!seen[s.got[i]]);
        seen[s.got[i]] = true;
      }
      uvs__agenda_destroy(&s.agenda);
    }
  }
  PASS();
}

/* The room's part of the promise about a submit that races a shutdown: the push decides, and it
 * cannot be had both ways. */
TEST a_shutdown_at_any_step_of_a_push_refuses_it_or_finds_it(void) {
  for (int fresh = 0; fresh < 2; fresh++) {
    int accepted = 0, refused = 0;
    bool came = true;

    for (int n = 0; came; n++) {
      struct scene s;
      bool wake, ok;

      ASSERT_RC(0, scene_init(&s));
      scene_arm(&s, n, ACT_SHUT);
      ok = uvs__inbox_push(&s.inbox, 1, 1, fresh != 0, 5, &wake);
      came = scene_disarm(&s);
      ASSERT_EQ(came, uvs__inbox_is_shut(&s.inbox));
      take(&s);
      ASSERT_U64(ok ? 1 : 0, s.count);
      *(ok ? &accepted : &refused) += 1;
      uvs__agenda_destroy(&s.agenda);
    }
    ASSERT(accepted > 0);
    ASSERT_EQ(fresh != 0, refused > 0);
  }
  PASS();
}

SUITE(inbox_step_by_step) {
  RUN_TEST(a_push_at_any_step_of_falling_asleep_wakes_or_is_seen);
  RUN_TEST(falling_asleep_at_any_step_of_a_push_is_woken_or_sees_it);
  RUN_TEST(taking_at_any_step_of_a_push_loses_nothing);
  RUN_TEST(a_push_at_any_step_of_taking_or_of_a_push_loses_nothing);
  RUN_TEST(a_shutdown_at_any_step_of_a_push_refuses_it_or_finds_it);
}

TEST_MAIN(RUN_SUITE(inbox_step_by_step));
