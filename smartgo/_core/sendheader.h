/* The header of a send request: 10 with long names, 310 and 320 with one-letter names; JSON or binary. */
#ifndef SMARTGO_SENDHEADER_H
#define SMARTGO_SENDHEADER_H

#include "header.h"

enum { SEND = 10, SEND_V2 = 310, SEND_BATCH = 320 };

typedef struct {
    int encoding;
    int64_t code, opaque, flag;
    int64_t queue_id, sys_flag, message_flag, reconsumed, born_ms;
    span topic, properties, body;
    unsigned seen; /* which fields there were, as bits */
    int names_key; /* whether there is a field AccessKey */
} send_request;

/*
 * Read a frame, without its length word.
 *
 * scratch has HEADER_LIMIT bytes; texts of the request may lie in it or in the frame. fields gets all
 * ext fields; NULL: they are not wanted.
 * Return 1, or 0 where the frame is anything but a send that is understood to its last byte.
 */
int read_send(send_request *request, const u8 *frame, int64_t size, u8 *scratch, ext_fields *fields);

/* Whether a frame may be a send, as far as its first bytes say. */
int may_be_send(const u8 *frame, int64_t size);

#endif
