#include "appending.h"

#include "crc32.h"

enum { ITEM_HEAD = 20 };

static u8 *put_head(u8 *o, const send_rules *rules, const log_tail *log, const queue_tail *queue,
                    const send_request *request, span born_host, span body, int64_t message_flag, int64_t size,
                    int64_t queue_offset, int64_t offset)
{
    int64_t flags = request->sys_flag & ~(int64_t)(BORN_V6 | STORE_V6);
    flags |= born_host.n == V6_HOST ? BORN_V6 : 0;
    flags |= rules->store_host.n == V6_HOST ? STORE_V6 : 0;
    o = put32(o, (uint32_t)size);
    o = put32(o, 0xDAA320A7u);
    o = put32(o, crc32_of(body.p, (size_t)body.n) & 0x7FFFFFFF);
    o = put32(o, (uint32_t)request->queue_id);
    o = put32(o, (uint32_t)message_flag);
    o = put64(o, (uint64_t)queue_offset);
    o = put64(o, (uint64_t)offset);
    o = put32(o, (uint32_t)flags);
    o = put64(o, (uint64_t)request->born_ms);
    o = put_span(o, born_host);
    o = put64(o, (uint64_t)log->now_ms);
    o = put_span(o, rules->store_host);
    o = put32(o, (uint32_t)request->reconsumed);
    o = put64(o, 0); /* no half message */
    o = put32(o, (uint32_t)body.n);
    o = put_span(o, body);
    return put_span(o, queue->topic_part);
}

static void put_unit(u8 *o, int64_t offset, int64_t size, int64_t tag_code)
{
    put64(put32(put64(o, (uint64_t)offset), (uint32_t)size), (uint64_t)tag_code);
}

static int is_host(span host)
{
    return host.n == V4_HOST || host.n == V6_HOST;
}

/* Bytes of a record that are neither body nor properties. */
static int64_t overhead(const send_rules *rules, const queue_tail *queue, span born_host)
{
    return queue->overhead - HOSTS_SIZE + born_host.n + rules->store_host.n;
}

static int has_room(const log_tail *log, const queue_tail *queue, const append_plan *plan)
{
    int64_t end = log->end + plan->size;
    return log->at && log->end >= log->base && end <= log->limit && end - log->base <= log->size
        && queue->next_offset + plan->count <= queue->reserved;
}

static int is_plain(const send_rules *rules, const send_request *request, span born_host)
{
    return !(request->sys_flag & TRANSACTION) && is_host(born_host) && is_host(rules->store_host);
}

int plan_message(const send_rules *rules, const log_tail *log, const queue_tail *queue, const send_request *request,
                 span born_host, append_plan *plan)
{
    int64_t size;
    int tagged;
    if (!is_plain(rules, request, born_host) || request->body.n > rules->body_limit)
        return 0;
    if (!store_properties(request->properties, &rules->added, &rules->special, 1, rules->properties, &size,
                          &plan->tag_code, &tagged, &plan->wait))
        return 0;
    plan->count = 1;
    plan->tail_size = size;
    plan->size = overhead(rules, queue, born_host) + request->body.n + size;
    return plan->size <= RECORD_LIMIT && has_room(log, queue, plan);
}

void write_message(const send_rules *rules, const log_tail *log, const queue_tail *queue, const send_request *request,
                   span born_host, const append_plan *plan, u8 *unit)
{
    u8 *o = log->at + (log->end - log->base);
    o = put_head(o, rules, log, queue, request, born_host, request->body, request->message_flag, plan->size,
                 queue->next_offset, log->end);
    o = put16(o, (uint32_t)plan->tail_size);
    put_span(o, (span){rules->properties, plan->tail_size});
    put_unit(unit, log->end, plan->size, plan->tag_code);
}

/* -- batches -- */

typedef struct {
    int64_t flag;
    span body, own; /* its own properties */
} item;

/* One message of a batch's body; return where the next begins, NULL: this is none. */
static const u8 *read_item(const u8 *p, const u8 *end, item *found)
{
    if (end - p < ITEM_HEAD + 2)
        return NULL;
    int64_t size = (int32_t)get32(p), body_size = (int32_t)get32(p + 16);
    found->flag = (int32_t)get32(p + 12);
    if (body_size < 0 || size < ITEM_HEAD + 2 + body_size || size > end - p)
        return NULL;
    found->body = (span){p + ITEM_HEAD, body_size};
    const u8 *own = found->body.p + body_size;
    found->own = (span){own + 2, get16(own)};
    if (found->own.n > PROPERTIES_LIMIT || ITEM_HEAD + 2 + body_size + found->own.n != size)
        return NULL;
    return p + size;
}

static int needs_separator(span own)
{
    return own.n && own.p[own.n - 1] != PAIR_END;
}

/* Bytes of the properties that are stored of an item; all but the last end with a separator. */
static int64_t item_properties(const item *one, const append_plan *plan, int last)
{
    return one->own.n + needs_separator(one->own) + plan->tail_size + !last;
}

int plan_batch(const send_rules *rules, const log_tail *log, const queue_tail *queue, const send_request *request,
               span born_host, append_plan *plan)
{
    const u8 *p = request->body.p, *end = p + request->body.n;
    int64_t tag_code, bodies = 0;
    int tagged;
    if (!is_plain(rules, request, born_host))
        return 0;
    if (!store_properties(request->properties, &rules->added, &rules->special, 0, rules->properties, &plan->tail_size,
                          &tag_code, &tagged, &plan->wait))
        return 0;
    if (tagged)
        return 0;
    plan->count = plan->size = plan->tag_code = 0;
    while (p < end) {
        item one;
        p = read_item(p, end, &one);
        if (!p || plan->count == rules->count_limit || !stored_tag_code(one.own, &tag_code))
            return 0;
        if (seek(one.own.p, one.own.p + one.own.n, 0) != one.own.p + one.own.n || holds(one.own, "__CRC32#\001", 9))
            return 0;
        int64_t properties = item_properties(&one, plan, p == end);
        int64_t size = overhead(rules, queue, born_host) + one.body.n + properties;
        if (properties > PROPERTIES_LIMIT || size > RECORD_LIMIT)
            return 0;
        plan->size += size;
        plan->count++;
        bodies += one.body.n;
    }
    return plan->count && bodies <= rules->body_limit && has_room(log, queue, plan);
}

void write_batch(const send_rules *rules, const log_tail *log, const queue_tail *queue, const send_request *request,
                 span born_host, const append_plan *plan, int64_t *offsets, int64_t *tag_codes, u8 *units)
{
    const u8 *p = request->body.p, *end = p + request->body.n;
    int64_t offset = log->end;
    for (int64_t i = 0; i < plan->count; i++) {
        item one;
        p = read_item(p, end, &one);
        int last = i == plan->count - 1;
        int64_t properties = item_properties(&one, plan, last);
        int64_t size = overhead(rules, queue, born_host) + one.body.n + properties;
        u8 *o = log->at + (offset - log->base);
        o = put_head(o, rules, log, queue, request, born_host, one.body, one.flag, size, queue->next_offset + i, offset);
        o = put16(o, (uint32_t)properties);
        o = put_span(o, one.own);
        if (needs_separator(one.own))
            *o++ = PAIR_END;
        o = put_span(o, (span){rules->properties, plan->tail_size});
        if (!last)
            *o = PAIR_END;
        stored_tag_code(one.own, &tag_codes[i]);
        put_unit(units + UNIT_SIZE * i, offset, size, tag_codes[i]);
        offsets[i] = offset;
        offset += size;
    }
}
