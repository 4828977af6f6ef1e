/*
 * Records of the log as columns: one pass over the bytes writes what was asked for in the form of Arrow's arrays.
 *
 * It ends at the first record that is out of the ordinary, of which nothing is written: IPv6 hosts, the magic of long
 * topics, text that is not UTF-8, a name twice in a map, a time that no calendar shows, a checksum that differs, and
 * whatever is no valid record.
 */
#ifndef SMARTGO_LOGCOLUMNS_H
#define SMARTGO_LOGCOLUMNS_H

#include "bytes.h"

/* In the order of the table's schema; a set of them is a word of such bits. STORE is the same for all rows: not ours. */
enum log_column {
    STORE, TOPIC, QUEUE_ID, QUEUE_OFFSET, PHYSICAL_OFFSET, KEY, KEYS, TAGS, PROPERTIES, BODY, BODY_SIZE, SIZE, FLAG,
    SYS_FLAG, BORN_TIMESTAMP, STORE_TIMESTAMP, BORN_HOST, STORE_HOST, RECONSUME_TIMES, PREPARED_OFFSET, MESSAGE_ID,
    UNIQUE_ID, CRC, CRC_OK, LOG_COLUMNS
};

/* What a region of memory holds of a column. Of a map, ITEM is the name and OTHER the value. */
enum region_role { VALUES, VALID, ENDS, DATA, ITEM_ENDS, ITEM_DATA, OTHER_ENDS, OTHER_DATA };

enum {
    COLUMNS_PAIRS_LIMIT = 64, /* properties of one record */
    COLUMNS_SLACK = 32,       /* bytes of a region of text that are written to and mean nothing */
    COLUMNS_HOST_TEXT = 21,   /* 255.255.255.255:65535 */
    COLUMNS_REGIONS = 48
};

typedef struct {
    int32_t *ends; /* after each text, behind a zero */
    u8 *data;
} text_column;

typedef struct {
    uint32_t wanted;
    int checks;        /* verify checksums */
    int opens;         /* a compressed body is out of the ordinary */
    int64_t row_limit; /* rows that there is room for */
    int64_t capacity;  /* bytes of records that there is room for, without bodies where these are not wanted */
    int64_t rows, taken;
    void *values[LOG_COLUMNS];     /* of numbers */
    text_column texts[LOG_COLUMNS]; /* KEYS and PROPERTIES: the lists' ends alone */
    text_column key_items, names, map_values;
    u8 *valid[LOG_COLUMNS]; /* bits of KEY, TAGS, UNIQUE_ID */
    int64_t nulls[LOG_COLUMNS];
    int64_t stored_ms; /* of the last record that was walked over */
} log_columns;

/* Memory that a column needs: where its address is kept, and how many bytes. */
typedef struct {
    void **at;
    int64_t size;
    int column, role;
} column_region;

/* Why a walk ended. */
enum walk_end {
    WALK_BOUND, /* at the end of what was asked for */
    WALK_FULL,  /* there is no room for the next record */
    WALK_SHORT, /* the bytes end before the next record does */
    WALK_ODD    /* the next record is out of the ordinary */
};

typedef struct {
    int64_t records, size; /* walked over */
    enum walk_end end;
} column_walk;

/* Once, before anything else. */
void log_columns_begin(void);

/* Tell what memory the wanted columns need; return how many regions. all has room for COLUMNS_REGIONS. */
int column_regions(log_columns *columns, column_region *all);

/* Forget all rows. The regions have their memory. */
void empty_columns(log_columns *columns);

/*
 * Walk over records that lie back to back, and write their columns behind the rows that are there.
 *
 * bound: records that begin there or behind are left alone. base: the physical offset of the first byte, negative where
 * records need not lie at their own. mask: a byte for each record, zero where it is not wanted, or NULL.
 */
void read_columns(log_columns *columns, span bytes, int64_t bound, int64_t base, span mask, column_walk *walk);

#endif
