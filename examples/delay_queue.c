/* SPDX-License-Identifier: MIT
 *
 * The classic exercise: a producer puts orders into a delay queue, each with a random delay. Three
 * consumers take them out when they are due, and print how late each one was. None is early. The
 * consumer of the last order closes the queue: then the other consumers return, and the loop ends.
 *
 *   delay_queue [--fast]     --fast: all delays divided by 10 */
#include <stdatomic.h>
#include <stdbool.h>
#include <uvsched/queue.h>

#include "expect.h"

enum { ORDERS = 24, CONSUMERS = 3 };

struct order {
  int number;
  int64_t delay_ns;
};

static struct {
  uvs_queue_t *queue;
  int64_t start_ns, longest_ns;
  struct order orders[ORDERS];
  atomic_int taken;
} shop;

static void produce(void *arg) {
  uint32_t random = 1;
  (void)arg;
  for (int i = 0; i < ORDERS; i++) {
    struct order *o = &shop.orders[i];
    random = random * 1664525 + 1013904223;
    o->number = i;
    o->delay_ns = (int64_t)(random >> 16) * shop.longest_ns / 65536;
    EXPECT(uvs_queue_put(shop.queue, o, o->delay_ns, NULL) == 0);
  }
  uvs_queue_release(shop.queue);
}

static void consume(void *arg) {
  int consumer = *(int *)arg;
  uvs_t *s = uvs_queue_scheduler(shop.queue);
  uvs_entry_t e;
  int rc;

  while ((rc = uvs_queue_take(shop.queue, NULL, &e)) == 0) {
    const struct order *o = e.value;
    int64_t late_ns = uvs_now(s) - e.due_ns;
    EXPECT(late_ns >= 0);
    printf("+%.3f s  consumer %d  order %2d, %3d ms after it was put in  %.3f ms late\n",
           (double)(uvs_now(s) - shop.start_ns) / 1e9, consumer, o->number,
           (int)(o->delay_ns / 1000000), (double)late_ns / 1e6);
    if (atomic_fetch_add(&shop.taken, 1) + 1 == ORDERS)
      EXPECT(uvs_queue_close(shop.queue) == 0);
  }
  EXPECT(rc == UV_ECANCELED ||
         rc == UV_ESHUTDOWN); /* the queue was closed during the call, or before it */
  uvs_queue_release(shop.queue);
}

int main(int argc, char **argv) {
  bool fast = argc > 1 && strcmp(argv[1], "--fast") == 0;
  uv_thread_t producer, consumers[CONSUMERS];
  int names[CONSUMERS];
  uv_loop_t loop;
  uvs_t *s;

  EXPECT(uv_loop_init(&loop) == 0 && uvs_open(&loop, NULL, &s) == 0);
  EXPECT(uvs_queue_open(s, NULL, &shop.queue) == 0);
  shop.longest_ns = fast ? UVS_MS(90) : UVS_MS(900);
  shop.start_ns = uvs_now(s);

  /* Each thread has a reference: one of them may still call when another has closed the queue. */
  for (int i = 0; i < CONSUMERS; i++) {
    names[i] = i;
    uvs_queue_retain(shop.queue);
    EXPECT(uv_thread_create(&consumers[i], consume, &names[i]) == 0);
  }
  uvs_queue_retain(shop.queue);
  EXPECT(uv_thread_create(&producer, produce, NULL) == 0);

  uv_run(&loop, UV_RUN_DEFAULT); /* until the queue is closed */
  for (int i = 0; i < CONSUMERS; i++)
    uv_thread_join(&consumers[i]);
  uv_thread_join(&producer);
  EXPECT(atomic_load(&shop.taken) == ORDERS);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(&loop) == 0);
  printf("%d orders, none lost, none twice, none early\n", ORDERS);
  return 0;
}
