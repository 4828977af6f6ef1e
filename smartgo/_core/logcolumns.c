#include "logcolumns.h"

#include "crc32.h"
#include "layout.h"

#if defined(__SSE2__) && !defined(SMARTGO_PORTABLE)
#include <emmintrin.h>
#define SSE2 1
#endif

/* The record, see smartgo/schema/record.py. */
enum {
    MAGIC_AT = 4, CRC_AT = 8, QUEUE_AT = 12, FLAG_AT = 16, QUEUE_OFFSET_AT = 20, OFFSET_AT = 28, SYS_FLAG_AT = 36,
    BORN_AT = 40, BORN_HOST_AT = 48, STORED_AT = 56, STORE_HOST_AT = 64, RECONSUME_AT = 72, PREPARED_AT = 76,
    BODY_LENGTH_AT = 84, BODY_AT = 88, LEAST = 91
};
enum { TOPIC_LIMIT = 127, PROPERTIES_MOST = 32767, PORT_LIMIT = 65535, COMPRESSED = 1 };
enum { SEAL_BEGIN = 9, SEAL_DIGITS = 10, SEAL = SEAL_BEGIN + SEAL_DIGITS + 1 };
enum { ID_TEXT = 32, HEX_HOST = 2 * V4_HOST };
#define MAGIC 0xDAA320A7u
#define BOLT_MAGIC 0xDAA320B7u
#define EARLIEST_MS (-62135596800000) /* the years 1 to 9999, which Spark shows */
#define LATEST_MS 253402300799999
#define LOW_31 0x7FFFFFFFu

#define BIT(column) (1u << (column))
#define OF_PROPERTIES (BIT(KEY) | BIT(KEYS) | BIT(TAGS) | BIT(PROPERTIES) | BIT(UNIQUE_ID))
#define NUMBERS_32                                                                                                     \
    (BIT(QUEUE_ID) | BIT(BODY_SIZE) | BIT(SIZE) | BIT(FLAG) | BIT(SYS_FLAG) | BIT(RECONSUME_TIMES) | BIT(CRC))
#define NUMBERS_64                                                                                                     \
    (BIT(QUEUE_OFFSET) | BIT(PHYSICAL_OFFSET) | BIT(BORN_TIMESTAMP) | BIT(STORE_TIMESTAMP) | BIT(PREPARED_OFFSET))

static u8 in_topics[256], hex_digits[256][2], decimal[256][4]; /* the last: up to three digits, and how many */

void log_columns_begin(void)
{
    static const char hex[] = "0123456789ABCDEF";
    for (int i = 0; i < 256; i++) {
        int digits = 0;
        in_topics[i] = (i >= 'a' && i <= 'z') || (i >= 'A' && i <= 'Z') || (i >= '0' && i <= '9') || i == '_' || i == '-'
            || i == '%' || i == '|';
        hex_digits[i][0] = (u8)hex[i >> 4];
        hex_digits[i][1] = (u8)hex[i & 15];
        if (i >= 100)
            decimal[i][digits++] = (u8)('0' + i / 100);
        if (i >= 10)
            decimal[i][digits++] = (u8)('0' + i / 10 % 10);
        decimal[i][digits++] = (u8)('0' + i % 10);
        decimal[i][3] = (u8)digits;
    }
}

/* -- memory ------------------------------------------------------------------------------------------------------- */

static column_region *add(column_region *o, void *at, int64_t size, int column, int role)
{
    *o = (column_region){at, size, column, role};
    return o + 1;
}

static column_region *add_text(column_region *o, text_column *text, int64_t count, int64_t size, int column, int role)
{
    o = add(o, &text->ends, (count + 1) * 4, column, role);
    return add(o, &text->data, size + COLUMNS_SLACK, column, role + 1);
}

int column_regions(log_columns *c, column_region *all)
{
    column_region *o = all;
    int64_t rows = c->row_limit, bits = (rows + 7) / 8;
    for (int i = 0; i < LOG_COLUMNS; i++) {
        if (!(c->wanted & BIT(i)))
            continue;
        if (NUMBERS_32 & BIT(i))
            o = add(o, &c->values[i], rows * 4, i, VALUES);
        if (NUMBERS_64 & BIT(i))
            o = add(o, &c->values[i], rows * 8, i, VALUES);
        if (i == CRC_OK)
            o = add(o, &c->values[i], bits, i, VALUES);
        if (i == KEY || i == TAGS || i == UNIQUE_ID)
            o = add(o, &c->valid[i], bits, i, VALID);
        if (i == TOPIC || i == KEY || i == TAGS || i == UNIQUE_ID || i == BODY)
            o = add_text(o, &c->texts[i], rows, c->capacity, i, ENDS);
        if (i == BORN_HOST || i == STORE_HOST)
            o = add_text(o, &c->texts[i], rows, rows * COLUMNS_HOST_TEXT, i, ENDS);
        if (i == MESSAGE_ID)
            o = add_text(o, &c->texts[i], rows, rows * ID_TEXT, i, ENDS);
        if (i == KEYS || i == PROPERTIES)
            o = add(o, &c->texts[i].ends, (rows + 1) * 4, i, ENDS);
        if (i == KEYS)
            o = add_text(o, &c->key_items, c->capacity / 2, c->capacity, i, ITEM_ENDS);
        if (i == PROPERTIES) {
            o = add_text(o, &c->names, c->capacity / 3, c->capacity, i, ITEM_ENDS);
            o = add_text(o, &c->map_values, c->capacity / 3, c->capacity, i, OTHER_ENDS);
        }
    }
    return (int)(o - all);
}

void empty_columns(log_columns *c)
{
    c->rows = c->taken = 0;
    for (int i = 0; i < LOG_COLUMNS; i++) {
        c->nulls[i] = 0;
        if (c->wanted & BIT(i) && c->texts[i].ends)
            c->texts[i].ends[0] = 0;
        if (c->valid[i])
            memset(c->valid[i], 0xFF, (size_t)((c->row_limit + 7) / 8));
    }
    if (c->wanted & BIT(CRC_OK))
        memset(c->values[CRC_OK], 0xFF, (size_t)((c->row_limit + 7) / 8));
    if (c->wanted & BIT(KEYS))
        c->key_items.ends[0] = 0;
    if (c->wanted & BIT(PROPERTIES))
        c->names.ends[0] = c->map_values.ends[0] = 0;
}

/* -- search ------------------------------------------------------------------------------------------------------- */

/* The first PAIR_END from p on, end where there is none. Up to limit, which is not before end, may be read. */
static inline const u8 *seek_pair_end(const u8 *p, const u8 *end, const u8 *limit)
{
#ifdef SSE2
    const __m128i wanted = _mm_set1_epi8(PAIR_END);
    for (; p < end && limit - p >= 16; p += 16) {
        int found = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), wanted));
        if (found) {
            p += __builtin_ctz((unsigned)found);
            return p < end ? p : end;
        }
    }
    while (p < end && *p != PAIR_END)
        p++;
    return p < end ? p : end;
#else
    (void)limit;
    return seek(p, end, PAIR_END);
#endif
}

/* The first NAME_END or PAIR_END from p on, end where there is none. */
static inline const u8 *seek_name_end(const u8 *p, const u8 *end, const u8 *limit)
{
#ifdef SSE2
    const __m128i one = _mm_set1_epi8(NAME_END), other = _mm_set1_epi8(PAIR_END);
    for (; p < end && limit - p >= 16; p += 16) {
        __m128i part = _mm_loadu_si128((const __m128i *)(const void *)p);
        int found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(part, one), _mm_cmpeq_epi8(part, other)));
        if (found) {
            p += __builtin_ctz((unsigned)found);
            return p < end ? p : end;
        }
    }
#else
    (void)limit;
#endif
    while (p < end && *p != NAME_END && *p != PAIR_END)
        p++;
    return p < end ? p : end;
}

static inline int is_tail(u8 c)
{
    return (c & 0xC0) == 0x80;
}

/* Whether text is UTF-8 as Unicode defines it: nothing in more bytes than it needs, no surrogates. */
static int is_utf8(const u8 *p, const u8 *end)
{
    while (p < end) {
        uint64_t eight;
        if (end - p >= 8 && (memcpy(&eight, p, 8), !(eight & 0x8080808080808080u))) {
            p += 8;
            continue;
        }
        u8 c = *p;
        int64_t n = end - p;
        if (c < 0x80) {
            p++;
        } else if (c < 0xE0) {
            if (c < 0xC2 || n < 2 || !is_tail(p[1]))
                return 0;
            p += 2;
        } else if (c < 0xF0) {
            if (n < 3 || !is_tail(p[1]) || !is_tail(p[2]) || (c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F))
                return 0;
            p += 3;
        } else {
            if (c > 0xF4 || n < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3]) || (c == 0xF0 && p[1] < 0x90)
                || (c == 0xF4 && p[1] > 0x8F))
                return 0;
            p += 4;
        }
    }
    return 1;
}

/* -- writing ------------------------------------------------------------------------------------------------------ */

/* Put a short text behind the others, as number i. Up to limit may be read, COLUMNS_SLACK beyond may be written. */
static inline void put_text(text_column *text, int64_t i, const u8 *p, int64_t n, const u8 *limit)
{
    u8 *o = text->data + text->ends[i];
    text->ends[i + 1] = text->ends[i] + (int32_t)n;
#ifdef SSE2
    if (limit - p >= n + 16) {
        for (int64_t k = 0; k < n; k += 16)
            _mm_storeu_si128((__m128i *)(void *)(o + k), _mm_loadu_si128((const __m128i *)(const void *)(p + k)));
        return;
    }
#else
    (void)limit;
#endif
    if (n)
        memcpy(o, p, (size_t)n);
}

static inline void put_missing(log_columns *c, int column, int64_t row)
{
    c->valid[column][row >> 3] &= (u8)~(1u << (row & 7));
    c->nulls[column]++;
    c->texts[column].ends[row + 1] = c->texts[column].ends[row];
}

static inline void put_property(log_columns *c, int column, int64_t row, span value, const u8 *limit)
{
    if (value.n)
        put_text(&c->texts[column], row, value.p, value.n, limit);
    else
        put_missing(c, column, row);
}

/* Split keys at blanks. */
static void put_keys(log_columns *c, int64_t row, span keys, const u8 *limit)
{
    int wants_key = (c->wanted & BIT(KEY)) != 0, wants_keys = (c->wanted & BIT(KEYS)) != 0;
    const u8 *p = keys.p, *end = keys.p + keys.n;
    int32_t items = wants_keys ? c->texts[KEYS].ends[row] : 0;
    span first = {NULL, 0};
    while (p < end) {
        const u8 *stop = seek(p, end, ' ');
        if (stop > p) {
            if (!first.n)
                first = (span){p, stop - p};
            if (!wants_keys)
                break;
            put_text(&c->key_items, items++, p, stop - p, limit);
        }
        p = stop < end ? stop + 1 : end;
    }
    if (wants_keys)
        c->texts[KEYS].ends[row + 1] = items;
    if (wants_key)
        put_property(c, KEY, row, first, limit);
}

static int is_new(const text_column *names, int32_t begin, int32_t end, span name)
{
    for (int32_t i = begin; i < end; i++)
        if (same(name, names->data + names->ends[i], names->ends[i + 1] - names->ends[i]))
            return 0;
    return 1;
}

/* Put the columns that are made of properties; 0: out of the ordinary, and nothing is put. */
static int put_properties(log_columns *c, int64_t row, span stored, const u8 *limit)
{
    const u8 *p = stored.p, *end = stored.p + stored.n;
    int maps = (c->wanted & BIT(PROPERTIES)) != 0, count = 0;
    int32_t first = maps ? c->texts[PROPERTIES].ends[row] : 0, pairs = first;
    span keys = {p, 0}, tags = keys, unique_id = keys;
    if (!is_utf8(p, end))
        return 0;
    while (p < end) {
        const u8 *middle = seek_name_end(p, end, limit), *stop = middle;
        if (middle < end && *middle == NAME_END)
            stop = seek_pair_end(middle + 1, end, limit);
        span name = {p, middle - p}, value = {middle + 1, stop - middle - 1};
        p = stop < end ? stop + 1 : end;
        if (stop == middle || !name.n || !value.n)
            continue;
        if (++count > COLUMNS_PAIRS_LIMIT)
            return 0;
        if (maps) {
            if (!is_new(&c->names, first, pairs, name))
                return 0;
            put_text(&c->names, pairs, name.p, name.n, limit);
            put_text(&c->map_values, pairs, value.p, value.n, limit);
            pairs++;
        }
        if (IS(name, "KEYS"))
            keys = value;
        else if (IS(name, "TAGS"))
            tags = value;
        else if (IS(name, "UNIQ_KEY"))
            unique_id = value;
    }
    if (maps)
        c->texts[PROPERTIES].ends[row + 1] = pairs;
    if (c->wanted & (BIT(KEY) | BIT(KEYS)))
        put_keys(c, row, keys, limit);
    if (c->wanted & BIT(TAGS))
        put_property(c, TAGS, row, tags, limit);
    if (c->wanted & BIT(UNIQUE_ID))
        put_property(c, UNIQUE_ID, row, unique_id, limit);
    return 1;
}

static u8 *put_decimal(u8 *o, unsigned number)
{
    memcpy(o, decimal[number], 3);
    return o + decimal[number][3];
}

/* A host's text, of at most COLUMNS_HOST_TEXT bytes; the last one is kept, as the next is often the same. */
typedef struct {
    u8 raw[V4_HOST], text[40];
    int64_t size;
} host_text;

static void set_host(host_text *host, const u8 *raw)
{
    u8 *o = host->text;
    unsigned port = get32(raw + 4);
    if (host->size && !memcmp(host->raw, raw, V4_HOST))
        return;
    memcpy(host->raw, raw, V4_HOST);
    for (int i = 0; i < 4; i++) {
        o = put_decimal(o, raw[i]);
        *o++ = i < 3 ? '.' : ':';
    }
    if (port >= 10000)
        *o++ = (u8)('0' + port / 10000);
    if (port >= 1000)
        *o++ = (u8)('0' + port / 1000 % 10);
    if (port >= 100)
        *o++ = (u8)('0' + port / 100 % 10);
    if (port >= 10)
        *o++ = (u8)('0' + port / 10 % 10);
    *o++ = (u8)('0' + port % 10);
    host->size = o - host->text;
}

static void put_id(text_column *text, int64_t row, const u8 *record)
{
    u8 *o = text->data + text->ends[row];
    for (int i = 0; i < V4_HOST; i++, o += 2)
        memcpy(o, hex_digits[record[STORE_HOST_AT + i]], 2);
    for (int i = 0; i < 8; i++, o += 2)
        memcpy(o, hex_digits[record[OFFSET_AT + i]], 2);
    text->ends[row + 1] = text->ends[row] + ID_TEXT;
}

static inline void put_number_32(log_columns *c, int column, int64_t row, uint32_t number)
{
    if (c->wanted & BIT(column))
        ((int32_t *)c->values[column])[row] = (int32_t)number;
}

static inline void put_number_64(log_columns *c, int column, int64_t row, int64_t number)
{
    if (c->wanted & BIT(column))
        ((int64_t *)c->values[column])[row] = number;
}

/* -- records ------------------------------------------------------------------------------------------------------ */

typedef struct {
    const u8 *at;
    int64_t size, stored_ms;
    span body, topic, properties;
} log_record;

static int is_topic(span topic)
{
    for (int64_t i = 0; i < topic.n; i++)
        if (!in_topics[topic.p[i]])
            return 0;
    return 1;
}

/* Find the parts of a record that lies whole in what is there; 0: out of the ordinary. */
static int read_record(log_record *r, const u8 *p, int64_t size, const int64_t *offset, span *topic)
{
    uint32_t magic = get32(p + MAGIC_AT), sys_flag = get32(p + SYS_FLAG_AT);
    int64_t left = size - LEAST, length = (int32_t)get32(p + BODY_LENGTH_AT);
    if ((magic != MAGIC && magic != BOLT_MAGIC) || sys_flag & (BORN_V6 | STORE_V6))
        return 0;
    r->at = p;
    r->size = size;
    r->stored_ms = get64(p + STORED_AT);
    if ((offset && get64(p + OFFSET_AT) != *offset) || r->stored_ms <= 0 || (int32_t)get32(p + QUEUE_AT) < 0
        || get64(p + QUEUE_OFFSET_AT) < 0)
        return 0;
    if (length < 0 || length > left)
        return 0;
    left -= length;
    r->body = (span){p + BODY_AT, length};
    p += BODY_AT + length;
    length = *p++;
    if (length < 1 || length > TOPIC_LIMIT || length > left)
        return 0;
    left -= length;
    r->topic = (span){p, length};
    p += length;
    length = get16(p);
    if (length != left || length > PROPERTIES_MOST)
        return 0;
    r->properties = (span){p + 2, length};
    if (!same(r->topic, topic->p, topic->n)) { /* most have the topic of one before them */
        if (!is_topic(r->topic))
            return 0;
        *topic = r->topic;
    }
    return 1;
}

/* Whether the checksum of the body holds, and that of the whole record where there is one. */
static int holds_checksum(const log_record *r)
{
    if ((crc32_of(r->body.p, (size_t)r->body.n) ^ get32(r->at + CRC_AT)) & LOW_31)
        return 0;
    const u8 *end = r->properties.p + r->properties.n, *seal = end - SEAL;
    if (r->properties.n < SEAL || end[-1] != PAIR_END || memcmp(seal, "__CRC32#\001", SEAL_BEGIN))
        return 1;
    uint64_t told = 0;
    for (int i = SEAL_DIGITS; i--;) {
        unsigned digit = seal[SEAL_BEGIN + i] - (unsigned)'0';
        if (digit > 9)
            return 0; /* left to those who know other digits */
        told = told * 10 + digit;
    }
    return !told || told == (crc32_of(r->at, (size_t)(r->size - SEAL)) & LOW_31);
}

static int is_shown(int64_t ms)
{
    return ms >= EARLIEST_MS && ms <= LATEST_MS;
}

/* Put one row; 0: out of the ordinary, and no row is put. */
static int put_row(log_columns *c, const log_record *r, host_text *hosts, const u8 *limit)
{
    const u8 *p = r->at;
    int64_t row = c->rows, born_ms = get64(p + BORN_AT);
    uint32_t wanted = c->wanted;
    if ((wanted & BIT(BORN_TIMESTAMP) && !is_shown(born_ms)) || (wanted & BIT(STORE_TIMESTAMP) && !is_shown(r->stored_ms)))
        return 0;
    if ((wanted & BIT(BORN_HOST) && get32(p + BORN_HOST_AT + 4) > PORT_LIMIT)
        || (wanted & BIT(STORE_HOST) && get32(p + STORE_HOST_AT + 4) > PORT_LIMIT))
        return 0;
    if (c->opens && get32(p + SYS_FLAG_AT) & COMPRESSED)
        return 0;
    if (c->checks && !holds_checksum(r))
        return 0;
    if (wanted & OF_PROPERTIES && !put_properties(c, row, r->properties, limit))
        return 0;
    if (wanted & BIT(TOPIC))
        put_text(&c->texts[TOPIC], row, r->topic.p, r->topic.n, limit);
    if (wanted & BIT(BODY)) {
        text_column *bodies = &c->texts[BODY];
        if (r->body.n)
            memcpy(bodies->data + bodies->ends[row], r->body.p, (size_t)r->body.n);
        bodies->ends[row + 1] = bodies->ends[row] + (int32_t)r->body.n;
    }
    if (wanted & BIT(BORN_HOST)) {
        set_host(&hosts[0], p + BORN_HOST_AT);
        put_text(&c->texts[BORN_HOST], row, hosts[0].text, hosts[0].size, hosts[0].text + sizeof hosts[0].text);
    }
    if (wanted & BIT(STORE_HOST)) {
        set_host(&hosts[1], p + STORE_HOST_AT);
        put_text(&c->texts[STORE_HOST], row, hosts[1].text, hosts[1].size, hosts[1].text + sizeof hosts[1].text);
    }
    if (wanted & BIT(MESSAGE_ID))
        put_id(&c->texts[MESSAGE_ID], row, p);
    put_number_32(c, QUEUE_ID, row, get32(p + QUEUE_AT));
    put_number_64(c, QUEUE_OFFSET, row, get64(p + QUEUE_OFFSET_AT));
    put_number_64(c, PHYSICAL_OFFSET, row, get64(p + OFFSET_AT));
    put_number_32(c, BODY_SIZE, row, (uint32_t)r->body.n);
    put_number_32(c, SIZE, row, (uint32_t)r->size);
    put_number_32(c, FLAG, row, get32(p + FLAG_AT));
    put_number_32(c, SYS_FLAG, row, get32(p + SYS_FLAG_AT));
    put_number_32(c, RECONSUME_TIMES, row, get32(p + RECONSUME_AT));
    put_number_64(c, PREPARED_OFFSET, row, get64(p + PREPARED_AT));
    put_number_32(c, CRC, row, get32(p + CRC_AT));
    if (wanted & BIT(BORN_TIMESTAMP))
        put_number_64(c, BORN_TIMESTAMP, row, born_ms * 1000);
    if (wanted & BIT(STORE_TIMESTAMP))
        put_number_64(c, STORE_TIMESTAMP, row, r->stored_ms * 1000);
    c->rows++;
    return 1;
}

void read_columns(log_columns *c, span bytes, int64_t bound, int64_t base, span mask, column_walk *walk)
{
    host_text hosts[2] = {{.size = 0}, {.size = 0}};
    span topic = {bytes.p, 0};
    const u8 *limit = bytes.p + bytes.n;
    int64_t at = 0, records = 0;
    walk->end = WALK_BOUND;
    while (at < bound && !(mask.p && records == mask.n)) {
        const u8 *p = bytes.p + at;
        log_record r;
        walk->end = WALK_SHORT;
        if (bytes.n - at < LEAST)
            break;
        int64_t size = (int32_t)get32(p);
        if (size > bytes.n - at)
            break;
        walk->end = WALK_ODD;
        int64_t offset = (int64_t)((uint64_t)base + (uint64_t)at);
        if (size < LEAST || !read_record(&r, p, size, base < 0 ? NULL : &offset, &topic))
            break;
        if (!mask.p || mask.p[records]) {
            int64_t takes = c->wanted & BIT(BODY) ? size : size - r.body.n;
            if (c->rows == c->row_limit || c->taken + takes > c->capacity) {
                walk->end = c->rows ? WALK_FULL : WALK_ODD;
                break;
            }
            if (!put_row(c, &r, hosts, limit))
                break;
            c->taken += takes;
        }
        walk->end = WALK_BOUND;
        c->stored_ms = r.stored_ms;
        records++;
        at += size;
    }
    walk->records = records;
    walk->size = at;
}
