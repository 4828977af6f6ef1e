/* Big-endian integers in memory. */
#ifndef SMARTGO_LOAD_BYTES_H
#define SMARTGO_LOAD_BYTES_H

#include <stdint.h>

static inline void store_u16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static inline void store_u32(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
}

static inline uint32_t load_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int64_t load_i64(const unsigned char *at)
{
    return (int64_t)((uint64_t)load_u32(at) << 32 | load_u32(at + 4));
}

#endif
