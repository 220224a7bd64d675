/* SPDX-License-Identifier: MIT */
#undef _FORTIFY_SOURCE /* its longjmp rejects a change of stacks */
#include "weave.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "arena.h"
#include "port/self.h"

#define STACK_SIZE ((size_t)256 << 10)
#define STEPS_MOST 20000   /* a longer schedule is taken to be endless */
#define STEPS_CALM 2000000 /* the same for set-up and end, without preemptions */
#define STEPS_ALONE 1500   /* a strand that runs longer is taken to spin on another */
#define STEPS_STARVED 3000 /* a runnable strand that has not run for so many steps runs */
#define CHOICES_MOST 65536 /* in one schedule */
#define TOUCHED 4096       /* addresses, a power of two; far more than a scene touches */
#define SITES 6            /* of one address; if there are more, they count as shared */
#define SHARED_MOST 4096
#define LEARNING 400
#define BUFFER 8

/* The weave build puts all _Thread_local variables into one section. Each strand has its copy. */
extern char __start_weave_tls[], __stop_weave_tls[];
#define TLS_MOST 256

struct pending {
  volatile void *at;
  size_t size;
  uint64_t value;
};

struct strand {
  const char *name;
  void (*fn)(void *arg);
  void *arg;
  bool servant, over;
  bool begun;
  bool (*ready)(const void *arg); /* condition that it sleeps for; NULL: runnable */
  const void *ready_arg;
  bool rests; /* and is woken when all others sleep for ever */
  bool rested;
  uint64_t until_ns;
  uint32_t last; /* the step at which it last went on */
  ucontext_t start;
  sigjmp_buf goes_on;
  char *stack;
  char tls[TLS_MOST];
  struct pending buffer[BUFFER];
  unsigned buffered;
  int locks; /* that it holds */
};

struct choice {
  uint32_t step;
  uint8_t of, taken;
};

/* The strands that accessed an address in this schedule, to find out which sites are shared. */
struct touched {
  const volatile void *at;
  uint64_t play;
  struct weave_site *site[SITES]; /* where */
  uint8_t sites;
  int8_t strand; /* the first strand */
  bool many, written;
};

uint64_t weave_now_ns;

static struct strand strands[WEAVE_STRANDS];
static int count;
static int current = -1;
static bool calm;
static sigjmp_buf home;
static struct touched touched[TOUCHED];

static const struct weave_scene *scene;
static const struct weave_order *order;
static struct weave_report report;
static uint64_t schedule; /* its number */
static uint64_t plays;    /* schedules so far, of all scenes */
static uint32_t steps, calm_steps, alone;
static unsigned preemptions;
static unsigned bound; /* ALL: maximum number of preemptions */
static struct choice choices[CHOICES_MOST];
static uint32_t chosen, given; /* ALL: number of choices that are given */
static uint32_t given_at[CHOICES_MOST];
static uint8_t given_choice[CHOICES_MOST]; /* REPLAY */
static uint64_t random_state;
static const uint32_t rates[] = {3, 8, 20, 60};
static uint32_t one_in; /* RANDOM: a strand is preempted at one step in so many */
static bool buffering;
static struct weave_site *shared[SHARED_MOST];
static unsigned shared_count;
static bool learned; /* a site was newly found to be shared */

/* ---- chance ---- */

static uint64_t mixed(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static uint32_t random_below(uint32_t n) {
  random_state += UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)((mixed(random_state) >> 32) * n >> 32);
}

/* ---- failure ---- */

/* Also called from the signal handler after a crash. Not async-signal-safe, but the process ends
 * anyway. */
static void tell_how(void) {
  printf("  scene     %s/%s, schedule %llu, step %u, strand %s\n", scene->room, scene->name,
         (unsigned long long)schedule, steps, current < 0 ? "-" : strands[current].name);
  if (order->mode == WEAVE_RANDOM)
    printf("  again     --scene %s/%s --random 1 --seed %llu --first %llu%s --trace\n", scene->room,
           scene->name, (unsigned long long)order->seed, (unsigned long long)schedule,
           order->buffers ? "" : " --no-buffers");
  if (order->mode == WEAVE_ALL || (order->mode == WEAVE_RANDOM && !buffering)) {
    printf("  or        --scene %s/%s --trace --replay '", scene->room, scene->name);
    for (uint32_t i = 0; i < chosen; i++) {
      if (choices[i].taken != 0)
        printf("%u:%u,", choices[i].step, choices[i].taken);
    }
    printf("'\n");
  }
  fflush(stdout);
}

void weave_fail(const char *format, ...) {
  va_list args;

  fflush(stderr);
  printf("FAILED: ");
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  printf("\n");
  tell_how();
  _exit(1);
}

void weave_same(long long expected, long long got, const char *what, const char *file, int line) {
  if (expected != got)
    weave_fail("%s:%d: %s is %lld, not %lld", file, line, what, got, expected);
}

static void on_crash(int signal) {
  printf("FAILED: signal %d\n", signal);
  tell_how();
  _exit(1);
}

static void watch_for_crashes(void) {
  static char stack[64 << 10];
  stack_t s = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction a;

  memset(&a, 0, sizeof a);
  a.sa_handler = on_crash;
  a.sa_flags = SA_ONSTACK;
  sigaltstack(&s, NULL);
  sigaction(SIGABRT, &a, NULL);
  sigaction(SIGSEGV, &a, NULL);
  sigaction(SIGBUS, &a, NULL);
  sigaction(SIGFPE, &a, NULL);
  sigaction(SIGILL, &a, NULL);
}

/* ---- strands ---- */

static size_t tls_size(void) {
  return (size_t)(__stop_weave_tls - __start_weave_tls);
}

/* Its first step, on its own stack. */
static void begin_strand(void) {
  struct strand *s = &strands[current];

  s->fn(s->arg);
  weave_flush();
  s->over = true;
  if (current == 0)
    siglongjmp(home, 1);
  weave_yield(); /* and never runs again */
  abort();
}

/* makecontext only for the first entry: longjmp needs no system call. */
static void enter(int to) {
  struct strand *s = &strands[to];

  current = to;
  alone = 0;
  memcpy(__start_weave_tls, s->tls, tls_size());
  if (s->begun)
    siglongjmp(s->goes_on, 1);
  s->begun = true;
  getcontext(&s->start);
  s->start.uc_stack.ss_sp = s->stack;
  s->start.uc_stack.ss_size = STACK_SIZE;
  s->start.uc_link = NULL;
  makecontext(&s->start, begin_strand, 0);
  setcontext(&s->start);
}

static void change_to(int to) {
  struct strand *s = &strands[current];

  if (to == current)
    return;
  s->last = steps;
  memcpy(s->tls, __start_weave_tls, tls_size());
  if (sigsetjmp(s->goes_on, 0) == 0)
    enter(to);
}

int weave_spawn(const char *name, void (*fn)(void *arg), void *arg, bool servant) {
  struct strand *s = &strands[count];
  struct uvs__thread self = {NULL, (uintptr_t)count + 1, count + 1};
  char *stack = s->stack;

  if (count == WEAVE_STRANDS)
    weave_fail("too many strands");
  if (stack == NULL) {
    stack =
        mmap(NULL, STACK_SIZE + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(stack, 4096, PROT_NONE);
    stack += 4096;
  }
  s->name = name;
  s->fn = fn;
  s->arg = arg;
  s->servant = servant;
  s->over = s->begun = s->rests = s->rested = false;
  s->ready = NULL;
  s->until_ns = WEAVE_NEVER;
  s->last = steps;
  s->buffered = 0;
  s->locks = 0;
  s->stack = stack;
  memset(s->tls, 0, sizeof s->tls);
  memcpy(s->tls + ((char *)&uvs__thread - __start_weave_tls), &self, sizeof self);
  return count++;
}

int weave_self(void) {
  return current;
}

void weave_locked(int more) {
  strands[current].locks += more;
}

int weave_locks(void) {
  return current < 0 ? 0 : strands[current].locks;
}

bool weave_is_calm(void) {
  return calm;
}

void weave_calm(bool on) {
  calm = on;
}

bool weave_is_over(int strand) {
  return strands[strand].over;
}

const char *weave_unfinished(void) {
  for (int i = 1; i < count; i++) {
    if (!strands[i].servant && !strands[i].over)
      return strands[i].name;
  }
  return NULL;
}

/* ---- buffered stores ---- */

static void write_through(const struct pending *p) {
  memcpy((void *)p->at, &p->value, p->size); /* one system thread: no strand sees half of it */
}

static void flush_some(struct strand *s, unsigned n) {
  for (unsigned i = 0; i < n; i++)
    write_through(&s->buffer[i]);
  memmove(s->buffer, s->buffer + n, (s->buffered - n) * sizeof s->buffer[0]);
  s->buffered -= n;
}

void weave_flush(void) {
  if (current >= 0 && strands[current].buffered > 0)
    flush_some(&strands[current], strands[current].buffered);
}

void weave_store(volatile void *at, const void *value, size_t size, bool seq_cst) {
  struct pending p = {at, size, 0};
  struct strand *s = &strands[current < 0 ? 0 : current];

  memcpy(&p.value, value, size);
  if (!buffering || calm || current < 0 || seq_cst) {
    weave_flush();
    write_through(&p);
    return;
  }
  if (s->buffered == BUFFER)
    flush_some(s, 1);
  s->buffer[s->buffered++] = p;
}

bool weave_buffered(const volatile void *at, void *ret, size_t size) {
  struct strand *s = &strands[current < 0 ? 0 : current];

  for (unsigned i = current < 0 ? 0 : s->buffered; i > 0; i--) {
    if (s->buffer[i - 1].at == at) {
      memcpy(ret, &s->buffer[i - 1].value, size);
      return true;
    }
  }
  return false;
}

/* ---- which strand runs next ---- */

static bool can_go_on(const struct strand *s) {
  return !s->over &&
         (s->ready == NULL || s->rested || s->until_ns <= weave_now_ns || s->ready(s->ready_arg));
}

/* All runnable strands except the current one, in order after it. */
static unsigned others(uint8_t *ret) {
  unsigned n = 0;

  for (int i = 1; i < count; i++) {
    int k = (current + i) % count;

    if (can_go_on(&strands[k]))
      ret[n++] = (uint8_t)k;
  }
  return n;
}

/* Two strands that wake each other again and again must not starve a third. */
static unsigned starved(uint8_t *who, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    if (steps - strands[who[i]].last > STEPS_STARVED) {
      who[0] = who[i];
      return 1;
    }
  }
  return n;
}

/* Chooses one of n; 0 is the default. `preempts`: all others are preemptions. */
static unsigned choose(unsigned n, bool preempts) {
  unsigned taken = 0;

  if (n <= 1)
    return 0;
  switch (order->mode) {
  case WEAVE_ALL:
    if (chosen < given)
      taken = choices[chosen].taken;
    break;
  case WEAVE_RANDOM:
    if (preempts)
      taken = random_below(one_in) == 0 ? 1 + random_below(n - 1) : 0;
    else
      taken = random_below(n);
    break;
  case WEAVE_REPLAY:
    while (chosen < given && given_at[chosen] < steps)
      chosen++;
    if (chosen < given && given_at[chosen] == steps)
      taken = given_choice[chosen];
    if (taken >= n)
      weave_fail("this schedule is of another program");
    preemptions += preempts && taken > 0;
    return taken;
  }
  if (chosen == CHOICES_MOST)
    weave_fail("too many choices");
  choices[chosen++] = (struct choice){steps, (uint8_t)n, (uint8_t)taken};
  preemptions += preempts && taken > 0;
  return taken;
}

static void count_step(void) {
  if (++steps == STEPS_MOST)
    weave_fail("it never comes to rest");
}

/* The current strand stops, and a runnable one runs. Time passes if there is none. */
static void stop(void) {
  uint8_t who[WEAVE_STRANDS];
  unsigned n;

  weave_flush();
  count_step();
  for (;;) {
    uint64_t next_ns = WEAVE_NEVER;

    n = others(who);
    if (can_go_on(&strands[current]) && (n == 0 || strands[current].ready != NULL))
      who[n++] = (uint8_t)current;
    if (n > 0)
      break;
    for (int i = 0; i < count; i++) {
      if (!strands[i].over && strands[i].until_ns < next_ns)
        next_ns = strands[i].until_ns;
    }
    if (next_ns != WEAVE_NEVER) {
      weave_now_ns = next_ns;
    } else if (strands[0].rests) {
      strands[0].rested = true;
    } else {
      weave_fail("all sleep for ever");
    }
  }
  n = starved(who, n);
  change_to(who[calm ? 0 : choose(n, false)]);
}

void weave_yield(void) {
  stop();
}

static bool sleep_until(bool (*ready)(const void *arg), const void *arg, uint64_t until_ns,
                        bool rests) {
  struct strand *s = &strands[current];
  bool in_time;

  s->ready = ready;
  s->ready_arg = arg;
  s->until_ns = until_ns;
  s->rests = rests;
  s->rested = false;
  stop();
  in_time = ready(arg);
  s->ready = NULL;
  s->rests = s->rested = false;
  s->until_ns = WEAVE_NEVER;
  return in_time;
}

bool weave_sleep(bool (*ready)(const void *arg), const void *arg, uint64_t until_ns) {
  weave_flush();
  return ready(arg) || sleep_until(ready, arg, until_ns, false);
}

void weave_here(void) {
  static int here;
  static struct weave_site site = {"here", __FILE__, __LINE__, true, true};

  weave_step(&site, &here);
}

bool weave_rest(bool (*ready)(const void *arg), const void *arg, uint64_t until_ns) {
  weave_here(); /* others may run before the last stores are visible */
  weave_flush();
  return ready(arg) || sleep_until(ready, arg, until_ns, true);
}

static void share(struct weave_site *site) {
  if (site->shared)
    return;
  if (shared_count == SHARED_MOST)
    weave_fail("too many sites");
  learned = true;
  site->shared = true;
  shared[shared_count++] = site;
}

static void unshare_all(void) {
  while (shared_count > 0)
    shared[--shared_count]->shared = false;
}

/* A preemption before an operation on data that no other strand uses is equivalent to one before
 * the next operation, so it is skipped. Which sites use shared data is learned during the run. */
static void note(struct weave_site *site, const volatile void *at) {
  size_t hash = (size_t)(mixed((uintptr_t)at) & (TOUCHED - 1));
  struct touched *t;

  while (touched[hash].play == plays && touched[hash].at != at)
    hash = (hash + 1) & (TOUCHED - 1);
  t = &touched[hash];
  if (t->play != plays)
    *t = (struct touched){.at = at, .play = plays, .strand = (int8_t)current};
  t->many |= t->strand != current;
  t->written |= site->writes;
  if (t->many && t->written) {
    for (; t->sites > 0; t->sites--)
      share(t->site[t->sites - 1]);
    share(site);
  } else if (!site->shared) {
    if (t->sites == SITES)
      share(site);
    else if (t->sites == 0 || t->site[t->sites - 1] != site)
      t->site[t->sites++] = site;
  }
}

void weave_step(struct weave_site *site, const volatile void *at) {
  uint8_t who[WEAVE_STRANDS];
  unsigned n;

  if (arena_is_gone(at))
    weave_fail("%s:%d: %s: that was freed", site->file, site->line, site->what);
  if (calm && ++calm_steps == STEPS_CALM)
    weave_fail("%s:%d: it never comes to rest", site->file, site->line);
  if (calm || current < 0)
    return;
  count_step();
  if (order->trace)
    printf("%6u %-8s %s  %s:%d\n", steps, strands[current].name, site->what, site->file,
           site->line);
  note(site, at);
  if (++alone == STEPS_ALONE) {
    stop();
    return;
  }
  if (buffering && strands[current].buffered > 0 && random_below(4) == 0)
    flush_some(&strands[current], 1 + random_below(strands[current].buffered));
  if (order->mode == WEAVE_ALL && (!site->shared || preemptions >= bound))
    return;
  if (strands[current].locks > 0 && !site->writes)
    return;
  n = others(who);
  n = choose(n + 1, true);
  if (n > 0)
    change_to(who[n - 1]);
}

/* Other strands may run between an operation that hands something over (or an unlock) and a later
 * read of a plain field. Mostly this is equivalent to a preemption before the next step, so it is
 * done only at random, and as the only preemption of a schedule. */
void weave_after(void) {
  uint8_t who[WEAVE_STRANDS];
  unsigned n;

  if (calm || current < 0 || strands[current].locks > 0)
    return;
  count_step();
  if (order->mode == WEAVE_ALL && (bound != 1 || preemptions > 0))
    return;
  n = choose(others(who) + 1, true);
  if (n > 0)
    change_to(who[n - 1]);
}

bool weave_fails(void) {
  return buffering && !calm && current >= 0 && random_below(16) == 0;
}

/* ---- schedules ---- */

static void play(void *arg) {
  (void)arg;
  scene->play();
}

static void play_once(void) {
  plays++;
  count = 0;
  steps = calm_steps = alone = 0;
  preemptions = 0;
  chosen = 0;
  calm = true;
  weave_now_ns = UINT64_C(1000000000);
  weave_spawn("loop", play, NULL, false);
  if (sigsetjmp(home, 0) == 0)
    enter(0);
  current = -1;
  if (steps > report.steps)
    report.steps = steps;
  if ((unsigned)count > report.strands)
    report.strands = (unsigned)count;
}

/* Goes to the next of all schedules. Returns false after the last. */
static bool advance(void) {
  while (chosen > 0 && choices[chosen - 1].taken + 1 >= choices[chosen - 1].of)
    chosen--;
  if (chosen == 0)
    return false;
  choices[chosen - 1].taken++;
  given = chosen;
  return true;
}

/* Chooses the kind of schedule by its number. */
static void draw(void) {
  random_state = mixed(order->seed ^ mixed(schedule));
  buffering = order->buffers && random_below(2) == 0;
  one_in = rates[random_below(sizeof rates / sizeof rates[0])];
}

/* A few random schedules show most of the shared sites. */
static void learn(void) {
  static const struct weave_order by_chance = {.mode = WEAVE_RANDOM, .seed = 1};
  const struct weave_order *wanted = order;

  order = &by_chance;
  for (schedule = 1; schedule <= LEARNING; schedule++) {
    draw();
    play_once();
  }
  order = wanted;
  learned = false;
}

/* Runs all schedules with up to `bound` preemptions. Returns false if they are too many. */
static bool explore_bounded(void) {
  given = 0;
  report.of_all = 0;
  while (report.schedules < order->most) {
    play_once();
    report.schedules++;
    report.of_all++;
    schedule++;
    if (learned) { /* some schedules were skipped: start again with what is known now */
      learned = false;
      given = 0;
      report.of_all = 0;
    } else if (!advance()) {
      return true;
    }
  }
  return false;
}

/* Few preemptions first: they find most errors, and those are the easiest to read. */
static void explore_all(void) {
  learn();
  report.complete = true;
  for (bound = 0; bound <= order->preemptions && report.complete; bound++)
    report.complete = explore_bounded();
}

static void explore_random(void) {
  for (schedule = order->first; report.schedules < order->most; schedule++) {
    draw();
    play_once();
    report.schedules++;
  }
}

static void read_schedule(const char *s) {
  given = 0;
  while (*s != '\0' && given < CHOICES_MOST) {
    char *end;

    given_at[given] = (uint32_t)strtoul(s, &end, 10);
    if (*end != ':')
      break;
    given_choice[given++] = (uint8_t)strtoul(end + 1, &end, 10);
    s = *end == ',' ? end + 1 : end;
  }
}

struct weave_report weave_explore(const struct weave_scene *s, const struct weave_order *o) {
  struct weave_order first = {.mode = WEAVE_RANDOM, .seed = 1};

  watch_for_crashes();
  if (tls_size() > TLS_MOST)
    abort();
  /* Brings data that lives as long as the process (the directory of lanes) into its usual state. */
  scene = s;
  order = &first;
  one_in = 1u << 31;
  random_state = 1;
  buffering = false;
  unshare_all();
  play_once();

  memset(&report, 0, sizeof report);
  order = o;
  schedule = 0;
  learned = false;
  buffering = false;
  if (o->mode == WEAVE_ALL) {
    explore_all();
  } else if (o->mode == WEAVE_RANDOM) {
    explore_random();
  } else {
    read_schedule(o->schedule);
    play_once();
    report.schedules = 1;
  }
  return report;
}
