#include "picking.h"

enum {
    NO_MESSAGE = 0x7FFFFFFF, /* the size in a unit without a message */
    QUEUE_ID_AT = 12,
    QUEUE_OFFSET_AT = 20,
    PHYSICAL_AT = 28,
    BODY_LENGTH_AT = 84,
    HEAD_SIZE = 88,
    FEW = 8 /* codes that are looked at one after another */
};

#define EXTENSION_LIMIT (-2147483648LL) /* a smaller code is an address, and may match */

static int is_wanted(const pick_request *request, int64_t code)
{
    const int64_t *codes = request->codes;
    int64_t low = 0, high = request->code_count;
    if (code < EXTENSION_LIMIT)
        return 1;
    while (high - low > FEW) {
        int64_t middle = low + (high - low) / 2;
        if (codes[middle] <= code)
            low = middle;
        else
            high = middle;
    }
    for (; low < high; low++)
        if (codes[low] == code)
            return 1;
    return 0;
}

/* Whether a record of so many bytes is the one that a unit of the queue leads to. */
static int is_the_one(const u8 *record, int64_t size, int64_t physical, int64_t queue_id, int64_t offset)
{
    return (int32_t)get32(record) == size && (int32_t)get32(record + QUEUE_ID_AT) == queue_id
        && get64(record + QUEUE_OFFSET_AT) == offset && get64(record + PHYSICAL_AT) == physical;
}

/* Whether the topic of a record is the queue's; a record with IPv6 hosts is said to be another's. */
static int is_of(const u8 *record, int64_t size, span topic_part)
{
    int64_t body_size = (int32_t)get32(record + BODY_LENGTH_AT);
    if (body_size < 0 || topic_part.n > size - HEAD_SIZE - body_size)
        return 0;
    return memcmp(record + HEAD_SIZE + body_size, topic_part.p, (size_t)topic_part.n) == 0;
}

int pick_records(const pick_request *request, const log_window *log, const u8 *units, int64_t count, log_run *runs,
                 picked *found)
{
    int checked = 0;
    log_run *run = NULL;
    *found = (picked){.next_offset = request->offset, .last = get64(units)};
    for (const u8 *unit = units; unit < units + count * UNIT_SIZE; unit += UNIT_SIZE, found->next_offset++) {
        int64_t physical = get64(unit), size = (int32_t)get32(unit + 8);
        if (request->codes && !is_wanted(request, get64(unit + 12)))
            continue;
        if (size == NO_MESSAGE)
            continue;
        if (physical < request->minimum) {
            found->removing = 1;
            continue;
        }
        if (found->count && (found->count >= request->max_count || found->size + size > request->max_size))
            return 1;
        if (physical < log->base || size < HEAD_SIZE || size > log->end - physical)
            return 0;
        const u8 *record = log->at + (physical - log->base);
        if (!is_the_one(record, size, physical, request->queue_id, found->next_offset))
            return 0;
        if (!checked) { /* one is enough to notice a queue file that is another queue's */
            if (!is_of(record, size, request->topic_part))
                return 0;
            checked = found->next_offset >= request->checked_until;
        }
        found->last = physical;
        found->count++;
        found->size += size;
        if (run && run->end == physical) {
            run->end += size;
        } else {
            run = runs + found->runs++;
            *run = (log_run){physical, physical + size};
        }
    }
    return 1;
}

int adjacent_records(const u8 *units, int64_t count, int64_t *first, int64_t *last, int64_t *size)
{
    uint64_t end = (uint64_t)get64(units); /* damaged units may lead anywhere */
    *first = (int64_t)end;
    for (const u8 *unit = units; unit < units + count * UNIT_SIZE; unit += UNIT_SIZE) {
        int32_t length = (int32_t)get32(unit + 8);
        if (length <= 0 || (uint64_t)get64(unit) != end)
            return 0;
        *last = (int64_t)end;
        end += (uint32_t)length;
    }
    *size = (int64_t)(end - (uint64_t)*first);
    return 1;
}
