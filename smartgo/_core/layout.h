/* Sizes and flags of the store's files that several parts need: records, their properties, and the units of queues. */
#ifndef SMARTGO_LAYOUT_H
#define SMARTGO_LAYOUT_H

enum { BORN_V6 = 0x10, STORE_V6 = 0x20, TRANSACTION = 0xC };
enum { V4_HOST = 8, V6_HOST = 20 };
enum { NAME_END = 1, PAIR_END = 2 };
enum { UNIT_SIZE = 20 };

#endif
