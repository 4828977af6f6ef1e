#include "answer.h"

#include "bytes.h"

#include <string.h>

#define RECORD_MAGIC 0xDAA320A7u
#define RECORD_FIXED 91
#define GLANCE_REACH 128

struct scan {
    const char *at;
    const char *end;
};

static inline void blanks(struct scan *scan)
{
    while (scan->at < scan->end && (unsigned char)*scan->at <= ' ') {
        scan->at++;
    }
}

static inline int take(struct scan *scan, char wanted)
{
    blanks(scan);
    if (scan->at >= scan->end || *scan->at != wanted) {
        return -1;
    }
    scan->at++;
    return 0;
}

/* A string, its escapes left alone: only their extent matters here. */
static inline int text(struct scan *scan, const char **value, size_t *size)
{
    if (take(scan, '"')) {
        return -1;
    }
    const char *from = scan->at;
    for (const char *at = from; at < scan->end; at++) {
        if (*at == '"') {
            scan->at = at + 1;
            *value = from;
            *size = (size_t)(at - from);
            return 0;
        }
        at += *at == '\\';
    }
    return -1;
}

static int number(const char *at, const char *end, long long *value)
{
    int negative = at < end && *at == '-';
    long long sum = 0;
    at += negative;
    if (at >= end || end - at > 18) {
        return -1;
    }
    for (; at < end; at++) {
        if (*at < '0' || *at > '9') {
            return -1;
        }
        sum = sum * 10 + (*at - '0');
    }
    *value = negative ? -sum : sum;
    return 0;
}

/* Any value; *value and *size give a string's inside or a scalar's text, an object or array is walked over. */
static int value_text(struct scan *scan, const char **value, size_t *size)
{
    blanks(scan);
    if (scan->at >= scan->end) {
        return -1;
    }
    if (*scan->at == '"') {
        return text(scan, value, size);
    }
    *value = scan->at;
    if (*scan->at == '{' || *scan->at == '[') {
        int depth = 0;
        do {
            if (scan->at >= scan->end) {
                return -1;
            }
            char here = *scan->at;
            if (here == '"') {
                const char *inner;
                size_t inner_size;
                if (text(scan, &inner, &inner_size)) {
                    return -1;
                }
                continue;
            }
            depth += (here == '{' || here == '[') - (here == '}' || here == ']');
            scan->at++;
        } while (depth > 0);
    } else {
        while (scan->at < scan->end && *scan->at != ',' && *scan->at != '}' && (unsigned char)*scan->at > ' ') {
            scan->at++;
        }
    }
    *size = (size_t)(scan->at - *value);
    return 0;
}

static inline int named(const char *name, size_t size, const char *wanted)
{
    return size == strlen(wanted) && memcmp(name, wanted, size) == 0;
}

static int ext_field(struct answer *answer, const char *name, size_t name_size, const char *value, size_t size)
{
    long long *into = NULL;
    if (named(name, name_size, "queueOffset")) {
        into = &answer->queue_offset;
    } else if (named(name, name_size, "nextBeginOffset")) {
        into = &answer->next_offset;
    } else if (named(name, name_size, "minOffset")) {
        into = &answer->min_offset;
    } else if (named(name, name_size, "maxOffset")) {
        into = &answer->max_offset;
    }
    return into == NULL ? 0 : number(value, value + size, into);
}

static int json_object(struct scan *scan, struct answer *answer, int ext);

static int json_member(struct scan *scan, struct answer *answer, int ext)
{
    const char *name;
    const char *value;
    size_t name_size;
    size_t size;
    long long found;
    if (text(scan, &name, &name_size) || take(scan, ':')) {
        return -1;
    }
    blanks(scan);
    if (!ext && named(name, name_size, "extFields") && scan->at < scan->end && *scan->at == '{') {
        return json_object(scan, answer, 1);
    }
    if (value_text(scan, &value, &size)) {
        return -1;
    }
    if (ext) {
        return ext_field(answer, name, name_size, value, size);
    }
    if (named(name, name_size, "code")) {
        if (number(value, value + size, &found)) {
            return -1;
        }
        answer->code = (int)found;
    } else if (named(name, name_size, "opaque")) {
        if (number(value, value + size, &found)) {
            return -1;
        }
        answer->opaque = (uint32_t)found;
        answer->has_opaque = 1;
    } else if (named(name, name_size, "flag")) {
        if (number(value, value + size, &found)) {
            return -1;
        }
        answer->is_response = (int)(found & 1);
    } else if (named(name, name_size, "remark") && value[-1] == '"') {
        answer->remark = value;
        answer->remark_size = size;
    }
    return 0;
}

static int json_object(struct scan *scan, struct answer *answer, int ext)
{
    if (take(scan, '{')) {
        return -1;
    }
    if (take(scan, '}') == 0) {
        return 0;
    }
    do {
        blanks(scan);
        if (json_member(scan, answer, ext)) {
            return -1;
        }
    } while (take(scan, ',') == 0);
    return take(scan, '}');
}

static int binary_header(const unsigned char *header, size_t size, struct answer *answer)
{
    if (size < 21) {
        return -1;
    }
    answer->code = (int16_t)(header[0] << 8 | header[1]);
    answer->opaque = load_u32(header + 5);
    answer->has_opaque = 1;
    answer->is_response = header[12] & 1;
    size_t remark_size = load_u32(header + 13);
    if (remark_size > size - 21) {
        return -1;
    }
    answer->remark = (const char *)header + 17;
    answer->remark_size = remark_size;
    const unsigned char *at = header + 17 + remark_size;
    const unsigned char *end = header + size;
    if (load_u32(at) != (size_t)(end - at) - 4) {
        return -1;
    }
    at += 4;
    while (at < end) {
        if (end - at < 2) {
            return -1;
        }
        size_t name_size = (size_t)(at[0] << 8 | at[1]);
        const char *name = (const char *)at + 2;
        if ((size_t)(end - at) < 6 + name_size) {
            return -1;
        }
        at += 2 + name_size;
        size_t value_size = load_u32(at);
        at += 4;
        if ((size_t)(end - at) < value_size || ext_field(answer, name, name_size, (const char *)at, value_size)) {
            return -1;
        }
        at += value_size;
    }
    return 0;
}

/*
 * The common answer, JSON with code 0 in front, without reading what lies between: its opaque is looked for from the
 * end. An opening quote, the name, a closing quote and a colon cannot stand inside a string, where quotes are escaped.
 */
int answer_glance(const unsigned char *frame, size_t size, uint32_t *opaque)
{
    static const char front[] = "{\"code\":0,";
    static const char name[] = "\"opaque\":";
    const size_t front_size = sizeof front - 1;
    const size_t name_size = sizeof name - 1;
    if (size < 4 + front_size + name_size || frame[0] != 0 || load_u32(frame) != size - 4 ||
        memcmp(frame + 4, front, front_size) != 0) {
        return -1;
    }
    const unsigned char *end = frame + size;
    const unsigned char *least = frame + 4 + front_size;
    if (end - least > GLANCE_REACH) {
        least = end - GLANCE_REACH;
    }
    for (const unsigned char *at = end - name_size; at >= least; at--) {
        if (*at == '"' && memcmp(at, name, name_size) == 0) {
            uint32_t value = 0;
            const unsigned char *from = at + name_size;
            for (at = from; at < end && *at >= '0' && *at <= '9'; at++) {
                value = value * 10 + (uint32_t)(*at - '0');
            }
            *opaque = value;
            return at > from && at - from <= 10 && at < end && (*at == ',' || *at == '}') ? 0 : -1;
        }
    }
    return -1;
}

const char *answer_parse(const unsigned char *frame, size_t size, struct answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->code = -1;
    answer->queue_offset = answer->next_offset = answer->min_offset = answer->max_offset = -1;
    if (size < 4) {
        return "frame shorter than its header word";
    }
    size_t header_size = load_u32(frame) & 0xFFFFFFu;
    if (header_size > size - 4) {
        return "header longer than its frame";
    }
    const unsigned char *header = frame + 4;
    answer->body = header + header_size;
    answer->body_size = size - 4 - header_size;
    if (frame[0] == 0) {
        struct scan scan = {(const char *)header, (const char *)header + header_size};
        if (json_object(&scan, answer, 0)) {
            return "JSON header cannot be read";
        }
    } else if (frame[0] == 1) {
        if (binary_header(header, header_size, answer)) {
            return "binary header cannot be read";
        }
    } else {
        return "unknown serialize type";
    }
    return NULL;
}

int records_check(const unsigned char *body, size_t size, int queue, long long offset)
{
    int count = 0;
    while (size > 0) {
        if (size < RECORD_FIXED) {
            return -1;
        }
        uint32_t record = load_u32(body);
        if (record < RECORD_FIXED || record > size || load_u32(body + 4) != RECORD_MAGIC ||
            load_u32(body + 12) != (uint32_t)queue || load_i64(body + 20) != offset + count) {
            return -1;
        }
        body += record;
        size -= record;
        count++;
    }
    return count;
}
