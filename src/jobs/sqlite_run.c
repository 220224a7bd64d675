/* SPDX-License-Identifier: MIT
 *
 * sqlite_run: carries out batches. A batch is one transaction with one sync: requests that wait
 * together share it. If it fails for a reason that lies in one request, each request gets a
 * transaction of its own.
 */
#include <string.h>

#include "jobs/sqlite.h"

/* Must the request be synced? A power failure may undo only what the library does by itself to jobs
 * that are durable already: the worst effect is that a job runs once more. */
static bool is_durable(const struct uvs__request *r) {
  const struct uvs__settle_request *settle = (const struct uvs__settle_request *)r;
  size_t i;

  if (r->op == UVS__CLAIM || r->op == UVS__TRIM)
    return false;
  if (r->op != UVS__SETTLE)
    return true;
  for (i = 0; i < settle->n; i++) {
    if (settle->items[i].op == UVS__DEAD || settle->items[i].n_puts > 0)
      return true;
  }
  return false;
}

static bool is_write(const struct uvs__request *r) {
  switch (r->op) {
  case UVS__GET:
  case UVS__LIST:
  case UVS__CRONS:
  case UVS__COUNT:
  case UVS__EVENTS:
    return false;
  default:
    return true;
  }
}

static void carry_out(struct uvs__db *c, struct uvs__request *r) {
  r->status = 0;
  switch (r->op) {
  case UVS__PUT:
    uvs__do_put(c, (struct uvs__put_request *)r);
    break;
  case UVS__CLAIM:
    uvs__do_claim(c, (struct uvs__claim_request *)r);
    break;
  case UVS__SETTLE:
    uvs__do_settle(c, (struct uvs__settle_request *)r);
    break;
  case UVS__ALTER:
    uvs__do_alter(c, (struct uvs__alter_request *)r);
    break;
  case UVS__GET:
    uvs__do_get(c, (struct uvs__list_request *)r);
    break;
  case UVS__LIST:
    uvs__do_list(c, (struct uvs__list_request *)r);
    break;
  case UVS__REDRIVE:
    uvs__do_redrive(c, (struct uvs__bulk_request *)r);
    break;
  case UVS__PURGE:
    uvs__do_purge(c, (struct uvs__bulk_request *)r);
    break;
  case UVS__SET_QUEUE:
    uvs__do_set_queue(c, (struct uvs__queue_request *)r);
    break;
  case UVS__SET_CRON:
    uvs__do_set_cron(c, (struct uvs__cron_request *)r);
    break;
  case UVS__REMOVE_CRON:
    uvs__do_remove_cron(c, (struct uvs__cron_request *)r);
    break;
  case UVS__CRONS:
    uvs__do_crons(c, (struct uvs__cron_request *)r);
    break;
  case UVS__COUNT:
    uvs__do_count(c, (struct uvs__count_request *)r);
    break;
  case UVS__EVENTS:
    uvs__do_events(c, (struct uvs__events_request *)r);
    break;
  case UVS__TRIM:
    uvs__do_trim(c, (struct uvs__trim_request *)r);
    break;
  }
}

/* Sets the status of the requests from `first` up to, but not including, `end`. */
static void fail(struct uvs__request *first, struct uvs__request *end, int status) {
  for (; first != end; first = first->next) {
    first->status = status;
    if (first->op == UVS__CLAIM)
      uvs__free_claimed((struct uvs__claim_request *)first);
  }
}

/* Returns 0 or an error. After an error all these requests have it as their status, and nothing was
 * done (with UVS_EUNKNOWN: it is not known what was done). */
static int transaction(struct uvs__sqlite *s, struct uvs__request *first,
                       struct uvs__request *end) {
  bool write = false, full = false;
  struct uvs__request *r;
  int status;

  for (r = first; r != end; r = r->next) {
    write |= is_write(r);
    full |= is_write(r) && is_durable(r);
    if (r->op == UVS__CLAIM)
      ((struct uvs__claim_request *)r)->claimed = NULL;
  }
  status = uvs__sqlite_begin(s, write, full);
  if (status != 0) {
    fail(first, end, status);
    return status;
  }
  for (r = first; r != end && s->c.rc == SQLITE_OK; r = r->next) {
    carry_out(&s->c, r);
    uvs__db_reset(&s->c);
  }
  status = uvs__sqlite_commit(s);
  if (status != 0)
    fail(first, end, status);
  return status;
}

/* Can a single request be the reason for this error? */
static bool is_of_one(int status) {
  return status == UV_ENOSPC || status == UV_ENOMEM || status == UV_EFTYPE;
}

void uvs__sqlite_run(struct uvs__store *store, struct uvs__request *first) {
  struct uvs__sqlite *s = (struct uvs__sqlite *)store;
  struct uvs__request *r, *next;
  int status = s->suspect ? uvs__sqlite_recover(s) : 0;

  if (status != 0) {
    fail(first, NULL, status);
  } else {
    store->trouble[0] = '\0';
    status = transaction(s, first, NULL);
    if (is_of_one(status) && first->next != NULL) {
      for (r = first; r != NULL; r = r->next) {
        if (s->suspect)
          fail(r, r->next, UV_EAGAIN);
        else
          transaction(s, r, r->next);
      }
    }
  }
  for (r = first; r != NULL; r = next) {
    next = r->next;
    r->done(r);
  }
  if (!s->suspect)
    uvs__sqlite_checkpoint(s);
}
