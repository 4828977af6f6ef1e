/* The keys under which the index finds a stored record. */
#ifndef SMARTGO_INDEXKEYS_H
#define SMARTGO_INDEXKEYS_H

#include "bytes.h"

enum { INDEX_KEYS_LIMIT = 80 };

/*
 * Hash the keys of the record that begins at p, of which room bytes may be read.
 *
 * hashes has INDEX_KEYS_LIMIT elements: the unique key's first, then those of the words of KEYS.
 * Return how many there are, or -1 where the record is out of the ordinary.
 */
int index_keys_of(const u8 *p, int64_t room, int32_t *hashes, int64_t *stored_ms);

#endif
