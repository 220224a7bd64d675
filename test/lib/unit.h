/* SPDX-License-Identifier: MIT
 *
 * What the tests of single rooms share: greatest, the seed, the failing allocator, and assertions
 * that print numbers. The first argument is what is expected. GOT is evaluated again when it fails.
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

#endif
