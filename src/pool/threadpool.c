/* SPDX-License-Identifier: MIT
 *
 * threadpool: a pool of own threads, and the inline executor, which has no threads.
 *
 * One lock and one condition variable guard the threads and the jobs (first in, first out). A
 * thread that finds `live` above `size` leaves: it sets `left` in its record, and the next resize,
 * or close, joins it. A resize to fewer threads wakes all threads. So if a thread that was woken
 * for a job leaves instead, other threads are awake and find the job.
 *
 * A resize makes its threads under the lock, although that takes a few microseconds each. So a new
 * thread takes no job before all new threads exist. If one cannot be made, the other new threads
 * find `left` set in their records, and leave.
 */
#include "uvsched/executor.h"

#include <string.h>

#include "pool/crew.h"
#include "util/sizes.h"

#define JOBS_FIRST 64 /* room for this many jobs at first */
#define JOBS_KEPT 512 /* a larger ring is freed when its last job is taken */

struct job {
  void (*fn)(void *arg);
  void *arg;
};

/* One thread. */
struct member {
  uvs_threads_t *pool;
  struct member *next;
  uv_thread_t thread;
  int number; /* in its name */
  bool left;  /* the thread takes no job any more, and can be joined at once */
};

struct uvs_threads_s {
  /* Constant. */
  uvs_executor_t executor;
  uvs_allocator_t mem;
  struct uvs__fork fork;
  size_t stack_size;
  char name[UVS_THREADS_NAME_MAX + 1];

  uv_mutex_t lock;  /* protects what follows */
  uv_cond_t wake;   /* there is a job, the size became smaller, or the pool closes */
  struct job *jobs; /* a ring: `count` jobs from `first` on */
  size_t room, first, count;
  struct member *members; /* all threads that are not yet joined */
  int live;               /* members that have not left */
  int size;               /* the wanted number; threads leave while more are live */
  struct uvs__resize_watch *watches;
  bool closing;
};

/* The pool that this thread belongs to. */
static _Thread_local const uvs_threads_t *own_pool;

/* ---- jobs: lock held ---- */

/* Moves the jobs to a ring of this size. 0, UV_ENOMEM. */
static int make_ring(uvs_threads_t *p, size_t room) {
  struct job *jobs = uvs__mem_alloc(&p->mem, room, sizeof *jobs, 0);

  if (jobs == NULL)
    return UV_ENOMEM;
  for (size_t i = 0; i < p->count; i++)
    jobs[i] = p->jobs[(p->first + i) % p->room];
  uvs__mem_free(&p->mem, p->jobs);
  p->jobs = jobs;
  p->room = room;
  p->first = 0;
  return 0;
}

static int push(uvs_threads_t *p, struct job job) {
  if (p->count == p->room && make_ring(p, 2 * p->room) < 0)
    return UV_ENOMEM;
  p->jobs[(p->first + p->count++) % p->room] = job;
  return 0;
}

static struct job pop(uvs_threads_t *p) {
  struct job job = p->jobs[p->first];

  p->first = (p->first + 1) % p->room;
  if (--p->count == 0 && p->room > JOBS_KEPT)
    make_ring(p, JOBS_KEPT); /* if there is no memory, the large ring stays */
  return job;
}

/* ---- a thread ---- */

/* The next job. False: there is none, and this thread has left. */
static bool next_job(struct member *m, struct job *ret) {
  uvs_threads_t *p = m->pool;
  bool stay;

  uv_mutex_lock(&p->lock);
  while (!m->left && p->live <= p->size && p->count == 0 && !p->closing)
    uv_cond_wait(&p->wake, &p->lock);
  stay = !m->left && p->live <= p->size && p->count > 0;
  if (stay)
    *ret = pop(p);
  else if (!m->left)
    p->live--;
  m->left = !stay;
  uv_mutex_unlock(&p->lock);
  return stay;
}

static void thread_main(void *arg) {
  struct member *m = arg;
  const uvs_threads_t *p = m->pool;
  char name[UVS_THREADS_NAME_MAX + 16];
  struct job job;

  own_pool = p;
  snprintf(name, sizeof name, "%s-%d", p->name, m->number);
  uvs__thread_name(name);
  /* A job may fork. In the child it returns here, but the child must not touch the pool. */
  while (!uvs__forked(&p->fork) && next_job(m, &job))
    job.fn(job.arg);
}

/* ---- resize ---- */

static void join_all(const uvs_allocator_t *mem, struct member *m) {
  while (m != NULL) {
    struct member *next = m->next;

    uv_thread_join(&m->thread);
    uvs__mem_free(mem, m);
    m = next;
  }
}

/* The rest: lock held. */

/* Moves the threads that have left from the pool's list to *list. */
static void take_left(uvs_threads_t *p, struct member **list) {
  struct member **at = &p->members;

  while (*at != NULL) {
    struct member *m = *at;

    if (!m->left) {
      at = &m->next;
      continue;
    }
    *at = m->next;
    m->next = *list;
    *list = m;
  }
}

static int lowest_free_number(const uvs_threads_t *p) {
  bool used[UVS_THREADS_MAX] = {false};
  int number = 0;

  for (const struct member *m = p->members; m != NULL; m = m->next)
    used[m->number] = true;
  while (used[number])
    number++;
  return number;
}

static int add_member(uvs_threads_t *p) {
  uv_thread_options_t o = {.flags = UV_THREAD_HAS_STACK_SIZE, .stack_size = p->stack_size};
  struct member *m = uvs__mem_alloc(&p->mem, 1, sizeof *m, 0);
  int rc;

  if (m == NULL)
    return UV_ENOMEM;
  *m = (struct member){.pool = p, .next = p->members, .number = lowest_free_number(p)};
  rc = uv_thread_create_ex(&m->thread, &o, thread_main, m);
  if (rc < 0) {
    uvs__mem_free(&p->mem, m);
    return rc;
  }
  p->members = m;
  p->live++;
  return 0;
}

/* Adds the threads that have left to *ret_left. The caller joins them without the lock. */
static int change_size(uvs_threads_t *p, int threads, struct member **ret_left) {
  int old = p->live;
  int rc = 0;

  take_left(p, ret_left);
  while (rc == 0 && p->live < threads)
    rc = add_member(p);
  if (rc == 0) {
    p->size = threads;
  } else { /* the new threads are the first of the list */
    for (struct member *m = p->members; p->live > old; m = m->next, p->live--)
      m->left = true;
    take_left(p, ret_left);
  }
  if (p->live > p->size)
    uv_cond_broadcast(&p->wake);
  return rc;
}

/* Every function except close calls this first. */
static int enter(const uvs_threads_t *p) {
  if (p == NULL)
    return UV_EINVAL;
  return uvs__forked(&p->fork) ? UV_ENOTSUP : 0;
}

int uvs_threads_resize(uvs_threads_t *p, int threads) {
  struct member *left = NULL;
  int rc = enter(p);

  if (rc < 0)
    return rc;
  if (threads < 1 || threads > UVS_THREADS_MAX)
    return UV_EINVAL;
  uv_mutex_lock(&p->lock);
  rc = p->closing ? UV_ESHUTDOWN : change_size(p, threads, &left);
  for (struct uvs__resize_watch *w = rc == 0 ? p->watches : NULL; w != NULL; w = w->next)
    w->resized(w->arg);
  uv_mutex_unlock(&p->lock);
  join_all(&p->mem, left);
  return rc;
}

int uvs_threads_size(uvs_threads_t *p) {
  int rc = enter(p);

  if (rc < 0)
    return rc;
  uv_mutex_lock(&p->lock);
  rc = p->size;
  uv_mutex_unlock(&p->lock);
  return rc;
}

/* ---- the executors ---- */

static int submit_job(void *self, void (*fn)(void *arg), void *arg) {
  uvs_threads_t *p = self;
  int rc = enter(p);

  if (rc < 0)
    return rc;
  if (fn == NULL)
    return UV_EINVAL;
  uv_mutex_lock(&p->lock);
  rc = p->closing ? UV_ESHUTDOWN : push(p, (struct job){fn, arg});
  if (rc == 0)
    uv_cond_signal(&p->wake); /* under the lock: after unlocking, the pool may be freed */
  uv_mutex_unlock(&p->lock);
  return rc;
}

static int concurrency(void *self) {
  return uvs_threads_size(self);
}

static void close_threads(void *self) {
  uvs_threads_close(self);
}

const uvs_executor_t *uvs_threads_executor(uvs_threads_t *p) {
  return p == NULL ? NULL : &p->executor;
}

static int run_inline(void *self, void (*fn)(void *arg), void *arg) {
  (void)self;
  if (fn == NULL)
    return UV_EINVAL;
  fn(arg);
  return 0;
}

const uvs_executor_t *uvs_inline_executor(void) {
  static const uvs_executor_t executor = {.size = sizeof executor, .submit = run_inline};

  return &executor;
}

/* ---- watches ---- */

void uvs__threads_watch(const uvs_executor_t *e, struct uvs__resize_watch *w) {
  uvs_threads_t *p = e->self;

  if (e->submit != submit_job) /* not by address: `e` may be a copy of the table */
    return;
  uv_mutex_lock(&p->lock);
  w->next = p->watches;
  w->link = &p->watches;
  if (w->next != NULL)
    w->next->link = &w->next;
  p->watches = w;
  uv_mutex_unlock(&p->lock);
}

void uvs__threads_unwatch(const uvs_executor_t *e, struct uvs__resize_watch *w) {
  uvs_threads_t *p = e->self;

  if (e->submit != submit_job)
    return;
  uv_mutex_lock(&p->lock);
  if (w->link != NULL) {
    *w->link = w->next;
    if (w->next != NULL)
      w->next->link = w->link; /* so `link` must be read under the lock */
    w->link = NULL;
  }
  uv_mutex_unlock(&p->lock);
}

/* ---- open and close ---- */

static int check_options(const uvs_threads_options_t *o) {
  if (o == NULL || uvs__check_size(o, o->size, sizeof *o, sizeof *o) < 0)
    return UV_EINVAL;
  if (o->threads < 1 || o->threads > UVS_THREADS_MAX)
    return UV_EINVAL;
  if (o->name != NULL && strnlen(o->name, UVS_THREADS_NAME_MAX + 1) > UVS_THREADS_NAME_MAX)
    return UV_EINVAL;
  if ((o->allocator.alloc == NULL) != (o->allocator.free == NULL))
    return UV_EINVAL;
  return 0;
}

int uvs_threads_open(const uvs_threads_options_t *o, uvs_threads_t **ret) {
  uvs_allocator_t mem;
  uvs_threads_t *p;
  int rc = ret == NULL ? UV_EINVAL : check_options(o);

  if (rc < 0)
    return rc;
  mem = o->allocator;
  uvs__mem_init(&mem);
  p = uvs__mem_alloc(&mem, 1, sizeof *p, 0);
  if (p == NULL)
    return UV_ENOMEM;
  *p = (struct uvs_threads_s){
      .executor = {sizeof p->executor, submit_job, concurrency, close_threads, p},
      .mem = mem,
      .stack_size = o->stack_size,
  };
  strcpy(p->name, o->name != NULL ? o->name : "uvs");
  rc = make_ring(p, JOBS_FIRST);
  if (rc < 0)
    goto free_pool;
  rc = uvs__fork_init(&p->fork);
  if (rc < 0)
    goto free_jobs;
  rc = uv_mutex_init(&p->lock);
  if (rc < 0)
    goto destroy_fork;
  rc = uv_cond_init(&p->wake);
  if (rc < 0)
    goto destroy_lock;
  rc = uvs_threads_resize(p, o->threads);
  if (rc < 0)
    goto destroy_wake;
  *ret = p;
  return 0;

destroy_wake:
  uv_cond_destroy(&p->wake);
destroy_lock:
  uv_mutex_destroy(&p->lock);
destroy_fork:
  uvs__fork_destroy(&p->fork);
free_jobs:
  uvs__mem_free(&mem, p->jobs);
free_pool:
  uvs__mem_free(&mem, p);
  return rc;
}

/* If another thread held the lock at the fork, the lock stays locked in the child, and its data may
 * be half changed: then only the pool itself is freed. The lock is not destroyed, since threads of
 * the parent waited on it. */
static void free_in_child(uvs_threads_t *p) {
  if (uv_mutex_trylock(&p->lock) != 0)
    return;
  uvs__mem_free(&p->mem, p->jobs);
  for (struct member *m = p->members, *next; m != NULL; m = next) {
    next = m->next;
    uvs__mem_free(&p->mem, m);
  }
  uv_mutex_unlock(&p->lock);
}

int uvs_threads_close(uvs_threads_t *p) {
  uvs_allocator_t mem;
  bool was_closing;

  if (p == NULL)
    return UV_EINVAL;
  if (own_pool == p) /* in a forked child, too: the job would return to freed memory */
    return UVS_EDEADLK;
  mem = p->mem;
  if (uvs__forked(&p->fork)) {
    free_in_child(p);
  } else {
    uv_mutex_lock(&p->lock);
    was_closing = p->closing;
    p->closing = true;
    uv_cond_broadcast(&p->wake);
    uv_mutex_unlock(&p->lock);
    if (was_closing)
      return UV_EALREADY;
    join_all(&mem, p->members);
    UVS_ASSERT(p->live == 0 && p->count == 0);
    uvs__mem_free(&mem, p->jobs);
    uv_cond_destroy(&p->wake);
    uv_mutex_destroy(&p->lock);
  }
  uvs__fork_destroy(&p->fork);
  uvs__mem_free(&mem, p);
  return 0;
}
