/* SPDX-License-Identifier: MIT */
#include "task/occasion.h"

#define LOOK_AHEAD 1024 /* occurrences: a longer burst is looked at more than once */

static uint64_t occasion_next(const struct uvs__occasions *c, uint64_t after_ns) {
  return (uint64_t)uvs_calendar_next(c->calendar, (int64_t)after_ns);
}

/* The n-th occurrence after this instant. */
static uint64_t nth_occasion(const struct uvs__occasions *c, uint64_t after_ns, uint64_t n) {
  for (; n > 0 && after_ns != UVS__NEVER; n--)
    after_ns = occasion_next(c, after_ns);
  return after_ns;
}

/* Occurrences from `first`, which is one, to `last`, included. */
static uint64_t count_occasions(const struct uvs__occasions *c, uint64_t first_ns,
                                uint64_t last_ns) {
  uint64_t n = 0;

  for (; first_ns <= last_ns && first_ns != UVS__NEVER; first_ns = occasion_next(c, first_ns))
    n++;
  return n;
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

/* Leaves out everything from `first` to the instant before now. */
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

/* The run stands for `ideal` and for all occurrences after it until now. Those until `last` were
 * counted before. */
static struct uvs__occasion merge_passed(const struct uvs__occasions *c, uint64_t ideal_ns,
                                         uint64_t last_ns, uint64_t now_ns) {
  struct uvs__occasion o = {.ideal_ns = ideal_ns, .last_ns = last_ns};

  for (o.passed_ns = occasion_next(c, last_ns); o.passed_ns <= now_ns && o.passed_ns != UVS__NEVER;
       o.passed_ns = occasion_next(c, o.last_ns)) {
    o.last_ns = o.passed_ns;
    o.missed++;
  }
  return o;
}

/* The newest max_burst of the occurrences from `ideal` until now. */
static struct uvs__occasion keep_newest(const struct uvs__occasions *c, uint64_t ideal_ns,
                                        uint64_t now_ns) {
  uint64_t behind = count_occasions(c, ideal_ns, now_ns);
  uint64_t missed = behind > c->max_burst ? behind - c->max_burst : 0;
  uint64_t ahead = c->max_burst - (behind - missed) + 1; /* more, and one is left out */
  struct uvs__occasion o = {.ideal_ns = nth_occasion(c, ideal_ns, missed), .missed = missed};

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
