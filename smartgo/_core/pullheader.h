/* The header of a pull: 11 and 361, JSON or binary. */
#ifndef SMARTGO_PULLHEADER_H
#define SMARTGO_PULLHEADER_H

#include "header.h"

enum { PULL = 11, LITE_PULL = 361 };
enum { COMMIT = 1, OWN_SUBSCRIPTION = 4 }; /* of the sys flag */

typedef struct {
    int encoding;
    int64_t code, opaque;
    int64_t queue_id, queue_offset, max_count, sys_flag, commit_offset, suspend_ms, version;
    int64_t max_size; /* bytes; -1: not said */
    span group, topic, subscription, expression_type; /* the last two empty where there are none */
    span body;
    unsigned seen; /* which fields there were, as bits */
} pull_request;

/*
 * Read a frame, without its length word; scratch and fields as for a send.
 *
 * Return 1, or 0 where the frame is anything but a pull that wants an answer and is understood to its last byte.
 */
int read_pull(pull_request *request, const u8 *frame, int64_t size, u8 *scratch, ext_fields *fields);

#endif
