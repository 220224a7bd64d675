/* SPDX-License-Identifier: MIT
 *
 * Units of time. Durations and instants are signed nanoseconds.
 */
#ifndef UVSCHED_TIME_H
#define UVSCHED_TIME_H

#include <stdint.h>

#define UVS_US(n) ((n)*INT64_C(1000))
#define UVS_MS(n) ((n)*INT64_C(1000000))
#define UVS_SEC(n) ((n)*INT64_C(1000000000))
#define UVS_MIN(n) (UVS_SEC(60) * (n))
#define UVS_HOUR(n) (UVS_SEC(3600) * (n))
#define UVS_DAY(n) (UVS_SEC(86400) * (n))
#define UVS_NEVER INT64_MAX

#endif
