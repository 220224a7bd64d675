/* SPDX-License-Identifier: MIT
 *
 * store_home: the loops of openers of stores that are servers. For other stores, store_start and
 * store_drive do nothing, and store_end only closes.
 */
#ifndef TEST_STORE_HOME_H
#define TEST_STORE_HOME_H

#include "jobs/store.h"

void store_start(struct uvs__store *store);
/* Runs the loop of the opener until *left is 0. */
void store_drive(struct uvs__store *store, const unsigned *left);
void store_end(struct uvs__store *store);             /* stops and closes one opener */
int store_last_event(const struct uvs__store *store); /* what it has reported last; 0: none */
/* Waits until the server has woken this opener, and forgets it. Returns the queues, "*" for all. */
const char *store_woken(struct uvs__store *store);
/* And for when. */
int64_t store_woken_us(const struct uvs__store *store);

#endif
