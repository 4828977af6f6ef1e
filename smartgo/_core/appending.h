/*
 * Appending: the record of a message, or those of a batch, behind the end of the log, and the units that lead to them.
 *
 * Nothing of log and queue is changed here. The records lie behind the log's end until the caller moves it.
 */
#ifndef SMARTGO_APPENDING_H
#define SMARTGO_APPENDING_H

#include "bytes.h"
#include "layout.h"
#include "properties.h"
#include "sendheader.h"

enum { HOSTS_SIZE = 2 * V4_HOST, RECORD_LIMIT = 16 * 1024 * 1024 };

/* The end of the log. */
typedef struct {
    int64_t end;             /* physical offset after the last record */
    int64_t torn;            /* bytes before it of a record that is still coming */
    int64_t stored_ms;       /* store timestamp of the last record */
    int64_t now_ms;          /* the clock when the present run began, 0 between runs */
    int64_t base, limit;     /* of the file: offset of its first byte, and where records must end; limit -1: no file */
    u8 *at;                  /* the file's first byte in memory */
    int64_t size;            /* the file's length */
} log_tail;

/* The end of a queue. */
typedef struct {
    int64_t next_offset;     /* of the next message */
    int64_t reserved;        /* up to here units have room */
    int64_t stored_ms;       /* store timestamp of the newest pending unit */
    int64_t overhead;        /* bytes of a record that are neither body nor properties, with IPv4 hosts */
    int64_t queue_id;
    span topic_part;         /* length and name of the topic */
} queue_tail;

/* What is the same for all sends to a broker. */
typedef struct {
    span store_host;
    added_property added;
    special_names special;
    int64_t body_limit, count_limit;
    u8 *properties;          /* room for those of one message: PROPERTIES_LIMIT, the added pair, and one byte */
} send_rules;

/* What appending one request makes. */
typedef struct {
    int64_t size;            /* bytes of the records */
    int64_t count;
    int64_t tag_code;        /* of a single message */
    int64_t tail_size;       /* of a batch: bytes of the properties that follow those of each message */
    int wait;
} append_plan;

/* Check that a single message can be appended as it is; its properties are then in rules->properties. */
int plan_message(const send_rules *rules, const log_tail *log, const queue_tail *queue, const send_request *request,
                 span born_host, append_plan *plan);

/* Write the record of a planned message, and its unit. */
void write_message(const send_rules *rules, const log_tail *log, const queue_tail *queue, const send_request *request,
                   span born_host, const append_plan *plan, u8 *unit);

/* Check that a batch can be appended as it is; the properties that its messages share are in rules->properties. */
int plan_batch(const send_rules *rules, const log_tail *log, const queue_tail *queue, const send_request *request,
               span born_host, append_plan *plan);

/* Write the records of a planned batch; offsets, tag codes and units have room for plan->count each. */
void write_batch(const send_rules *rules, const log_tail *log, const queue_tail *queue, const send_request *request,
                 span born_host, const append_plan *plan, int64_t *offsets, int64_t *tag_codes, u8 *units);

#endif
