/* SPDX-License-Identifier: MIT
 *
 * against-model: runs random programs on the library and on the model.
 *
 *   against-model [--seed N] [--steps N]   N steps; prints seed and steps; or SEED=N in the
 *                                          environment
 *   against-model --replay FILE ...        programs from files, for example from libFuzzer
 *   against-model --seed N --program N     repeats one program of a seed and prints every step
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uv.h>

#include "driver.h"

#define PROGRAM_STEPS 600
#define PROGRAM_SECONDS 120 /* a program takes milliseconds on an idle machine */

static char endless[200]; /* the message for a program that does not end */

static void on_alarm(int signal) {
  (void)signal;
  (void)!write(STDERR_FILENO, endless, strlen(endless));
  _exit(1);
}

static void watch(const char *text) {
  snprintf(endless, sizeof endless, "it does not end: %s\n", text);
  signal(SIGALRM, on_alarm);
  alarm(PROGRAM_SECONDS);
}

static int replay(const char *path, bool trace) {
  static uint8_t data[1 << 20];
  FILE *f = fopen(path, "rb");
  struct bytes b = {data, 0, 0, 0};

  if (f == NULL) {
    perror(path);
    return 2;
  }
  b.size = fread(data, 1, sizeof data, f);
  fclose(f);
  watch(path);
  if (!driver_run(b, UINT64_MAX, trace).differs)
    return 0;
  fprintf(stderr, "in %s\n", path);
  return 1;
}

static uint64_t number(const char *text) {
  char *end;
  double rounded = strtod(text, &end); /* accepts 1e7 */
  uint64_t exact = strtoull(text, NULL, 0);

  return strpbrk(text, "eE.") != NULL && strncmp(text, "0x", 2) != 0 ? (uint64_t)rounded : exact;
}

int main(int argc, char **argv) {
  const char *given = getenv("SEED");
  uint64_t seed =
      given == NULL ? uv_hrtime() ^ (uint64_t)uv_os_getpid() << 32 : strtoull(given, NULL, 0);
  uint64_t steps = 1000000, done = 0, calls = 0, events = 0, programs = 0;
  uint64_t only = UINT64_MAX;
  uint64_t began = uv_hrtime();
  bool trace = false;
  int rc = 0;

  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = number(argv[++i]);
    } else if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc) {
      steps = number(argv[++i]);
    } else if (strcmp(argv[i], "--program") == 0 && i + 1 < argc) {
      only = number(argv[++i]);
    } else if (strcmp(argv[i], "--trace") == 0) {
      trace = true;
    } else if (strcmp(argv[i], "--replay") == 0 && i + 1 < argc) {
      while (++i < argc)
        rc |= replay(argv[i], trace);
      if (rc == 0)
        printf("no difference\n");
      return rc;
    } else {
      fprintf(stderr,
              "usage: %s [--seed N] [--steps N] [--program N] [--trace] [--replay FILE...]\n",
              argv[0]);
      return 2;
    }
  }
  printf("against-model: seed %" PRIu64 "\n", seed);
  fflush(stdout);
  for (uint64_t n = only == UINT64_MAX ? 0 : only; done < steps; n++) {
    struct driver_result r;
    char which[80];

    snprintf(which, sizeof which, "--seed %" PRIu64 " --program %" PRIu64, seed, n);
    watch(which);
    r = driver_run(driver_program(seed, n), PROGRAM_STEPS, only != UINT64_MAX || trace);
    done += r.steps;
    calls += r.calls;
    events += r.events;
    programs++;
    if (r.differs) {
      fprintf(stderr,
              "the library and the model differ: seed %" PRIu64 ", program %" PRIu64
              ", step %" PRIu64 "\nonce more, step by step: %s --seed %" PRIu64
              " --program %" PRIu64 "\n",
              seed, n, r.steps, argv[0], seed, n);
      return 1;
    }
    if (only != UINT64_MAX)
      break;
  }
  printf("%" PRIu64 " steps in %" PRIu64 " programs, %" PRIu64 " calls, %" PRIu64
         " callbacks and answers compared, %.1f s: no difference\n",
         done, programs, calls, events, (double)(uv_hrtime() - began) / 1e9);
  return 0;
}
