/* SPDX-License-Identifier: MIT */
#include "power_vfs.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGIONS 64

/* What the open handles of a file share. It is not on the disk: a cut ends it. */
struct power_sharing {
  unsigned handles;
  unsigned readers;      /* handles with a lock of any level */
  struct handle *writer; /* the handle with RESERVED or more */
  void *regions[REGIONS];
  unsigned shm_readers[SQLITE_SHM_NLOCK];
  struct handle *shm_writers[SQLITE_SHM_NLOCK];
};

struct handle {
  sqlite3_file base;
  struct power_file *file;
  struct power_sharing *sharing;
  unsigned life;
  int level;
  bool sync_directory; /* with the next sync: a new journal, as in SQLite's own VFS for Unix */
  char *delete_on_close;
  bool shm_reads[SQLITE_SHM_NLOCK];
};

static sqlite3_vfs *unix_vfs; /* for time and sleep */

/* The power was cut after this handle was opened. */
static bool dead(const struct handle *h) {
  return h->life != power_life();
}

/* --------------------------------------------------------------- locks --- */

static int lock_file(sqlite3_file *file, int level) {
  struct handle *h = (struct handle *)file;
  struct power_sharing *s = h->sharing;

  if (dead(h))
    return SQLITE_IOERR_LOCK;
  if (level <= h->level)
    return SQLITE_OK;
  if (level == SQLITE_LOCK_SHARED) {
    if (s->writer != NULL && s->writer->level >= SQLITE_LOCK_PENDING)
      return SQLITE_BUSY;
    s->readers++;
  } else {
    if (s->writer != NULL && s->writer != h)
      return SQLITE_BUSY;
    s->writer = h;
    if (level == SQLITE_LOCK_EXCLUSIVE && s->readers > 1) {
      h->level = SQLITE_LOCK_PENDING;
      return SQLITE_BUSY;
    }
  }
  h->level = level;
  return SQLITE_OK;
}

static int unlock_file(sqlite3_file *file, int level) {
  struct handle *h = (struct handle *)file;
  struct power_sharing *s = h->sharing;

  if (level >= h->level)
    return SQLITE_OK;
  if (s->writer == h)
    s->writer = NULL;
  if (level == SQLITE_LOCK_NONE)
    s->readers--;
  h->level = level;
  return SQLITE_OK;
}

static int check_reserved(sqlite3_file *file, int *ret) {
  struct handle *h = (struct handle *)file;

  *ret = h->sharing->writer != NULL;
  return dead(h) ? SQLITE_IOERR_CHECKRESERVEDLOCK : SQLITE_OK;
}

/* ------------------------------------------------------- shared memory --- */

static int shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **ret) {
  struct handle *h = (struct handle *)file;
  void **at = &h->sharing->regions[region];

  assert(region < REGIONS);
  *ret = NULL;
  if (dead(h))
    return SQLITE_IOERR_SHMMAP;
  if (*at == NULL && extend) {
    *at = power_memory(NULL, (size_t)size);
    memset(*at, 0, (size_t)size);
  }
  *ret = *at;
  return SQLITE_OK;
}

static int shm_lock(sqlite3_file *file, int first, int n, int flags) {
  struct handle *h = (struct handle *)file;
  struct power_sharing *s = h->sharing;
  bool take = flags & SQLITE_SHM_LOCK, shared = flags & SQLITE_SHM_SHARED;

  if (dead(h) && take)
    return SQLITE_IOERR_SHMLOCK;
  for (int i = first; take && i < first + n; i++) {
    if (s->shm_writers[i] != NULL && s->shm_writers[i] != h)
      return SQLITE_BUSY;
    if (!shared && s->shm_readers[i] > (h->shm_reads[i] ? 1 : 0))
      return SQLITE_BUSY;
  }
  for (int i = first; i < first + n; i++) {
    if (!shared) {
      if (take)
        s->shm_writers[i] = h;
      else if (s->shm_writers[i] == h)
        s->shm_writers[i] = NULL;
    } else if (h->shm_reads[i] != take) {
      h->shm_reads[i] = take;
      s->shm_readers[i] += take ? 1U : -1U;
    }
  }
  return SQLITE_OK;
}

/* One thread only. */
static void shm_barrier(sqlite3_file *file) {
  (void)file;
}

/* The regions stay until the last handle is closed. */
static int shm_unmap(sqlite3_file *file, int delete_it) {
  (void)delete_it;
  shm_lock(file, 0, SQLITE_SHM_NLOCK, SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED);
  shm_lock(file, 0, SQLITE_SHM_NLOCK, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
  return SQLITE_OK;
}

/* ------------------------------------------------------------ contents --- */

static int read_file(sqlite3_file *file, void *to, int size, sqlite3_int64 offset) {
  struct handle *h = (struct handle *)file;
  const struct power_image *live = &h->file->live;
  size_t at = (size_t)offset, wanted = (size_t)size, there = 0;

  if (dead(h))
    return SQLITE_IOERR_READ;
  if (at < live->size)
    there = live->size - at < wanted ? live->size - at : wanted;
  if (there > 0)
    memcpy(to, live->data + at, there);
  memset((char *)to + there, 0, wanted - there);
  return there == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int write_file(sqlite3_file *file, const void *from, int size, sqlite3_int64 offset) {
  struct handle *h = (struct handle *)file;

  return dead(h) ? SQLITE_IOERR_WRITE : power_write(h->file, from, (size_t)size, (size_t)offset);
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 size) {
  struct handle *h = (struct handle *)file;

  return dead(h) ? SQLITE_IOERR_TRUNCATE : power_truncate(h->file, (size_t)size);
}

static int sync_file(sqlite3_file *file, int flags) {
  struct handle *h = (struct handle *)file;
  int rc;

  (void)flags;
  if (dead(h))
    return SQLITE_IOERR_FSYNC;
  rc = power_sync(h->file);
  if (rc == SQLITE_OK && h->sync_directory) {
    power_sync_directory();
    h->sync_directory = false;
  }
  return rc;
}

static int size_of_file(sqlite3_file *file, sqlite3_int64 *ret) {
  struct handle *h = (struct handle *)file;

  *ret = (sqlite3_int64)h->file->live.size;
  return dead(h) ? SQLITE_IOERR_FSTAT : SQLITE_OK;
}

/* ----------------------------------------------------------------- rest --- */

static int close_file(sqlite3_file *file) {
  struct handle *h = (struct handle *)file;
  struct power_sharing *s = h->sharing;

  shm_unmap(file, 0);
  unlock_file(file, SQLITE_LOCK_NONE);
  if (--s->handles == 0) {
    for (int i = 0; i < REGIONS; i++)
      free(s->regions[i]);
    if (!dead(h))
      h->file->sharing = NULL;
    free(s);
  }
  if (h->delete_on_close != NULL && !dead(h))
    power_delete(h->delete_on_close);
  free(h->delete_on_close);
  return SQLITE_OK;
}

static int control_file(sqlite3_file *file, int op, void *arg) {
  (void)file;
  (void)op;
  (void)arg;
  return SQLITE_NOTFOUND;
}

/* As in the VFS for Unix. */
static int sector_size(sqlite3_file *file) {
  (void)file;
  return 4096;
}

static int characteristics(sqlite3_file *file) {
  (void)file;
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = size_of_file,
    .xLock = lock_file,
    .xUnlock = unlock_file,
    .xCheckReservedLock = check_reserved,
    .xFileControl = control_file,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *ret_flags) {
  struct handle *h = (struct handle *)file;
  const int journals = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;

  (void)vfs;
  memset(h, 0, sizeof *h);
  if (power_is_off())
    return SQLITE_CANTOPEN;
  h->life = power_life();
  h->file = name == NULL ? NULL : power_find(name);
  if (h->file == NULL) {
    if (!(flags & SQLITE_OPEN_CREATE))
      return SQLITE_CANTOPEN;
    h->file = power_create(name);
    h->sync_directory = flags & journals;
  }
  if (h->file->sharing == NULL) {
    h->file->sharing = power_memory(NULL, sizeof *h->sharing);
    memset(h->file->sharing, 0, sizeof *h->sharing);
  }
  h->sharing = h->file->sharing;
  h->sharing->handles++;
  if (flags & SQLITE_OPEN_DELETEONCLOSE && name != NULL) {
    h->delete_on_close = power_memory(NULL, strlen(name) + 1);
    memcpy(h->delete_on_close, name, strlen(name) + 1);
  }
  h->base.pMethods = &methods;
  if (ret_flags != NULL)
    *ret_flags = flags;
  return SQLITE_OK;
}

static int delete_file(sqlite3_vfs *vfs, const char *name, int sync_directory) {
  (void)vfs;
  if (power_is_off())
    return SQLITE_IOERR_DELETE;
  if (power_find(name) == NULL)
    return SQLITE_IOERR_DELETE_NOENT;
  power_delete(name);
  if (sync_directory)
    power_sync_directory();
  return SQLITE_OK;
}

static int access_file(sqlite3_vfs *vfs, const char *name, int flags, int *ret) {
  const struct power_file *f = power_find(name);

  (void)vfs;
  /* As in the VFS for Unix, an empty file does not exist. */
  *ret = f != NULL && (flags != SQLITE_ACCESS_EXISTS || f->live.size > 0);
  return power_is_off() ? SQLITE_IOERR_ACCESS : SQLITE_OK;
}

static int full_name(sqlite3_vfs *vfs, const char *name, int size, char *ret) {
  (void)vfs;
  return snprintf(ret, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int random_bytes(sqlite3_vfs *vfs, int size, char *ret) {
  (void)vfs;
  for (int i = 0; i < size; i++)
    ret[i] = (char)power_below(256);
  return size;
}

/* Nothing else happens meanwhile, so there is no need to wait. */
static int sleep_us(sqlite3_vfs *vfs, int us) {
  (void)vfs;
  return us;
}

static int now_ms(sqlite3_vfs *vfs, sqlite3_int64 *ret) {
  (void)vfs;
  return unix_vfs->xCurrentTimeInt64(unix_vfs, ret);
}

static int now_days(sqlite3_vfs *vfs, double *ret) {
  (void)vfs;
  return unix_vfs->xCurrentTime(unix_vfs, ret);
}

static int last_error(sqlite3_vfs *vfs, int size, char *ret) {
  (void)vfs;
  (void)size;
  (void)ret;
  return 0;
}

void power_vfs_register(void) {
  static sqlite3_vfs vfs = {
      .iVersion = 2,
      .szOsFile = sizeof(struct handle),
      .mxPathname = 512,
      .zName = "power",
      .xOpen = open_file,
      .xDelete = delete_file,
      .xAccess = access_file,
      .xFullPathname = full_name,
      .xRandomness = random_bytes,
      .xSleep = sleep_us,
      .xCurrentTime = now_days,
      .xCurrentTimeInt64 = now_ms,
      .xGetLastError = last_error,
  };

  unix_vfs = sqlite3_vfs_find("unix");
  if (unix_vfs == NULL || sqlite3_vfs_register(&vfs, 1) != SQLITE_OK)
    abort();
}

void power_vfs_reset(uint64_t seed) {
  power_reset(seed);
  sqlite3_randomness(0, NULL); /* It asks the VFS again. */
}
