#include "answers.h"

enum { OFFSET_DIGITS = 16, NUMBER_ROOM = 20 };

static u8 *put_decimal(u8 *o, int64_t v)
{
    u8 digits[NUMBER_ROOM];
    int n = 0;
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    if (v < 0)
        *o++ = '-';
    do {
        digits[n++] = (u8)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    while (n)
        *o++ = digits[--n];
    return o;
}

static u8 *put_ids(u8 *o, span prefix, const int64_t *offsets, int64_t count)
{
    static const char digits[] = "0123456789ABCDEF";
    for (int64_t i = 0; i < count; i++) {
        if (i)
            *o++ = ',';
        o = put_span(o, prefix);
        for (int shift = 4 * OFFSET_DIGITS - 4; shift >= 0; shift -= 4)
            *o++ = (u8)digits[(uint64_t)offsets[i] >> shift & 15];
    }
    return o;
}

static int64_t ids_size(span prefix, int64_t count)
{
    return count * (prefix.n + OFFSET_DIGITS + 1) - 1;
}

int64_t answer_room(const answer_pieces *pieces, int64_t count)
{
    int64_t size = ids_size(pieces->id_prefix, count) + 8 + 4 * (NUMBER_ROOM + 4);
    for (int i = 0; i < 5; i++)
        size += pieces->json[i].n;
    for (int i = 0; i < 6; i++)
        size += pieces->binary[i].n;
    return size;
}

/* A number as an ext field: its name, its length, its digits. */
static u8 *put_number_field(u8 *o, span name, int64_t v)
{
    o = put_span(o, name);
    u8 *end = put_decimal(o + 4, v);
    put32(o, (uint32_t)(end - o - 4));
    return end;
}

u8 *put_answer(u8 *o, const answer_pieces *pieces, const send_request *request, const int64_t *offsets, int64_t count,
               int64_t queue_offset)
{
    u8 *begin = o;
    o += 8;
    if (request->encoding == JSON) {
        const span *piece = pieces->json;
        o = put_ids(put_span(o, piece[0]), pieces->id_prefix, offsets, count);
        o = put_decimal(put_span(o, piece[1]), request->queue_id);
        o = put_decimal(put_span(o, piece[2]), queue_offset);
        o = put_decimal(put_span(o, piece[3]), request->opaque);
        o = put_span(o, piece[4]);
    } else {
        const span *piece = pieces->binary;
        o = put32(put_span(o, piece[0]), (uint32_t)request->opaque);
        u8 *fields = o = put_span(o, piece[1]);
        o = put32(put_span(o + 4, piece[2]), (uint32_t)ids_size(pieces->id_prefix, count));
        o = put_ids(o, pieces->id_prefix, offsets, count);
        o = put_number_field(o, piece[3], request->queue_id);
        o = put_number_field(o, piece[4], queue_offset);
        o = put_span(o, piece[5]);
        put32(fields, (uint32_t)(o - fields - 4));
    }
    put32(begin, (uint32_t)(o - begin - 4));
    put32(begin + 4, (uint32_t)request->encoding << 24 | (uint32_t)(o - begin - 8));
    return o;
}

int64_t found_room(const found_pieces *pieces)
{
    int64_t size = 8 + 5 * (NUMBER_ROOM + 4);
    for (int i = 0; i < 6; i++)
        size += pieces->json[i].n > pieces->binary[i].n ? pieces->json[i].n : pieces->binary[i].n;
    return size;
}

u8 *put_found(u8 *o, const found_pieces *pieces, int encoding, int64_t opaque, const int64_t numbers[FOUND_NUMBERS],
              int64_t body_size)
{
    u8 *begin = o;
    o += 8;
    if (encoding == JSON) {
        for (int i = 0; i < FOUND_NUMBERS; i++)
            o = put_decimal(put_span(o, pieces->json[i]), numbers[i]);
        o = put_decimal(put_span(o, pieces->json[FOUND_NUMBERS]), opaque);
        o = put_span(o, pieces->json[FOUND_NUMBERS + 1]);
    } else {
        const span *piece = pieces->binary;
        o = put32(put_span(o, piece[0]), (uint32_t)opaque);
        u8 *fields = o = put_span(o, piece[1]);
        o += 4;
        for (int i = 0; i < FOUND_NUMBERS; i++)
            o = put_number_field(o, piece[2 + i], numbers[i]);
        put32(fields, (uint32_t)(o - fields - 4));
    }
    put32(begin, (uint32_t)(o - begin - 4 + body_size));
    put32(begin + 4, (uint32_t)encoding << 24 | (uint32_t)(o - begin - 8));
    return o;
}
