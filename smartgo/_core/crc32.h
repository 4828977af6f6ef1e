/* CRC-32 as zlib computes it, by carry-less multiplication where the processor has it. */
#ifndef SMARTGO_CRC32_H
#define SMARTGO_CRC32_H

#include "bytes.h"

/* Fill the tables; before anything else, once. */
void crc32_begin(void);

uint32_t crc32_of(const u8 *p, size_t n);

/* The same by tables alone, for tests on machines that have the instruction. */
uint32_t crc32_by_tables(const u8 *p, size_t n);

#endif
