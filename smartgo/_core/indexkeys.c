#include "indexkeys.h"

#include "layout.h"

enum {
    MAGIC_AT = 4,
    SYS_FLAG_AT = 36,
    BORN_HOST_AT = 48,
    STORED_SIZE = 8,
    BEFORE_BODY = 16, /* from the store host on: reconsumption, prepared offset, and the body's length */
    LEAST = 91,
    ROLLBACK = 0xC
};

/* The number that the index has for a key: the absolute value of Java's hash, 0 where there is none. */
static int32_t index_hash(uint32_t prefix, span key)
{
    uint32_t h = java_hash_on(prefix, key);
    return (int32_t)(h < 0x80000000u ? h : (0 - h) & 0x7FFFFFFFu);
}

static int begins_with(span s, const char *name, int64_t n)
{
    return s.n > n && memcmp(s.p, name, (size_t)n) == 0;
}

int index_keys_of(const u8 *p, int64_t room, int32_t *hashes, int64_t *stored_ms)
{
    if (room < LEAST || get32(p + MAGIC_AT) != 0xDAA320A7u)
        return -1;
    int64_t size = (int32_t)get32(p), sys_flag = get32(p + SYS_FLAG_AT);
    if (size < LEAST || size > room)
        return -1;
    int64_t stored_at = BORN_HOST_AT + (sys_flag & BORN_V6 ? V6_HOST : V4_HOST);
    int64_t body_at = stored_at + STORED_SIZE + (sys_flag & STORE_V6 ? V6_HOST : V4_HOST) + BEFORE_BODY;
    if (body_at + 3 > size)
        return -1;
    int64_t body_size = (int32_t)get32(p + body_at - 4);
    if (body_size < 0 || body_at + body_size + 3 > size)
        return -1;
    const u8 *topic_at = p + body_at + body_size, *end = p + size;
    span topic = {topic_at + 1, topic_at[0]};
    if (end - topic.p < topic.n + 2 || (int64_t)get16(topic.p + topic.n) != end - topic.p - topic.n - 2)
        return -1;
    if (!is_ascii(topic))
        return -1;
    *stored_ms = (int64_t)((uint64_t)get32(p + stored_at) << 32 | get32(p + stored_at + 4));
    if ((sys_flag & TRANSACTION) == ROLLBACK)
        return 0;
    span unique = {p, 0}, words = {p, 0};
    for (const u8 *at = topic.p + topic.n + 2; at < end;) {
        const u8 *stop = seek(at, end, PAIR_END);
        span pair = {at, stop - at};
        if (begins_with(pair, "UNIQ_KEY\001", 9)) /* the last one that is not empty counts */
            unique = (span){at + 9, pair.n - 9};
        else if (begins_with(pair, "KEYS\001", 5))
            words = (span){at + 5, pair.n - 5};
        if (stop == end)
            break;
        at = stop + 1;
    }
    if (!is_ascii(unique) || !is_ascii(words))
        return -1;
    uint32_t prefix = java_hash_on(java_hash(topic), (span){(const u8 *)"#", 1});
    int count = 0;
    if (unique.n)
        hashes[count++] = index_hash(prefix, unique);
    for (const u8 *at = words.p, *last = words.p + words.n; at < last;) {
        const u8 *stop = seek(at, last, ' ');
        if (stop > at) {
            if (count == INDEX_KEYS_LIMIT)
                return -1;
            hashes[count++] = index_hash(prefix, (span){at, stop - at});
        }
        if (stop == last)
            break;
        at = stop + 1;
    }
    return count;
}
