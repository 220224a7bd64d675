/* SPDX-License-Identifier: MIT
 *
 * redis_reshard: uvs_jobs_reshard. It has four steps: look at all servers; write a map of state
 * moving to them; move, in passes over each server, until nothing is left that belongs to another
 * server; write a map of state stable. The maps tell a later call how far an earlier call came.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_reshard.h"
#include "jobs/redis_socket.h"

#define PATIENCE_NS INT64_C(30000000000)
#define WAIT_MS 100 /* for running jobs to end; doubles with each wait */
#define WAIT_MAX_MS 1000

/* ------------------------------------------------------------------------- move --- */

/* A server that was restarted may have lost its last writes. Then it has items again that had
 * moved, so it counts as clean only in the same run. */
static bool is_clean(const struct uvs__reshard_server *s) {
  return s->epoch[0] == '\0' || (s->clean && strcmp(s->clean_run, s->redis.run_id) == 0);
}

/* This is needed after the last pass too: a restart may have brought a batch back to an outbox. */
static int finish_batches(struct uvs__reshard *m) {
  int rc = 0;

  for (size_t i = 0; i < m->n && rc == 0; i++)
    if (m->servers[i]->epoch[0] != '\0')
      rc = uvs__reshard_finish_batch(m->servers[i]);
  return rc;
}

/* Makes passes over all servers until all are clean. A clean server stays clean: if it has no item
 * of another server, no put of such an item is carried out there. */
static int move_all(struct uvs__reshard *m) {
  int wait_ms = WAIT_MS;

  for (;;) {
    uint64_t before = m->progress.jobs + m->progress.dead + m->progress.ends, all = 0;
    const char *waits_for = NULL;
    bool clean = true;

    for (size_t i = 0; i < m->n; i++) {
      uint64_t running = 0;
      struct uvs__reshard_server *s = m->servers[i];
      int rc = is_clean(s) ? 0 : uvs__reshard_pass(s, &running);

      if (rc != 0)
        return rc;
      clean = clean && is_clean(s);
      all += running;
      if (running > 0)
        waits_for = s->name;
    }
    m->progress.running = all;
    if (clean)
      return 0;
    if (before == m->progress.jobs + m->progress.dead + m->progress.ends) {
      int rc = uvs__reshard_tell(m, UVS_RESHARD_WAITING, waits_for);

      if (rc != 0)
        return rc;
      uvs__reshard_sleep(m, wait_ms);
      wait_ms = 2 * wait_ms < WAIT_MAX_MS ? 2 * wait_ms : WAIT_MAX_MS;
    } else {
      wait_ms = WAIT_MS;
    }
  }
}

/* Writes the names of the servers in `to`. Returns their number; 0: there are too many. */
static size_t read_wanted(struct uvs__reshard *m, char (*names)[UVS__REDIS_SERVER_NAME],
                          const char **list) {
  size_t n = 0;

  for (const struct uvs__redis_options *o = m->wanted; o != NULL; o = o->next, n++) {
    if (n == UVS__REDIS_SERVERS || !uvs__redis_server_name(o, names[n]))
      return 0;
    list[n] = names[n];
  }
  return n;
}

static bool has_all(const struct uvs__redis_map *map, const char *const *servers, size_t n) {
  if (map->n != n)
    return false;
  for (size_t i = 0; i < n; i++)
    if (!uvs__reshard_has_slots(map, servers[i]))
      return false;
  return true;
}

/* Makes m->map the map of the move. *ret_moves: whether there is something to move. */
static int plan(struct uvs__reshard *m, const char *const *wanted, size_t n, bool *ret_moves) {
  struct uvs__redis_map *old;

  *ret_moves = m->map.moving;
  if (has_all(&m->map, wanted, n))
    return 0;
  if (m->map.moving)
    return uvs__reshard_fail(m, UV_EBUSY,
                             "a move to other servers is under way: finish that move first, with "
                             "the servers of the map of generation %llu",
                             (unsigned long long)m->map.generation);
  old = uvs__jobs_alloc(sizeof *old);
  if (old == NULL)
    return uvs__reshard_fail(m, UV_ENOMEM, "no memory");
  *old = m->map;
  uvs__redis_map_change(&m->map, old, wanted, n);
  uvs__jobs_free(old);
  *ret_moves = true;
  return 0;
}

static void count_slots(struct uvs__reshard *m) {
  for (unsigned slot = 0; slot < UVS__SLOTS; slot++)
    m->progress.slots += m->map.owner[slot] != m->map.from[slot];
}

static int reshard(struct uvs__reshard *m, char (*names)[UVS__REDIS_SERVER_NAME]) {
  const char *wanted[UVS__REDIS_SERVERS];
  size_t n = read_wanted(m, names, wanted);
  bool moves = false;
  int rc;

  if (n == 0)
    return uvs__reshard_fail(m, UV_EINVAL, "there may be at most %d servers", UVS__REDIS_SERVERS);
  rc = uvs__reshard_tell(m, UVS_RESHARD_CHECK, NULL);
  if (rc == 0)
    rc = uvs__reshard_look_at_all(m);
  if (rc == 0)
    rc = uvs__reshard_look_at_others(m, wanted, n);
  if (rc == 0)
    rc = plan(m, wanted, n, &moves);
  if (rc != 0)
    return rc;
  count_slots(m);
  if (moves) {
    rc = uvs__reshard_switch(m);
    if (rc == 0)
      rc = move_all(m);
    if (rc != 0)
      return rc;
    uvs__redis_map_finish(&m->map);
  }
  /* An earlier call may have stopped before it had written the stable map to all servers. */
  rc = m->map.generation == 0 ? 0 : uvs__reshard_write_map(m);
  if (rc == 0 && m->map.generation > 0)
    rc = finish_batches(m);
  return rc != 0 ? rc : uvs__reshard_tell(m, UVS_RESHARD_DONE, NULL);
}

/* ------------------------------------------------------------------------- call --- */

static int read_names(struct uvs__reshard *m) {
  char why[200];
  int rc = uvs__redis_read_url(m->options->store, &m->given, why, sizeof why);

  if (rc != 0)
    return uvs__reshard_fail(m, rc, "store: %s", why);
  rc = uvs__redis_read_url(m->options->to, &m->wanted, why, sizeof why);
  if (rc != 0)
    return uvs__reshard_fail(m, rc, "to: %s", why);
  if (strcmp(m->given->ns, m->wanted->ns) != 0)
    return uvs__reshard_fail(m, UV_EINVAL, "the namespaces of `store` and `to` differ: %s and %s",
                             m->given->ns, m->wanted->ns);
  return 0;
}

static int run(struct uvs__reshard *m) {
  char(*names)[UVS__REDIS_SERVER_NAME] = uvs__jobs_alloc(UVS__REDIS_SERVERS * sizeof *names);
  sigset_t before;
  int rc = names == NULL ? UV_ENOMEM : uv_loop_init(&m->loop);

  if (rc != 0) {
    uvs__jobs_free(names);
    return uvs__reshard_fail(m, rc, "no event loop: %s", uv_strerror(rc));
  }
  uv_timer_init(&m->loop, &m->timer); /* cannot fail */
  uvs__redis_block_sigpipe(&before);
  rc = reshard(m, names);
  uvs__reshard_close(m);
  uvs__redis_restore_sigpipe(&before);
  uv_loop_close(&m->loop);
  uvs__jobs_free(names);
  return rc;
}

int uvs_jobs_reshard(const uvs_reshard_options_t *o, char *text, size_t size) {
  uvs_reshard_options_t options;
  struct uvs__reshard *m;
  char unused[200];
  int rc;

  if (text == NULL || size == 0) {
    text = unused;
    size = sizeof unused;
  }
  text[0] = '\0';
  if (o == NULL || o->size < sizeof options || o->store == NULL || o->to == NULL) {
    snprintf(text, size, "`store` or `to` is NULL, or the options were not initialized");
    return UV_EINVAL;
  }
  memcpy(&options, o, sizeof options);
  if (options.patience_ns <= 0)
    options.patience_ns = PATIENCE_NS;
  m = uvs__jobs_alloc(sizeof *m);
  if (m == NULL) {
    snprintf(text, size, "no memory");
    return UV_ENOMEM;
  }
  m->options = &options;
  m->progress.size = sizeof m->progress;
  m->text = text;
  m->size = size;
  rc = read_names(m);
  if (rc == 0)
    rc = run(m);
  if (rc != 0 && text[0] == '\0')
    snprintf(text, size, "%s", uvs_jobs_strerror(rc));
  uvs__redis_free_options(m->given);
  uvs__redis_free_options(m->wanted);
  uvs__jobs_free(m);
  return rc;
}
