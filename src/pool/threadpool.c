/* SPDX-License-Identifier: MIT
 *
 * threadpool: a pool of own threads, and the executor that has none.
 *
 * One lock and one condition guard the jobs, first in, first out, and the number of threads. A
 * thread that finds `live` above `room` leaves. It notes that in its record, and the next resize,
 * or close, joins it. Room is made smaller only with a broadcast, so if a thread that was woken for
 * a job leaves instead, other threads are awake and find the job.
 *
 * A second lock, `admin`, protects the list of threads: one resize at a time. It is taken before
 * the other lock. It is also the gate that a new thread passes before its first job: if another
 * thread of the same resize could not be made, the new thread learns there that it is not wanted.
 */
#include "uvsched/executor.h"

#include <string.h>

#include "pool/jobs.h"
#include "pool/threadpool.h"
#include "port/atomic.h"
#include "port/platform.h"
#include "util/sizes.h"

/* One thread. */
struct member {
  uvs_threads_t *pool;
  struct member *next;
  uv_thread_t thread;
  int number;    /* in its name */
  bool unwanted; /* with admin: it must not pass the gate */
  bool left;     /* with the lock: it can be joined without delay */
};

struct uvs_threads_s {
  /* Constant. */
  uvs_executor_t executor;
  uvs_allocator_t mem;
  struct uvs__fork fork;
  size_t stack_size;
  char name[UVS_THREADS_NAME_MAX + 1];

  uv_mutex_t admin;
  struct member *members; /* those that left included, until they are joined */
  struct uvs__resize_watch *watches;

  uv_mutex_t lock; /* what follows */
  uv_cond_t wake;  /* a job, or one thread too many, or the end */
  struct uvs__jobs jobs;
  int live; /* threads that have passed, or will pass, the gate and have not left */
  int room; /* at least `size`: threads leave when there are more */
  _Atomic int size;
  bool closing; /* written with both locks */
};

/* The pool that this thread belongs to. */
static _Thread_local const uvs_threads_t *own_pool;

/* ---- a thread ---- */

static void show_name(const struct member *m) {
  char name[UVS_THREADS_NAME_MAX + 16];

  snprintf(name, sizeof name, "%s-%d", m->pool->name, m->number);
  uvs__thread_name(name);
}

static bool pass_gate(struct member *m) {
  bool wanted;

  uv_mutex_lock(&m->pool->admin);
  wanted = !m->unwanted;
  uv_mutex_unlock(&m->pool->admin);
  return wanted;
}

/* The next job. False: there is none, and this thread has left. */
static bool next_job(struct member *m, struct uvs__job *ret) {
  uvs_threads_t *p = m->pool;
  bool stay;

  uv_mutex_lock(&p->lock);
  while (p->live <= p->room && uvs__jobs_empty(&p->jobs) && !p->closing)
    uv_cond_wait(&p->wake, &p->lock);
  stay = p->live <= p->room && !uvs__jobs_empty(&p->jobs);
  if (stay) {
    *ret = uvs__jobs_pop(&p->jobs, &p->mem);
  } else {
    p->live--;
    m->left = true;
  }
  uv_mutex_unlock(&p->lock);
  return stay;
}

static void thread_main(void *arg) {
  struct member *m = arg;
  const uvs_threads_t *p = m->pool;
  struct uvs__job job;

  own_pool = p;
  show_name(m);
  if (!pass_gate(m))
    return;
  /* A job that forked may come back here in the child, where nothing is ours to touch. */
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

/* With both locks: those that can be joined without delay, off the list. */
static struct member *take_left(uvs_threads_t *p) {
  struct member **at = &p->members;
  struct member *taken = NULL;

  while (*at != NULL) {
    struct member *m = *at;

    if (!m->left) {
      at = &m->next;
      continue;
    }
    *at = m->next;
    m->next = taken;
    taken = m;
  }
  return taken;
}

/* With admin. */
static void find_numbers_in_use(const uvs_threads_t *p, bool used[UVS_THREADS_MAX]) {
  memset(used, 0, UVS_THREADS_MAX * sizeof *used);
  for (const struct member *m = p->members; m != NULL; m = m->next)
    used[m->number] = true;
}

static int make_member(uvs_threads_t *p, int number, struct member **ret) {
  uv_thread_options_t o = {.flags = UV_THREAD_HAS_STACK_SIZE, .stack_size = p->stack_size};
  struct member *m = uvs__mem_alloc(&p->mem, 1, sizeof *m, 0);
  int rc;

  if (m == NULL)
    return UV_ENOMEM;
  memset(m, 0, sizeof *m);
  m->pool = p;
  m->number = number;
  rc = uv_thread_create_ex(&m->thread, &o, thread_main, m);
  if (rc < 0) {
    uvs__mem_free(&p->mem, m);
    return rc;
  }
  *ret = m;
  return 0;
}

/* With admin: n more threads, which stand at the gate; they are in *ret, also after an error. */
static int make_members(uvs_threads_t *p, int n, struct member **ret) {
  bool used[UVS_THREADS_MAX];
  int number = 0;

  find_numbers_in_use(p, used);
  for (; n > 0; n--) {
    struct member *m;
    int rc;

    while (used[number])
      number++;
    rc = make_member(p, number++, &m);
    if (rc < 0)
      return rc;
    m->next = *ret;
    *ret = m;
  }
  return 0;
}

/* With admin. */
static void adopt(uvs_threads_t *p, struct member *made) {
  while (made != NULL) {
    struct member *next = made->next;

    made->next = p->members;
    p->members = made;
    made = next;
  }
}

/* With admin. Threads that have left, or never passed the gate, are in *ret: to be joined without
 * it. */
static int change_size(uvs_threads_t *p, int threads, struct member **ret) {
  struct member *made = NULL;
  int missing, rc;

  uv_mutex_lock(&p->lock);
  *ret = take_left(p);
  if (threads > p->room)
    p->room = threads; /* threads that were about to leave may stay */
  missing = threads - p->live;
  uv_mutex_unlock(&p->lock);

  rc = make_members(p, missing, &made);

  uv_mutex_lock(&p->lock);
  if (rc == 0) {
    uvs__locked_store(&p->size, threads, relaxed); /* a number; nothing is ordered by it */
    if (missing > 0)
      p->live += missing;
    adopt(p, made);
  }
  p->room = uvs__locked_load(&p->size, relaxed); /* written with this lock */
  if (p->live > p->room)
    uv_cond_broadcast(&p->wake);
  uv_mutex_unlock(&p->lock);

  while (rc < 0 && made != NULL) {
    struct member *m = made;

    made = m->next;
    m->unwanted = true;
    m->next = *ret;
    *ret = m;
  }
  return rc;
}

/* With admin. */
static void tell_watches(const uvs_threads_t *p) {
  for (const struct uvs__resize_watch *w = p->watches; w != NULL; w = w->next)
    w->resized(w->arg);
}

/* The door of all but close. */
static int enter(const uvs_threads_t *p) {
  if (p == NULL)
    return UV_EINVAL;
  return uvs__forked(&p->fork) ? UV_ENOTSUP : 0;
}

int uvs_threads_resize(uvs_threads_t *p, int threads) {
  struct member *gone = NULL;
  int rc = enter(p);

  if (rc < 0)
    return rc;
  if (threads < 1 || threads > UVS_THREADS_MAX)
    return UV_EINVAL;
  uv_mutex_lock(&p->admin);
  rc = p->closing ? UV_ESHUTDOWN : change_size(p, threads, &gone);
  if (rc == 0)
    tell_watches(p);
  uv_mutex_unlock(&p->admin);
  join_all(&p->mem, gone);
  return rc;
}

int uvs_threads_size(uvs_threads_t *p) {
  int rc = enter(p);

  return rc < 0 ? rc : uvs__load(&p->size, relaxed); /* a number; nothing is ordered by it */
}

/* ---- the executors ---- */

static int submit(void *self, void (*fn)(void *arg), void *arg) {
  uvs_threads_t *p = self;
  struct uvs__job job = {fn, arg};
  int rc = enter(p);

  if (rc < 0)
    return rc;
  if (fn == NULL)
    return UV_EINVAL;
  uv_mutex_lock(&p->lock);
  rc = p->closing ? UV_ESHUTDOWN : uvs__jobs_push(&p->jobs, &p->mem, job);
  if (rc == 0)
    uv_cond_signal(&p->wake); /* with the lock: after it, the pool may have run the job and gone */
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

/* A copy of the table is as good. */
static bool is_pool(const uvs_executor_t *e) {
  return e->submit == submit;
}

void uvs__threads_watch(const uvs_executor_t *e, struct uvs__resize_watch *w) {
  uvs_threads_t *p = e->self;

  if (!is_pool(e))
    return;
  uv_mutex_lock(&p->admin);
  w->next = p->watches;
  w->link = &p->watches;
  if (w->next != NULL)
    w->next->link = &w->next;
  p->watches = w;
  uv_mutex_unlock(&p->admin);
}

void uvs__threads_unwatch(const uvs_executor_t *e, struct uvs__resize_watch *w) {
  uvs_threads_t *p = e->self;

  if (!is_pool(e))
    return;
  uv_mutex_lock(&p->admin);
  if (w->link != NULL) {
    *w->link = w->next;
    if (w->next != NULL)
      w->next->link = w->link; /* so `link` is read with the lock only */
    w->link = NULL;
  }
  uv_mutex_unlock(&p->admin);
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

static void set_up(uvs_threads_t *p, const uvs_threads_options_t *o, const uvs_allocator_t *mem) {
  memset(p, 0, sizeof *p);
  p->mem = *mem;
  p->stack_size = o->stack_size;
  strcpy(p->name, o->name != NULL ? o->name : "uvs");
  atomic_init(&p->size, 0);
  uvs_executor_init(&p->executor);
  p->executor.submit = submit;
  p->executor.concurrency = concurrency;
  p->executor.close = close_threads;
  p->executor.self = p;
}

static int init_locks(uvs_threads_t *p) {
  int rc = uv_mutex_init(&p->admin);

  if (rc < 0)
    return rc;
  rc = uv_mutex_init(&p->lock);
  if (rc < 0)
    goto destroy_admin;
  rc = uv_cond_init(&p->wake);
  if (rc < 0)
    goto destroy_lock;
  return 0;

destroy_lock:
  uv_mutex_destroy(&p->lock);
destroy_admin:
  uv_mutex_destroy(&p->admin);
  return rc;
}

static void destroy_locks(uvs_threads_t *p) {
  uv_cond_destroy(&p->wake);
  uv_mutex_destroy(&p->lock);
  uv_mutex_destroy(&p->admin);
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
  set_up(p, o, &mem);
  rc = uvs__jobs_init(&p->jobs, &mem);
  if (rc < 0)
    goto free_pool;
  rc = uvs__fork_init(&p->fork);
  if (rc < 0)
    goto free_jobs;
  rc = init_locks(p);
  if (rc < 0)
    goto destroy_fork;
  rc = uvs_threads_resize(p, o->threads);
  if (rc < 0)
    goto destroy_locks;
  *ret = p;
  return 0;

destroy_locks:
  destroy_locks(p);
destroy_fork:
  uvs__fork_destroy(&p->fork);
free_jobs:
  uvs__jobs_free_memory(&p->jobs, &mem);
free_pool:
  uvs__mem_free(&mem, p);
  return rc;
}

/* A lock that a thread of the parent held when it forked stays locked here for ever, and what it
 * guards may be half changed. The locks themselves are not destroyed: threads waited there. */
static void free_in_child(uvs_threads_t *p) {
  uvs_allocator_t mem = p->mem;

  if (uv_mutex_trylock(&p->lock) == 0) {
    uvs__jobs_free_memory(&p->jobs, &mem);
    uv_mutex_unlock(&p->lock);
  }
  if (uv_mutex_trylock(&p->admin) == 0) {
    for (struct member *m = p->members, *next; m != NULL; m = next) {
      next = m->next;
      uvs__mem_free(&mem, m);
    }
    uv_mutex_unlock(&p->admin);
  }
  uvs__fork_destroy(&p->fork);
  uvs__mem_free(&mem, p);
}

static void free_pool(uvs_threads_t *p) {
  uvs_allocator_t mem = p->mem;

  UVS_ASSERT(p->live == 0);
  UVS_ASSERT(uvs__jobs_empty(&p->jobs));
  uvs__jobs_free_memory(&p->jobs, &mem);
  destroy_locks(p);
  uvs__fork_destroy(&p->fork);
  uvs__mem_free(&mem, p);
}

int uvs_threads_close(uvs_threads_t *p) {
  bool was_closing;

  if (p == NULL)
    return UV_EINVAL;
  if (own_pool == p) /* in a child, too: the job would return to freed memory */
    return UVS_EDEADLK;
  if (uvs__forked(&p->fork)) {
    free_in_child(p);
    return 0;
  }
  uv_mutex_lock(&p->admin); /* a resize in progress ends first, and none follows */
  uv_mutex_lock(&p->lock);
  was_closing = p->closing;
  p->closing = true;
  uv_cond_broadcast(&p->wake);
  uv_mutex_unlock(&p->lock);
  uv_mutex_unlock(&p->admin);
  if (was_closing)
    return UV_EALREADY;
  join_all(&p->mem, p->members);
  free_pool(p);
  return 0;
}
