#include "properties.h"

#include "layout.h"

enum { KEYS_LIMIT = 64, CROWD = 8 };

typedef struct {
    span pair, name;
    uint32_t bucket;
} property;

static int is_true(span s)
{
    return s.n == 4 && (s.p[0] | 32) == 't' && (s.p[1] | 32) == 'r' && (s.p[2] | 32) == 'u' && (s.p[3] | 32) == 'e';
}

static int64_t signed_hash(span s)
{
    return (int32_t)java_hash(s);
}

static int is_special(const special_names *special, span name)
{
    for (int i = 0; i < special->count; i++)
        if (same(name, special->names[i].p, special->names[i].n))
            return 1;
    return 0;
}

static int too_many_keys(span keys)
{
    int blanks = 0;
    for (int64_t i = 0; i < keys.n; i++)
        blanks += keys.p[i] == ' ';
    return blanks >= KEYS_LIMIT;
}

/* Cut text into pairs; return how many, -1 where one of them is out of the ordinary. */
static int cut(span text, property *found, int limit)
{
    int count = 0;
    const u8 *p = text.p, *end = text.p + text.n;
    while (p < end) {
        const u8 *stop = seek(p, end, PAIR_END), *middle = seek(p, stop, NAME_END);
        if (count == limit || middle == p || stop - middle < 2 || seek(middle + 1, stop, NAME_END) != stop)
            return -1;
        property *one = &found[count];
        one->pair = (span){p, stop - p};
        one->name = (span){p, middle - p};
        if (!is_ascii(one->name))
            return -1;
        for (int i = 0; i < count; i++)
            if (same(one->name, found[i].name.p, found[i].name.n))
                return -1;
        count++;
        if (stop == end)
            break;
        p = stop + 1;
    }
    return count;
}

/*
 * Put properties in the order in which a hash map that took them one by one gives them out; 0: no usual map.
 *
 * Its table has 16 buckets, 32 above 12 names; a crowded bucket would make it grow before.
 */
static int sort(property *all, int count)
{
    int crowd[16] = {0};
    uint32_t mask = count > 12 ? 31 : 15;
    for (int i = 0; i < count; i++) {
        uint32_t hash = java_hash(all[i].name);
        hash ^= hash >> 16;
        if (++crowd[hash & 15] >= CROWD)
            return 0;
        all[i].bucket = hash & mask;
    }
    for (int i = 1; i < count; i++) {
        property one = all[i];
        int at = i;
        for (; at > 0 && all[at - 1].bucket > one.bucket; at--)
            all[at] = all[at - 1];
        all[at] = one;
    }
    return 1;
}

int store_properties(span text, const added_property *added, const special_names *special, int drop_wait, u8 *out,
                     int64_t *size, int64_t *tag_code, int *tagged, int *wait)
{
    property all[NAMES_LIMIT];
    int count, dropped = -1;
    *tag_code = 0;
    *tagged = 0;
    *wait = 1;
    if (text.n > PROPERTIES_LIMIT || seek(text.p, text.p + text.n, 0) != text.p + text.n)
        return 0;
    if (holds(text, "__CRC32#\001", 9))
        return 0;
    count = cut(text, all, NAMES_LIMIT - 1);
    if (count < 0)
        return 0;
    for (int i = 0; i < count; i++) {
        span name = all[i].name, value = {name.p + name.n + 1, all[i].pair.n - name.n - 1};
        if (is_special(special, name) || same(name, added->pair.p, added->name_size))
            return 0;
        if (IS(name, "TAGS")) {
            if (!is_ascii(value))
                return 0;
            *tagged = 1;
            *tag_code = signed_hash(value);
        } else if (IS(name, "WAIT")) {
            *wait = is_true(value);
        } else if (IS(name, "KEYS") && too_many_keys(value)) {
            return 0;
        }
    }
    all[count].pair = added->pair;
    all[count].name = (span){added->pair.p, added->name_size};
    count++;
    if (!sort(all, count))
        return 0;
    for (int i = 0; drop_wait && i < count; i++)
        if (IS(all[i].name, "WAIT"))
            dropped = i;
    u8 *o = out;
    for (int i = 0; i < count; i++) {
        if (i == dropped)
            continue;
        if (o != out)
            *o++ = PAIR_END;
        o = put_span(o, all[i].pair);
    }
    *size = o - out;
    return *size <= PROPERTIES_LIMIT;
}

int stored_tag_code(span stored, int64_t *tag_code)
{
    span value;
    const u8 *p = stored.p, *end = stored.p + stored.n;
    int found = 0;
    *tag_code = 0;
    while (p < end) {
        const u8 *stop = seek(p, end, PAIR_END);
        if (stop - p >= 5 && memcmp(p, "TAGS\001", 5) == 0) {
            value = (span){p + 5, stop - p - 5};
            if (found || !value.n || !is_ascii(value))
                return 0;
            found = 1;
            *tag_code = signed_hash(value);
        }
        if (stop == end)
            break;
        p = stop + 1;
    }
    return 1;
}
