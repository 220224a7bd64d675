/* SPDX-License-Identifier: MIT
 *
 * tuning: every constant that was chosen by a measurement, with the measurement. bench/README.md
 * says how to repeat them.
 */
#ifndef UVS__TUNING_H
#define UVS__TUNING_H

#define UVS__MS UINT64_C(1000000)

/* A thread that finds the lock taken looks again this many times, each time after UVS__PAUSES
 * pauses of the CPU (about 3 us in all), and then sleeps. A section takes 0.1 us; sleeping and
 * waking takes 8 us. Without these looks W4a took 1.5 times as long at P = 1, and W4b 1.7 times at
 * P = 2. With 40 looks of 4 pauses W4a took 1.3 times as long. (A guess: a look takes the lock's
 * cache line away from its holder.) */
#ifndef UVS__LOOKS /* test/weave sets 0: it runs one thread at a time */
#define UVS__LOOKS 4
#endif
#define UVS__PAUSES 40

/* Tasks that one critical section may look at. At 64 a section takes 5 to 10 us: as long as it
 * takes a thread that waits for the lock to sleep and wake. Smaller batches lose more to locking
 * than they save. */
#define UVS__BATCH 64

/* A run below this is brief: it is shorter than waking a pool thread (about 10 us). */
#define UVS__BRIEF_NS 10000
/* This many brief runs make a crew brief. Up to twice as many are counted. A long run takes away
 * half of this, and one more for each 10 us. So one run that lost its core for 0.3 ms does not
 * matter (W4a at P = 1: with two runners where one is enough, all threads contend for the lock),
 * but one run of 1 ms does (a load with 1 % bodies of 0.9 ms among short ones took twice as long
 * otherwise).
 */
#define UVS__BRIEF_MANY 64
/* Ready tasks for each runner of a brief crew. A runner for each task would wake threads for
 * nothing (W6: 1.6 times the CPU time). */
#define UVS__PER_RUNNER 32
/* The average lengths of a body and of the rest of a run start at 0. This much is
 * added to the limit for outliers in `average`, so that they can rise from 0. */
#define UVS__AVERAGE_NS 128
/* The body alone is timed in one run of this many: reading the clock once more takes as long as a
 * short body. An odd number, since short and long bodies may alternate. */
#define UVS__TIMED_EVERY 31
/* If no run starts for this long although a crew has fewer runners than tasks, its runs no longer
 * count as brief. */
#define UVS__HELD_BACK_NS UVS__MS

/* After a body that took this long, and used the CPU for a quarter of it, the runner gives way to
 * other threads before the next body: uv_fs_stat beside CPU-bound bodies, p50 1091 -> 55 us. */
#define UVS__LONG_NS (UVS__MS / 10)
/* If giving way took longer than this, other programs want the core, not libuv: do not give way
 * again for a while. */
#define UVS__YIELD_MOST_NS (3 * UVS__MS)
#define UVS__NO_YIELD_NS (200 * UVS__MS)

/* A task that is always behind counts as due no earlier than this long before the end of its last
 * run. So it delays others by a bounded time. */
#define UVS__CATCH_UP_NS (1000 * UVS__MS)

/* The loop counts as held up if a pass begins this much after its time, or takes this much longer
 * than its budget. Shorter delays are normal, because the timer counts whole ms and cores are busy:
 * with other programs on both cores, half of the runs were 0.7 to 5 ms late (W5 on the loop). */
#define UVS__HELD_UP_NS (5 * UVS__MS)

/* The loop makes this many of its own tasks ready and then runs them, while they are still in the
 * cache (W3 on the loop: 0.8 of the time). */
#define UVS__LOOP_READY_MANY 1024

#endif
