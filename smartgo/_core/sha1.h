/* SHA-1 (FIPS 180-4), by the processor's own instructions where it has them. */
#ifndef SMARTGO_SHA1_H
#define SMARTGO_SHA1_H

#include "bytes.h"

enum { SHA1_BLOCK = 64, SHA1_DIGEST = 20 };

/* What has been read so far: the state behind all whole blocks, and the bytes behind these. */
typedef struct {
    uint32_t h[5];
    int64_t size; /* bytes in all */
    u8 rest[SHA1_BLOCK];
} sha1;

/* Find out what the processor has; before anything else, once. */
void sha1_begin(void);

/* A hash of nothing yet. */
void sha1_init(sha1 *s);

void sha1_add(sha1 *s, span data);

/* Write the hash; nothing can be added any more. */
void sha1_end(sha1 *s, u8 *digest);

/* Take whole blocks into a state. */
void sha1_blocks(uint32_t *h, const u8 *p, int64_t count);

/* The same in plain C, for tests on machines that have the instructions. */
void sha1_blocks_plain(uint32_t *h, const u8 *p, int64_t count);

#endif
