/* Spans of bytes, and big-endian numbers in them, on machines of either byte order. */
#ifndef SMARTGO_BYTES_H
#define SMARTGO_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef unsigned char u8;

/* Bytes that belong to somebody else. p may be NULL only where n is 0. */
typedef struct {
    const u8 *p;
    int64_t n;
} span;

static inline uint32_t get16(const u8 *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t get32(const u8 *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline int64_t get64(const u8 *p)
{
    return (int64_t)((uint64_t)get32(p) << 32 | get32(p + 4));
}

static inline u8 *put16(u8 *o, uint32_t v)
{
    o[0] = (u8)(v >> 8);
    o[1] = (u8)v;
    return o + 2;
}

static inline u8 *put32(u8 *o, uint32_t v)
{
    o[0] = (u8)(v >> 24);
    o[1] = (u8)(v >> 16);
    o[2] = (u8)(v >> 8);
    o[3] = (u8)v;
    return o + 4;
}

static inline u8 *put64(u8 *o, uint64_t v)
{
    return put32(put32(o, (uint32_t)(v >> 32)), (uint32_t)v);
}

static inline u8 *put_span(u8 *o, span s)
{
    if (s.n)
        memcpy(o, s.p, (size_t)s.n);
    return o + s.n;
}

static inline int same(span a, const void *p, int64_t n)
{
    return a.n == n && memcmp(a.p, p, (size_t)n) == 0;
}

/* Whether a span is the text of a string literal. */
#define IS(s, literal) same((s), (literal), (int64_t)sizeof(literal) - 1)

/* The first byte c from p on, end where there is none. */
static inline const u8 *seek(const u8 *p, const u8 *end, int c)
{
    const u8 *found = p < end ? memchr(p, c, (size_t)(end - p)) : NULL;
    return found ? found : end;
}

static inline int is_ascii(span s)
{
    u8 all = 0;
    for (int64_t i = 0; i < s.n; i++)
        all |= s.p[i];
    return all < 0x80;
}

/* Whether a literal lies anywhere in a span. */
static inline int holds(span s, const char *word, int64_t n)
{
    const u8 *p = s.p, *end = s.p + s.n;
    while (end - p >= n) {
        p = seek(p, end - n + 1, word[0]);
        if (p == end - n + 1)
            return 0;
        if (memcmp(p, word, (size_t)n) == 0)
            return 1;
        p++;
    }
    return 0;
}

/* Java's String.hashCode of ASCII text behind text with the hash h; 0 for none. */
static inline uint32_t java_hash_on(uint32_t h, span s)
{
    for (int64_t i = 0; i < s.n; i++)
        h = h * 31 + s.p[i];
    return h;
}

static inline uint32_t java_hash(span s)
{
    return java_hash_on(0, s);
}

#endif
