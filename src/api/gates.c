/* SPDX-License-Identifier: MIT
 *
 * gates: the lane that a submission names by its number.
 */
#include "api/submit.h"

#include "util/directory.h"

void uvs__gate_let_go(struct uvs__gate *g) {
  if (uvs__directory_drop(g->number))
    g->free_lane(g);
}

struct uvs__gate *uvs__gate_hold(uvs_t *s, uvs_lane_t lane, int *ret_rc) {
  bool was;
  struct uvs__gate *g = uvs__directory_hold(lane, &was);

  *ret_rc = was ? UV_ECANCELED : UV_ENOENT;
  if (g == NULL)
    return NULL;
  *ret_rc = UV_EINVAL;
  if (g->scheduler ==
      s) { /* else its lock is not ours to take: it may be of a forked child's parent */
    uvs__lock(s);
    *ret_rc = g->shut ? UV_ECANCELED : 0;
    uvs__unlock(s);
  }
  if (*ret_rc == 0)
    return g;
  uvs__gate_let_go(g);
  return NULL;
}

int uvs__gate_check(uvs_t *s, uvs_lane_t lane) {
  int rc;
  struct uvs__gate *g = uvs__gate_hold(s, lane, &rc);

  if (g != NULL)
    uvs__gate_let_go(g);
  return rc;
}
