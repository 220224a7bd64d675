/* SPDX-License-Identifier: MIT */
#include "task/occasion.h"

#include "calendar/count.h"

#define LOOK_AHEAD 1024 /* occurrences; after so many, passed_ns is computed again */
#define FEW 16          /* occurrences; so few are visited one by one, which is cheaper */

static uint64_t occasion_next(const struct uvs__occasions *c, uint64_t after_ns) {
  return (uint64_t)uvs_calendar_next(c->calendar, (int64_t)after_ns);
}

/* The n-th occurrence after this instant. */
static uint64_t nth_occasion(const struct uvs__occasions *c, uint64_t after_ns, uint64_t n) {
  for (; n > 0 && after_ns != UVS__NEVER; n--)
    after_ns = occasion_next(c, after_ns);
  return after_ns;
}

/* How many occurrences are later than after_ns and not later than until_ns. */
static uint64_t count_after(const struct uvs__occasions *c, uint64_t after_ns, uint64_t until_ns) {
  return uvs__calendar_count(c->calendar, (int64_t)after_ns, (int64_t)until_ns);
}

/* How many occurrences are in [first_ns, last_ns]. first_ns always counts as one. */
static uint64_t count_occasions(const struct uvs__occasions *c, uint64_t first_ns,
                                uint64_t last_ns) {
  if (first_ns > last_ns || first_ns == UVS__NEVER)
    return 0;
  return 1 + count_after(c, first_ns, last_ns);
}

/* The n-th occurrence after after_ns. The caller knows that it is not later than until_ns. Bisects
 * the time between the two until n is small. */
static uint64_t nth_occasion_until(const struct uvs__occasions *c, uint64_t after_ns, uint64_t n,
                                   uint64_t until_ns) {
  while (n > FEW) {
    uint64_t middle_ns = after_ns + (until_ns - after_ns) / 2;
    uint64_t before = count_after(c, after_ns, middle_ns);

    if (middle_ns == after_ns)
      break; /* the zone has changed meanwhile */
    if (before < n) {
      n -= before;
      after_ns = middle_ns;
    } else {
      until_ns = middle_ns;
    }
  }
  return nth_occasion(c, after_ns, n);
}

/* A run for one occurrence. */
static struct uvs__occasion run_for_one(const struct uvs__occasions *c, uint64_t ideal_ns,
                                        uint64_t missed) {
  struct uvs__occasion o = {ideal_ns, ideal_ns, UVS__NEVER, missed};

  if (c->policy != UVS_MISSED_CATCH_UP)
    o.passed_ns = occasion_next(c, ideal_ns);
  else if (c->max_burst != 0)
    o.passed_ns = nth_occasion(c, ideal_ns, c->max_burst < LOOK_AHEAD ? c->max_burst : LOOK_AHEAD);
  return o;
}

/* SKIP: misses the occurrences from first_ns on that are before now. */
static struct uvs__occasion skip_passed(const struct uvs__occasions *c, uint64_t first_ns,
                                        uint64_t now_ns) {
  return run_for_one(c, occasion_next(c, now_ns - 1), count_occasions(c, first_ns, now_ns - 1));
}

struct uvs__occasion uvs__occasion_after(const struct uvs__occasions *c, uint64_t last_ns,
                                         bool skip, uint64_t now_ns) {
  uint64_t ideal_ns = occasion_next(c, last_ns);

  if ((skip || c->policy == UVS_MISSED_SKIP) && ideal_ns < now_ns)
    return skip_passed(c, ideal_ns, now_ns);
  return run_for_one(c, ideal_ns, 0);
}

struct uvs__occasion uvs__occasion_again(const struct uvs__occasions *c, uint64_t last_ns,
                                         uint64_t now_ns) {
  return run_for_one(c, occasion_next(c, last_ns > now_ns ? last_ns : now_ns), 0);
}

/* ONCE: the run stands for ideal_ns and for all later occurrences up to now. Those up to last_ns
 * were counted before. */
static struct uvs__occasion merge_passed(const struct uvs__occasions *c, uint64_t ideal_ns,
                                         uint64_t last_ns, uint64_t now_ns) {
  struct uvs__occasion o = {.ideal_ns = ideal_ns, .last_ns = last_ns};

  o.missed = count_after(c, last_ns, now_ns);
  o.passed_ns = occasion_next(c, last_ns > now_ns ? last_ns : now_ns);
  if (o.missed > 0) {
    int64_t newest_ns = uvs_calendar_previous(c->calendar, (int64_t)o.passed_ns);

    if (newest_ns > (int64_t)last_ns) /* false only if the zone has changed meanwhile */
      o.last_ns = (uint64_t)newest_ns;
  }
  return o;
}

/* CATCH_UP: keeps the newest max_burst of the occurrences from ideal_ns up to now. */
static struct uvs__occasion keep_newest(const struct uvs__occasions *c, uint64_t ideal_ns,
                                        uint64_t now_ns) {
  uint64_t behind = count_occasions(c, ideal_ns, now_ns);
  uint64_t missed = behind > c->max_burst ? behind - c->max_burst : 0;
  uint64_t ahead = c->max_burst - (behind - missed) + 1; /* with this many more, one is missed */
  struct uvs__occasion o = {.ideal_ns = nth_occasion_until(c, ideal_ns, missed, now_ns),
                            .missed = missed};

  o.last_ns = o.ideal_ns;
  o.passed_ns = nth_occasion(c, now_ns, ahead < LOOK_AHEAD ? ahead : LOOK_AHEAD);
  return o;
}

struct uvs__occasion uvs__occasion_passed(const struct uvs__occasions *c, uint64_t ideal_ns,
                                          uint64_t last_ns, uint64_t now_ns) {
  if (c->policy == UVS_MISSED_ONCE)
    return merge_passed(c, ideal_ns, last_ns, now_ns);
  return c->policy == UVS_MISSED_SKIP ? skip_passed(c, ideal_ns, now_ns)
                                      : keep_newest(c, ideal_ns, now_ns);
}
