/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of single modules: greatest, the seed, the failing allocator, and assertions
 * that print numbers. The first argument is the expected value. GOT is evaluated again on failure.
 */
#ifndef TEST_UNIT_H
#define TEST_UNIT_H

#include "fault.h"
#include "main.h"

#ifndef ASSERT_RC
#define ASSERT_RC(EXP, GOT) ASSERT_EQ_FMT((int)(EXP), (int)(GOT), "%d")
#define ASSERT_U64(EXP, GOT) \
  ASSERT_EQ_FMT((unsigned long long)(EXP), (unsigned long long)(GOT), "%llu")
#endif

/* ThreadSanitizer supports a forked child only if the parent had one thread. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

#endif
