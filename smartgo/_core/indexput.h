/* Keys put into an index file: entries, and the slots that lead to them. */
#ifndef SMARTGO_INDEXPUT_H
#define SMARTGO_INDEXPUT_H

#include "bytes.h"

enum { INDEX_SLOT_SIZE = 4, INDEX_ENTRY_SIZE = 20 };

/* The slots of an index file, its entries from number 0 on, and the store time from which its seconds count. */
typedef struct {
    u8 *slots, *entries;
    int64_t slot_count, begin_ms;
} index_file;

/*
 * Put count keys as entries from number first on; there is room for them, and no hash is negative.
 *
 * An entry is written before the slot that leads to it. A slot that leads nowhere counts as free. Return how many of
 * these slots were free, or -1, with nothing changed, where slots are not aligned or a hash is negative.
 */
int64_t put_keys(const index_file *file, int64_t first, int64_t count, const int32_t *hashes, const int64_t *offsets,
                 const int64_t *stored_ms);

#endif
