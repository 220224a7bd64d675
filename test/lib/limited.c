/* SPDX-License-Identifier: MIT */
#include "limited.h"

char limit_value[4];

int late_status(int how) {
  return how == LATE_DEFAULT ? UV_ETIMEDOUT : how == LATE_VALUE ? 0 : UV_EPROTO;
}

void *late_result(int how) {
  return how == LATE_VALUE ? &limit_value[1] : NULL;
}

void limit_to(uvs_task_t *t, int how) {
  t->keep_outcome = 1;
  t->result = PRESET;
  t->limit.total_ns = LIMIT_NS;
  t->limit.substitute = how != LATE_DEFAULT;
  t->limit.status = how == LATE_DEFAULT ? 0 : late_status(how);
  t->limit.result = late_result(how);
}

uvs_task_t limited(struct fixture *f, int tag, int how) {
  uvs_task_t t = fixture_once(f, tag, 0);

  limit_to(&t, how);
  return t;
}

int peek(uvs_t *s, uvs_id_t id, unsigned flags, uvs_outcome_t *o) {
  uvs_outcome_init(o);
  return uvs_wait(s, id, 0, flags, o);
}
