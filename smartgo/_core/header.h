/* The header of a request, JSON or binary: its members, and its ext fields one by one to whom they are for. */
#ifndef SMARTGO_HEADER_H
#define SMARTGO_HEADER_H

#include "bytes.h"

enum { JSON = 0, BINARY = 1 };
enum { ONE_WAY = 2 };
enum { HEADER_LIMIT = 256 * 1024 };
enum { FIELDS_LIMIT = 64 };
enum { CODE_LATER = -1, CODE_NONE = -2 };

#define INT32_LOW (-2147483648LL)
#define INT32_HIGH 2147483647LL

/* What a request has beside its ext fields. */
typedef struct {
    int encoding;
    int64_t code, opaque, flag;
    span body;
} command;

/* All ext fields of a request in the order of their names, which differ. */
typedef struct {
    int count;
    struct ext_field {
        span name, value;
    } at[FIELDS_LIMIT];
} ext_fields;

typedef struct ext_field ext_field;

/* Whom the ext fields are for. */
typedef struct {
    int (*has_code)(int64_t code);
    /* Take one ext field; 0: not understood. */
    int (*take_field)(void *request, int64_t code, span name, span value);
} header_reader;

/*
 * Read a frame, without its length word.
 *
 * scratch has HEADER_LIMIT bytes; texts of the fields may lie in it or in the frame.
 * fields gets all ext fields; NULL: they are not wanted.
 * Return 1, or 0 where the frame has another code, or is not understood to its last byte.
 */
int read_command(command *c, const u8 *frame, int64_t size, u8 *scratch, const header_reader *reader, void *request,
                 ext_fields *fields);

/* The code of a frame as far as its first bytes say: CODE_LATER where they do not, CODE_NONE for no header we know. */
int64_t early_code(const u8 *frame, int64_t size);

/* A number as the ext fields have it: an optional sign and ASCII digits, leading zeros too. */
int read_number(span s, int64_t low, int64_t high, int64_t *value);

#endif
