/*
 * Columns of records under hostile bytes. An input is a head of HEAD bytes, which says what is asked for, and records.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -Ismartgo/_core -Itests/_core tests/_core/fuzzcolumns.c \
 *       smartgo/_core/logcolumns.c smartgo/_core/crc32.c -o /tmp/fuzzcolumns
 *   python -m tests._core.columnseeds SEEDS && /tmp/fuzzcolumns -max_total_time=3600 SEEDS
 *
 * With -DSMARTGO_PORTABLE the search for separators is that of processors without SSE2. Without clang see fuzz.c.
 */
#include "crc32.h"
#include "logcolumns.h"

#include "fuzzmain.h"

enum { HEAD = 8 };

static void check_text(const text_column *text, int64_t count, int64_t room)
{
    check(text->ends[0] == 0, "texts begin at their beginning");
    for (int64_t i = 0; i < count; i++)
        check(text->ends[i] <= text->ends[i + 1], "texts follow one another");
    check(text->ends[count] <= room, "texts lie within their room");
}

/* Each record that was walked over is one, and rows say what the records of the mask say. */
static void check_rows(const log_columns *c, const u8 *records, const u8 *mask, const column_walk *walk, int64_t first)
{
    int64_t at = 0, row = first;
    for (int64_t i = 0; i < walk->records; i++) {
        const u8 *p = records + at;
        int64_t size = get32(p), body = get32(p + 84), topic = p[88 + body];
        check(size >= 91 && 91 + body + topic + get16(p + 89 + body + topic) == size, "the parts of a record add up");
        at += size;
        if (mask && !mask[i])
            continue;
        if (c->wanted & 1u << SIZE)
            check(((int32_t *)c->values[SIZE])[row] == size, "a row has its size");
        if (c->wanted & 1u << QUEUE_OFFSET)
            check(((int64_t *)c->values[QUEUE_OFFSET])[row] == get64(p + 20), "a row has its offset");
        if (c->wanted & 1u << BODY) {
            const text_column *text = &c->texts[BODY];
            check(text->ends[row + 1] - text->ends[row] == body, "a row has all of its body");
            check(!body || !memcmp(text->data + text->ends[row], p + 88, (size_t)body), "a row has its body");
        }
        if (c->wanted & 1u << TOPIC) {
            const text_column *text = &c->texts[TOPIC];
            check(text->ends[row + 1] - text->ends[row] == topic, "a row has all of its topic");
            check(!memcmp(text->data + text->ends[row], p + 89 + body, (size_t)topic), "a row has its topic");
        }
        row++;
    }
    check(at == walk->size && row == c->rows, "what was walked over adds up");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int begun;
    if (!begun++) {
        crc32_begin();
        log_columns_begin();
    }
    if (size < HEAD)
        return 0;
    int64_t room = (int64_t)size - HEAD;
    log_columns c = {
        .wanted = get32(data) & 0xFFFFFE,
        .checks = data[4] & 1,
        .opens = data[4] >> 1 & 1,
        .row_limit = 1 + data[5],
        .capacity = data[4] & 4 ? room + 1 : 1 + 16 * data[6],
    };
    column_region regions[COLUMNS_REGIONS];
    int count = column_regions(&c, regions);
    check(count <= COLUMNS_REGIONS, "there are so many regions");
    for (int i = 0; i < count; i++) {
        /* Each of its own, so that writing past one is noticed; with bytes that mean nothing. */
        *regions[i].at = malloc((size_t)regions[i].size);
        memset(*regions[i].at, 0x55, (size_t)regions[i].size);
    }
    u8 *records = malloc(room ? (size_t)room : 1), mask[256];
    memcpy(records, data + HEAD, (size_t)room);
    for (int i = 0; i < 256; i++)
        mask[i] = data[7] >> i % 8 & 1;
    span chosen = data[4] & 8 ? (span){mask, 256} : (span){NULL, 0};
    int64_t base = data[4] & 16 && room >= 36 ? get64(records + 28) : -1;
    int64_t bound = data[4] & 32 ? room / 2 : room;
    empty_columns(&c);
    int64_t at = 0;
    for (int turn = 0; turn < 8; turn++) {
        int64_t first = c.rows;
        column_walk walk;
        read_columns(&c, (span){records + at, room - at}, bound - at, base < 0 ? -1 : base, chosen, &walk);
        check(walk.size >= 0 && walk.size <= room - at, "a walk stays within the bytes");
        check(c.rows <= c.row_limit && c.taken <= c.capacity, "there is room for all that is taken");
        check_rows(&c, records + at, chosen.p, &walk, first);
        for (int i = 0; i < LOG_COLUMNS; i++) {
            int64_t texts = i == BORN_HOST || i == STORE_HOST || i == MESSAGE_ID ? c.row_limit * 32 : c.capacity;
            if (c.texts[i].data)
                check_text(&c.texts[i], c.rows, texts);
        }
        if (c.key_items.ends)
            check_text(&c.key_items, c.texts[KEYS].ends[c.rows], c.capacity);
        if (c.names.ends) {
            check_text(&c.names, c.texts[PROPERTIES].ends[c.rows], c.capacity);
            check_text(&c.map_values, c.texts[PROPERTIES].ends[c.rows], c.capacity);
        }
        at += walk.size;
        if (base >= 0)
            base = (int64_t)((uint64_t)base + (uint64_t)walk.size);
        if (walk.end == WALK_FULL)
            empty_columns(&c);
        else if (walk.end == WALK_ODD && room - at >= 91 && get32(records + at) >= 91 && get32(records + at) < room - at) {
            base = data[4] & 16 && room - at >= 36 + get32(records + at) ? get64(records + at + get32(records + at) + 28) : -1;
            at += get32(records + at); /* the next record may be in order */
        } else
            break;
    }
    for (int i = 0; i < count; i++)
        free(*regions[i].at);
    free(records);
    return 0;
}
