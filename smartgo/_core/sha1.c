#include "sha1.h"

static uint32_t turned(uint32_t v, int by)
{
    return v << by | v >> (32 - by);
}

void sha1_blocks_plain(uint32_t *h, const u8 *p, int64_t count)
{
    uint32_t w[80];
    for (; count; count--, p += SHA1_BLOCK) {
        uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], next;
        for (int t = 0; t < 16; t++)
            w[t] = get32(p + 4 * t);
        for (int t = 16; t < 80; t++)
            w[t] = turned(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
#define ROUNDS(from, to, f, k)                                   \
    for (int t = from; t < to; t++) {                            \
        next = turned(a, 5) + (f) + e + (k) + w[t];              \
        e = d, d = c, c = turned(b, 30), b = a, a = next;        \
    }
        ROUNDS(0, 20, (b & c) | (~b & d), 0x5A827999u)
        ROUNDS(20, 40, b ^ c ^ d, 0x6ED9EBA1u)
        ROUNDS(40, 60, (b & c) | (b & d) | (c & d), 0x8F1BBCDCu)
        ROUNDS(60, 80, b ^ c ^ d, 0xCA62C1D6u)
#undef ROUNDS
        h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

static int is_accelerated;

void sha1_begin(void)
{
    enum { SSSE3 = 1 << 9, SSE41 = 1 << 19, SHA = 1 << 29 };
    unsigned a, b, c, d, none;
    is_accelerated = __get_cpuid(1, &a, &none, &c, &d) && (c & (SSSE3 | SSE41)) == (SSSE3 | SSE41)
        && __get_cpuid_count(7, 0, &a, &b, &none, &d) && (b & SHA);
}

/*
 * Four rounds, the i-th of twenty times: w holds the last sixteen words of the schedule, four in each. The instruction
 * has the five variables as abcd, and as e before its turn by 30, which sha1nexte does: it is what a was four rounds ago.
 */
#define FOUR(i)                                                                                                      \
    if (i >= 4)                                                                                                      \
        w[i & 3] = _mm_sha1msg2_epu32(                                                                               \
            _mm_xor_si128(_mm_sha1msg1_epu32(w[i & 3], w[(i + 1) & 3]), w[(i + 2) & 3]), w[(i + 3) & 3]);            \
    e = i ? _mm_sha1nexte_epu32(e, w[i & 3]) : _mm_add_epi32(e, w[0]);                                               \
    before = abcd;                                                                                                   \
    abcd = _mm_sha1rnds4_epu32(abcd, e, i / 5);                                                                      \
    e = before;

__attribute__((target("sha,sse4.1"))) static void blocks_accelerated(uint32_t *h, const u8 *p, int64_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0001020304050607LL, 0x08090A0B0C0D0E0FLL);
    __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)h), 0x1B);
    __m128i e = _mm_set_epi32((int)h[4], 0, 0, 0), w[4], before;
    for (; count; count--, p += SHA1_BLOCK) {
        __m128i first = abcd, first_e = e;
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)), swap);
        FOUR(0) FOUR(1) FOUR(2) FOUR(3) FOUR(4) FOUR(5) FOUR(6) FOUR(7) FOUR(8) FOUR(9)
        FOUR(10) FOUR(11) FOUR(12) FOUR(13) FOUR(14) FOUR(15) FOUR(16) FOUR(17) FOUR(18) FOUR(19)
        e = _mm_sha1nexte_epu32(e, first_e);
        abcd = _mm_add_epi32(abcd, first);
    }
    _mm_storeu_si128((__m128i *)(void *)h, _mm_shuffle_epi32(abcd, 0x1B));
    h[4] = (uint32_t)_mm_extract_epi32(e, 3);
}

void sha1_blocks(uint32_t *h, const u8 *p, int64_t count)
{
    if (is_accelerated)
        blocks_accelerated(h, p, count);
    else
        sha1_blocks_plain(h, p, count);
}
#else
void sha1_begin(void)
{
}

void sha1_blocks(uint32_t *h, const u8 *p, int64_t count)
{
    sha1_blocks_plain(h, p, count);
}
#endif

void sha1_init(sha1 *s)
{
    static const uint32_t first[] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
    memcpy(s->h, first, sizeof first);
    s->size = 0;
}

void sha1_add(sha1 *s, span data)
{
    int64_t held = s->size % SHA1_BLOCK, n = data.n;
    const u8 *p = data.p;
    s->size += n;
    if (held + n < SHA1_BLOCK) {
        if (n)
            memcpy(s->rest + held, p, (size_t)n);
        return;
    }
    if (held) {
        memcpy(s->rest + held, p, (size_t)(SHA1_BLOCK - held));
        sha1_blocks(s->h, s->rest, 1);
        p += SHA1_BLOCK - held;
        n -= SHA1_BLOCK - held;
    }
    sha1_blocks(s->h, p, n / SHA1_BLOCK);
    p += n - n % SHA1_BLOCK;
    if (n % SHA1_BLOCK)
        memcpy(s->rest, p, (size_t)(n % SHA1_BLOCK));
}

void sha1_end(sha1 *s, u8 *digest)
{
    u8 last[2 * SHA1_BLOCK] = {0};
    int64_t held = s->size % SHA1_BLOCK, count = held + 9 > SHA1_BLOCK ? 2 : 1;
    memcpy(last, s->rest, (size_t)held);
    last[held] = 0x80;
    put64(last + count * SHA1_BLOCK - 8, (uint64_t)s->size * 8);
    sha1_blocks(s->h, last, count);
    for (int i = 0; i < 5; i++)
        put32(digest + 4 * i, s->h[i]);
}
