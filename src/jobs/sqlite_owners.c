/* SPDX-License-Identifier: MIT
 *
 * sqlite_owners: which open store has claimed a job, and whether its process is alive. Each open
 * store has a number, its owner, which is never used again. As long as the store is open, it holds
 * a lock on the byte with that number in FILE-owners. The system frees the lock when the process
 * dies. So if the byte of a number in uvs_owners is not locked, the process of that owner is dead,
 * and its leases end at once.
 *
 * The lock is taken before the number can be seen by others. It belongs to the open file: a child
 * of fork() that does not exec holds it too, and then the leases end only by their time.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uv.h>

#include "jobs/alloc.h"
#include "jobs/sqlite.h"

/* More than the number of claims between two syncs of the log. */
#define FENCES_SKIPPED (1 << 20)

/* A power failure may undo claims. Their fences must not be drawn again: a handler may have passed
 * one to another system, which now refuses fences that are not larger. */
static void skip_fences(struct uvs__db *c) {
  int64_t boot = uvs__boot_id();

  uvs__do(c, UVS__SQL_SKIP_FENCES, UVS__ARGS(uvs__int(FENCES_SKIPPED), uvs__int(boot)));
  uvs__do(c, UVS__SQL_SET_BOOT, UVS__ARGS(uvs__int(boot)));
}

/* In a transaction. Skips a number whose lock is held: that happens after the file was restored. */
static void take_number(struct uvs__sqlite *s) {
  struct uvs__db *c = &s->c;

  do
    c->owner = uvs__count_up(c, "owner");
  while (c->rc == SQLITE_OK && !uvs__owners_lock(s->owners_fd, c->owner));
  uvs__do(c, UVS__SQL_ADD_OWNER, UVS__ARGS(uvs__int(c->owner)));
}

static void forget_owner(struct uvs__db *c, int64_t owner) {
  uvs__do(c, UVS__SQL_END_LEASES, UVS__ARGS(uvs__int(owner), uvs__int(c->now_us)));
  uvs__do(c, UVS__SQL_DROP_OWNER, UVS__ARGS(uvs__int(owner)));
}

/* The first owner above `after` that is dead; 0: none. */
static int64_t find_dead(struct uvs__sqlite *s, int64_t after) {
  const enum uvs__sql row = UVS__SQL_OWNERS;
  int64_t dead = 0;
  bool more;

  for (more = uvs__row(&s->c, row, UVS__ARGS(uvs__int(after))); more && dead == 0;
       more = uvs__next_row(&s->c, row)) {
    int64_t owner = uvs__col(&s->c, row, 0);

    if (owner != s->c.owner && !uvs__owners_alive(s->owners_fd, owner))
      dead = owner;
  }
  uvs__end_rows(&s->c, row);
  return dead;
}

/* In a transaction. */
static void bury_dead(struct uvs__sqlite *s) {
  int64_t dead = 0;

  while ((dead = find_dead(s, dead)) != 0)
    forget_owner(&s->c, dead);
}

/* FILE-owners gets the permissions of the database: whoever may open one may open the other. */
static int open_owners(const char *path, const char *file) {
  struct stat st;
  int fd;

  if (stat(file, &st) != 0)
    return uv_translate_sys_error(errno);
  do
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, st.st_mode & 0777);
  while (fd < 0 && errno == EINTR);
  if (fd < 0)
    return uv_translate_sys_error(errno);
  /* These fail if the file belongs to another user, who has set both already. */
  if (fchmod(fd, st.st_mode & 0777) == 0 && geteuid() == 0)
    (void)!fchown(fd, st.st_uid, st.st_gid);
  return fd;
}

int uvs__sqlite_enter(struct uvs__sqlite *s) {
  const char *file = sqlite3_db_filename(s->c.db, "main"); /* without symbolic links */
  size_t size = strlen(file) + sizeof "-owners";
  char *path = uvs__jobs_alloc(size);
  int status;

  if (path == NULL)
    return UV_ENOMEM;
  sqlite3_snprintf((int)size, path, "%s-owners", file);
  if (s->owners_fd >= 0) /* of a file that was deleted or replaced */
    close(s->owners_fd);
  s->owners_fd = open_owners(path, file);
  uvs__jobs_free(path);
  if (s->owners_fd < 0)
    return s->owners_fd;
  status = uvs__sqlite_begin(s, true, false);
  if (status != 0)
    return status;
  take_number(s);
  skip_fences(&s->c);
  bury_dead(s);
  return uvs__sqlite_commit(s);
}

void uvs__sqlite_leave(struct uvs__sqlite *s) {
  if (s->c.owner != 0 && !s->suspect && uvs__sqlite_begin(s, true, false) == 0) {
    forget_owner(&s->c, s->c.owner);
    uvs__sqlite_commit(s);
  }
  if (s->owners_fd >= 0)
    close(s->owners_fd);
}

static bool is_changed(struct uvs__sqlite *s) {
  int64_t version;

  s->c.rc = SQLITE_OK;
  version = uvs__number(&s->c, UVS__SQL_DATA_VERSION, NULL, s->data_version);
  if (version == s->data_version)
    return false;
  s->data_version = version;
  s->base.events++;
  return true;
}

bool uvs__sqlite_poll(struct uvs__store *store) {
  struct uvs__sqlite *s = (struct uvs__sqlite *)store;
  int64_t dead;
  bool changed;

  if (s->suspect)
    return false;
  if (uvs__sqlite_has_moved(s))
    return true; /* the next request opens the file that is there now */
  changed = is_changed(s);
  dead = find_dead(s, 0);
  if (s->c.rc != SQLITE_OK)
    uvs__sqlite_status(s, s->c.rc, false);
  if (dead == 0 || uvs__sqlite_begin(s, true, false) != 0)
    return changed;
  bury_dead(s);
  return uvs__sqlite_commit(s) == 0 || changed;
}
