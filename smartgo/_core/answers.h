/* The answer to a send that succeeded. */
#ifndef SMARTGO_ANSWERS_H
#define SMARTGO_ANSWERS_H

#include "bytes.h"
#include "sendheader.h"

/*
 * What stands between the values of an answer.
 *
 * JSON: before the ids, before the queue id, before the queue offset, before the opaque, and the end.
 * Binary: before the opaque; from it to the length of the fields; the names of the ids, of the queue id and of the
 * queue offset with their lengths; and the fields that follow.
 */
typedef struct {
    span json[5];
    span binary[6];
    span id_prefix; /* the store host, in hexadecimal digits */
} answer_pieces;

/* Bytes that an answer has at the most. */
int64_t answer_room(const answer_pieces *pieces, int64_t count);

/*
 * Write a whole frame; return where it ends.
 *
 * offsets: physical offset of each of count messages.
 */
u8 *put_answer(u8 *o, const answer_pieces *pieces, const send_request *request, const int64_t *offsets, int64_t count,
               int64_t queue_offset);

#endif
