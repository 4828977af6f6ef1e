/* Answers, read by a scan that trusts nothing it was sent. */
#ifndef SMARTGO_LOAD_ANSWER_H
#define SMARTGO_LOAD_ANSWER_H

#include <stddef.h>
#include <stdint.h>

/* What an answer's header says; numbers that were not there are -1. */
struct answer {
    int code;
    int has_opaque;
    int is_response;
    uint32_t opaque;
    long long queue_offset;
    long long next_offset;
    long long min_offset;
    long long max_offset;
    const char *remark; /* undecoded, inside the frame */
    size_t remark_size;
    const unsigned char *body;
    size_t body_size;
};

/* Read the frame after its length word. Returns NULL, or what is wrong with it. */
const char *answer_parse(const unsigned char *frame, size_t size, struct answer *answer);

/* Read the opaque of a bodiless JSON success, quickly. Returns 0, or -1 when it takes a full answer_parse(). */
int answer_glance(const unsigned char *frame, size_t size, uint32_t *opaque);

/*
 * Walk the records of a pull's body: sizes must add up, magic be V1, queue and offsets be those asked for.
 * Returns how many there are, or -1.
 */
int records_check(const unsigned char *body, size_t size, int queue, long long offset);

#endif
