/* SPDX-License-Identifier: MIT
 *
 * All scenes, by room. Each array ends with an entry without a name.
 */
#ifndef WEAVE_SCENES_H
#define WEAVE_SCENES_H

#include "weave.h"

/* Runs once, before all other scenes: data that lives as long as the process (the directory of
 * lanes) then has room for every scene, so a schedule is the same wherever it comes in a run. */
extern const struct weave_scene scene_to_begin_with;

extern const struct weave_scene scenes_wake[];
extern const struct weave_scene scenes_submit[];
extern const struct weave_scene scenes_control[];
extern const struct weave_scene scenes_pause[];
extern const struct weave_scene scenes_limit[];
extern const struct weave_scene scenes_interrupt[];
extern const struct weave_scene scenes_recur[];
extern const struct weave_scene scenes_calendar[];
extern const struct weave_scene scenes_runner[];
extern const struct weave_scene scenes_lane[];
extern const struct weave_scene scenes_queue[];
extern const struct weave_scene scenes_wait[];
extern const struct weave_scene scenes_close[];

#endif
