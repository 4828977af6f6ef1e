/*
 * Requests from templates: only what differs from one message to the next is written each time.
 *
 * A frame is: total length (4 bytes, not counting itself), header word (high byte 0 = JSON, 1 = binary; low 24 bits
 * header length), header, body. All integers are big-endian.
 */
#ifndef SMARTGO_LOAD_REQUEST_H
#define SMARTGO_LOAD_REQUEST_H

#include <stddef.h>
#include <stdint.h>

enum {
    CODE_SEND = 310,
    CODE_SEND_BATCH = 320,
    CODE_PULL = 11,
    CODE_HEART_BEAT = 34,
    FRAME_LIMIT = 16 * 1024 * 1024,
    HEAD_LIMIT = 2048,
};

/* A request for one queue, all but what differs from one message to the next. */
struct template {
    unsigned char head[HEAD_LIMIT]; /* from the total length on */
    size_t head_size;
    char middle[96]; /* JSON pulls: between the offset and the opaque */
    size_t middle_size;
    char tail[128]; /* JSON: after the opaque */
    size_t tail_size;
    size_t born_at; /* where the 13 digits of the born time lie in head; 0 = nowhere */
    size_t key_at;  /* where the 32 hex digits of UNIQ_KEY lie in head; 0 = nowhere */
    int binary;
    int has_offset; /* a pull: the queue offset is the last ext field */
};

/* The identity every UNIQ_KEY begins with, and the clock its last 12 digits come from. */
struct stamp {
    char born[14]; /* ms since the epoch, 13 digits */
    char time[9];  /* ms since the start of the month, 8 hex digits */
    uint32_t counter;
};

void stamp_set(struct stamp *stamp, int64_t wall_ms);

/* Build the template of a send (code 310) or batch (320) to one queue. Returns 0, or -1 when it does not fit. */
int template_send(struct template *made, int code, int binary, const char *topic, int queue, const char *group,
                  const char *tag, const char *broker);
/* Build the template of a pull of `count` messages from one queue. */
int template_pull(struct template *made, int binary, const char *topic, int queue, const char *group, int count);
/* Build the template of a heart-beat; its body is the caller's. */
int template_heart_beat(struct template *made, int binary);

/* Write one request; `out` must have room for request_bound() bytes. Returns the bytes written. */
size_t request_write(const struct template *from, unsigned char *out, uint32_t opaque, long long offset,
                     struct stamp *stamp, const unsigned char *body, size_t body_size);
size_t request_bound(const struct template *from, size_t body_size);

/* One item of a batch: its size, and how to write it with its own UNIQ_KEY; without properties where tag is NULL. */
size_t item_size(const char *tag, size_t body_size);
void item_write(unsigned char *out, const char *tag, const unsigned char *body, size_t body_size);
/* Give every item of a batch body a fresh UNIQ_KEY. */
void items_restamp(unsigned char *items, size_t one, int count, size_t body_size, struct stamp *stamp);

#endif
