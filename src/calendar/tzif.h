/* SPDX-License-Identifier: MIT
 *
 * tzif: reads one TZif image (RFC 9636, versions 1 to 4) into a table.
 *
 * The image may be hostile: every count is compared with the bytes that are left before it is used.
 * An image is refused if it breaks the format in a part that offsets or instants depend on.
 * Abbreviations are not kept. An image with leap seconds ("right/" zones) is refused, because its
 * seconds differ from those of the system's clock.
 */
#ifndef UVS__TZIF_H
#define UVS__TZIF_H

#include "calendar/zone_table.h"

/* 0, with a reference to *ret for the caller; UV_EINVAL, with *ret_why set; UV_ENOMEM. */
int uvs__tzif_parse(const void *bytes, size_t n, struct uvs__zone_table **ret,
                    const char **ret_why);

#endif
