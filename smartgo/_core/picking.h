/* The records of a queue that a reader gets: its units, what a filter leaves of them, and where they lie in the log. */
#ifndef SMARTGO_PICKING_H
#define SMARTGO_PICKING_H

#include "bytes.h"
#include "layout.h"

/* A log file: base is the physical offset of its first byte, end that behind the last one written. */
typedef struct {
    const u8 *at;
    int64_t base, end;
} log_window;

/* What is asked for. codes are tag hashes in ascending order; NULL: all. minimum is the first physical offset of the log. */
typedef struct {
    span topic_part;
    int64_t queue_id, offset, minimum, checked_until, max_count, max_size;
    const int64_t *codes;
    int64_t code_count;
} pick_request;

/* Records that lie side by side, by physical offsets. */
typedef struct {
    int64_t begin, end;
} log_run;

/* last is the physical offset of the last record looked at; removing: the records of some units are gone. */
typedef struct {
    int64_t runs, count, size, next_offset, last;
    int removing;
} picked;

/*
 * Pick among count units, of which there is at least one; runs has room for as many.
 *
 * Return 1, or 0 where a record that would be picked lies elsewhere or is not what its unit says.
 */
int pick_records(const pick_request *request, const log_window *log, const u8 *units, int64_t count, log_run *runs,
                 picked *found);

/* Tell whether the records of count units, at least one, lie side by side: from first on, the last one from last on. */
int adjacent_records(const u8 *units, int64_t count, int64_t *first, int64_t *last, int64_t *size);

#endif
