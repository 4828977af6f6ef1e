/*
 * CRC-32 (polynomial 0x04C11DB7, bits reflected).
 *
 * A message is a polynomial over GF(2), and its CRC the remainder by P. Sixteen bytes at a time can be "folded": a block
 * that stands D bits before another is multiplied by x^D mod P and added to it, which leaves the remainder as it is.
 * So blocks are folded into four, these into one, and the last sixteen bytes go through the tables.
 *
 * An AArch64 processor may have an instruction for it, which takes eight bytes at a time.
 */
#include "crc32.h"

#define POLYNOMIAL 0xEDB88320u

static uint32_t table[8][256];

static uint32_t times_x(uint32_t r)
{
    return r & 1 ? r >> 1 ^ POLYNOMIAL : r >> 1;
}

/* Advance a register, which starts and ends inverted, over bytes. */
static uint32_t advance(uint32_t crc, const u8 *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^ table[4][crc >> 24]
            ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    while (n--)
        crc = table[0][(crc ^ *p++) & 255] ^ crc >> 8;
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

static int is_accelerated;
static uint64_t over_four[2], over_one[2]; /* what a block is multiplied by to be folded four blocks, or one, on */

/* x^n mod P, reflected, in the 33 bits that a reflected product needs. */
static uint64_t power(int n)
{
    uint32_t r = 0x80000000u;
    while (n--)
        r = times_x(r);
    return (uint64_t)r << 1;
}

static void begin_accelerated(void)
{
    over_four[0] = power(4 * 128 + 32);
    over_four[1] = power(4 * 128 - 32);
    over_one[0] = power(128 + 32);
    over_one[1] = power(128 - 32);
    __builtin_cpu_init();
    is_accelerated = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse2");
}

#define FOLD(block, by) _mm_xor_si128(_mm_clmulepi64_si128(block, by, 0x00), _mm_clmulepi64_si128(block, by, 0x11))
#define LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))

/* n is 64 or more, and a multiple of 16. */
__attribute__((target("pclmul,sse2"))) static uint32_t advance_accelerated(uint32_t crc, const u8 *p, size_t n)
{
    __m128i four = LOAD(over_four), one = LOAD(over_one);
    __m128i a = _mm_xor_si128(LOAD(p), _mm_cvtsi32_si128((int)crc));
    __m128i b = LOAD(p + 16), c = LOAD(p + 32), d = LOAD(p + 48);
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        a = _mm_xor_si128(FOLD(a, four), LOAD(p));
        b = _mm_xor_si128(FOLD(b, four), LOAD(p + 16));
        c = _mm_xor_si128(FOLD(c, four), LOAD(p + 32));
        d = _mm_xor_si128(FOLD(d, four), LOAD(p + 48));
    }
    a = _mm_xor_si128(FOLD(a, one), b);
    a = _mm_xor_si128(FOLD(a, one), c);
    a = _mm_xor_si128(FOLD(a, one), d);
    for (; n; p += 16, n -= 16)
        a = _mm_xor_si128(FOLD(a, one), LOAD(p));
    u8 last[16];
    _mm_storeu_si128((__m128i *)(void *)last, a);
    return advance(0, last, sizeof last);
}
#elif defined(__aarch64__) && defined(__GNUC__) && defined(__linux__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <string.h>
#include <sys/auxv.h>

#define HAS_CRC32 (1UL << 7) /* HWCAP_CRC32 */

static int is_accelerated;

static void begin_accelerated(void)
{
    is_accelerated = (getauxval(AT_HWCAP) & HAS_CRC32) != 0;
}

/* n is a multiple of 8. */
static uint32_t advance_accelerated(uint32_t crc, const u8 *p, size_t n)
{
    for (; n; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        __asm__(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    }
    return crc;
}
#else
#define begin_accelerated()
#define is_accelerated 0
#define advance_accelerated advance
#endif

void crc32_begin(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t r = n;
        for (int bit = 0; bit < 8; bit++)
            r = times_x(r);
        table[0][n] = r;
    }
    for (int n = 0; n < 256; n++)
        for (int t = 1; t < 8; t++)
            table[t][n] = table[0][table[t - 1][n] & 255] ^ table[t - 1][n] >> 8;
    begin_accelerated();
}

uint32_t crc32_by_tables(const u8 *p, size_t n)
{
    return ~advance(0xFFFFFFFFu, p, n);
}

uint32_t crc32_of(const u8 *p, size_t n)
{
    uint32_t crc = 0xFFFFFFFFu;
    if (is_accelerated && n >= 64) {
        size_t most = n & ~(size_t)15;
        crc = advance_accelerated(crc, p, most);
        p += most;
        n -= most;
    }
    return ~advance(crc, p, n);
}
