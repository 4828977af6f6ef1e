/* The answers to a send that succeeded, and to a pull that found messages. */
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

enum { FOUND_NUMBERS = 4 };

/*
 * What stands between the values of an answer to a pull that found messages.
 *
 * JSON: before each of the numbers, before the opaque, and the end. Binary: before the opaque; from it to the length of
 * the fields; the name of each number with its length.
 */
typedef struct {
    span json[FOUND_NUMBERS + 2];
    span binary[FOUND_NUMBERS + 2];
} found_pieces;

/* Bytes that such an answer has at the most before its body. */
int64_t found_room(const found_pieces *pieces);

/*
 * Write a frame up to its body; return where that begins.
 *
 * numbers: the broker to ask next, the offset to go on from, the first of the queue, and that after its last.
 */
u8 *put_found(u8 *o, const found_pieces *pieces, int encoding, int64_t opaque, const int64_t numbers[FOUND_NUMBERS],
              int64_t body_size);

#endif
