#include "sendheader.h"

enum { FIELDS_LIMIT = 64 };

/* One bit a field; the required ones are the first eight. */
enum {
    GROUP = 1,
    TOPIC = 2,
    TEMPLATE = 4,
    TEMPLATE_QUEUES = 8,
    QUEUE_ID = 16,
    SYS_FLAG = 32,
    BORN = 64,
    FLAG = 128,
    REQUIRED = 255,
    PROPERTIES = 256,
    RECONSUMED = 512,
    MAX_RECONSUMED = 1024,
};

#define INT32_LOW (-2147483648LL)
#define INT32_HIGH 2147483647LL

/* A number as the ext fields have it: an optional sign and ASCII digits, leading zeros too. */
static int number(span s, int64_t low, int64_t high, int64_t *value)
{
    const u8 *p = s.p, *end = s.p + s.n;
    int negative = p < end && *p == '-';
    p += negative;
    if (p == end || end - p > 18)
        return 0;
    int64_t v = 0;
    for (; p < end; p++) {
        unsigned digit = (unsigned)*p - '0';
        if (digit > 9)
            return 0;
        v = v * 10 + digit;
    }
    if (negative)
        v = -v;
    if (v < low || v > high)
        return 0;
    *value = v;
    return 1;
}

static unsigned field_of_letter(u8 letter)
{
    switch (letter) {
    case 'a': return GROUP;
    case 'b': return TOPIC;
    case 'c': return TEMPLATE;
    case 'd': return TEMPLATE_QUEUES;
    case 'e': return QUEUE_ID;
    case 'f': return SYS_FLAG;
    case 'g': return BORN;
    case 'h': return FLAG;
    case 'i': return PROPERTIES;
    case 'j': return RECONSUMED;
    case 'l': return MAX_RECONSUMED;
    default: return 0;
    }
}

static unsigned field_of_name(span name)
{
    switch (name.n) {
    case 4: return IS(name, "flag") ? FLAG : 0;
    case 5: return IS(name, "topic") ? TOPIC : 0;
    case 7: return IS(name, "queueId") ? QUEUE_ID : IS(name, "sysFlag") ? SYS_FLAG : 0;
    case 10: return IS(name, "properties") ? PROPERTIES : 0;
    case 12: return IS(name, "defaultTopic") ? TEMPLATE : 0;
    case 13: return IS(name, "producerGroup") ? GROUP : IS(name, "bornTimestamp") ? BORN : 0;
    case 14: return IS(name, "reconsumeTimes") ? RECONSUMED : 0;
    case 17: return IS(name, "maxReconsumeTimes") ? MAX_RECONSUMED : 0;
    case 21: return IS(name, "defaultTopicQueueNums") ? TEMPLATE_QUEUES : 0;
    default: return 0;
    }
}

/* Take one ext field; 0: not understood. Fields of other names mean nothing to a send. */
static int take_field(send_request *r, span name, span value)
{
    int64_t unused;
    unsigned field = r->code == SEND ? field_of_name(name) : name.n == 1 ? field_of_letter(name.p[0]) : 0;
    if (!field)
        return 1;
    if (r->seen & field)
        return 0;
    r->seen |= field;
    switch (field) {
    case TOPIC: r->topic = value; return 1;
    case PROPERTIES: r->properties = value; return 1;
    case QUEUE_ID: return number(value, INT32_LOW, INT32_HIGH, &r->queue_id);
    case SYS_FLAG: return number(value, INT32_LOW, INT32_HIGH, &r->sys_flag);
    case BORN: return number(value, INT64_MIN, INT64_MAX, &r->born_ms);
    case FLAG: return number(value, INT32_LOW, INT32_HIGH, &r->message_flag);
    case RECONSUMED: return number(value, INT32_LOW, INT32_HIGH, &r->reconsumed);
    case TEMPLATE_QUEUES:
    case MAX_RECONSUMED: return number(value, INT32_LOW, INT32_HIGH, &unused);
    default: return 1;
    }
}

static int is_utf8(span s)
{
    const u8 *p = s.p, *end = s.p + s.n;
    while (p < end) {
        u8 c = *p;
        int more;
        if (c < 0x80) {
            p++;
            continue;
        }
        if (c < 0xC2 || c > 0xF4)
            return 0;
        more = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
        if (end - p <= more)
            return 0;
        for (int i = 1; i <= more; i++)
            if ((p[i] & 0xC0) != 0x80)
                return 0;
        if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F)) /* too long; a surrogate */
            return 0;
        if ((c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F)) /* too long; above U+10FFFF */
            return 0;
        p += 1 + more;
    }
    return 1;
}

/* -- JSON ------------------------------------------------------------------------------------------------------- */

typedef struct {
    const u8 *p, *end;
    u8 *out; /* where the next text with escapes goes */
} text;

static void skip_blanks(text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n' || *t->p == '\t' || *t->p == '\r'))
        t->p++;
}

/* Skip blanks, then one character. */
static int expect(text *t, u8 c)
{
    skip_blanks(t);
    if (t->p >= t->end || *t->p != c)
        return 0;
    t->p++;
    return 1;
}

static int hex4(const u8 *p, unsigned *value)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        unsigned c = p[i], low = c | 32;
        if (c >= '0' && c <= '9')
            v = v << 4 | (c - '0');
        else if (low >= 'a' && low <= 'f')
            v = v << 4 | (low - 'a' + 10);
        else
            return 0;
    }
    *value = v;
    return 1;
}

/* What one escape stands for, from behind the backslash on; surrogates are not taken. */
static int unescape(text *t)
{
    unsigned v;
    if (t->p >= t->end)
        return 0;
    switch (*t->p++) {
    case '"': *t->out++ = '"'; return 1;
    case '\\': *t->out++ = '\\'; return 1;
    case '/': *t->out++ = '/'; return 1;
    case 'b': *t->out++ = '\b'; return 1;
    case 'f': *t->out++ = '\f'; return 1;
    case 'n': *t->out++ = '\n'; return 1;
    case 'r': *t->out++ = '\r'; return 1;
    case 't': *t->out++ = '\t'; return 1;
    case 'u':
        if (t->end - t->p < 4 || !hex4(t->p, &v) || (v >= 0xD800 && v < 0xE000))
            return 0;
        t->p += 4;
        if (v < 0x80) {
            *t->out++ = (u8)v;
        } else if (v < 0x800) {
            *t->out++ = (u8)(0xC0 | v >> 6);
            *t->out++ = (u8)(0x80 | (v & 63));
        } else {
            *t->out++ = (u8)(0xE0 | v >> 12);
            *t->out++ = (u8)(0x80 | (v >> 6 & 63));
            *t->out++ = (u8)(0x80 | (v & 63));
        }
        return 1;
    default: return 0;
    }
}

/* A string, with blanks before it. Its text stays where it is unless it has escapes; unescaped it is never longer. */
static int string(text *t, span *found)
{
    if (!expect(t, '"'))
        return 0;
    const u8 *begin = t->p, *p = begin, *end = t->end;
    u8 high = 0;
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20)
        high |= *p++;
    if (p >= end || *p < 0x20)
        return 0;
    found->p = begin;
    found->n = p - begin;
    if (*p == '\\') {
        u8 *first = t->out;
        memcpy(first, begin, (size_t)(p - begin));
        t->out += p - begin;
        t->p = p;
        for (;;) {
            if (t->p >= end || *t->p < 0x20)
                return 0;
            u8 c = *t->p;
            if (c == '"')
                break;
            t->p++;
            if (c != '\\') {
                high |= c;
                *t->out++ = c;
            } else if (!unescape(t)) {
                return 0;
            }
        }
        p = t->p;
        found->p = first;
        found->n = t->out - first;
    }
    t->p = p + 1;
    return high < 0x80 || is_utf8(*found);
}

/* A number of 32 bits, with blanks before it; no fraction, no exponent, no leading zero, no minus zero. */
static int integer(text *t, int64_t *value)
{
    skip_blanks(t);
    const u8 *begin = t->p, *p = begin, *end = t->end;
    if (p < end && *p == '-')
        p++;
    const u8 *first = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    if (p == first || (*first == '0' && p - begin > 1))
        return 0;
    if (p < end && (*p == '.' || *p == 'e' || *p == 'E'))
        return 0;
    t->p = p;
    return number((span){begin, p - begin}, INT32_LOW, INT32_HIGH, value);
}

/* Behind a member: 1 where another follows, 0 at the end of the object, -1 where neither. */
static int another(text *t)
{
    skip_blanks(t);
    if (t->p >= t->end || (*t->p != ',' && *t->p != '}'))
        return -1;
    return *t->p++ == ',';
}

static int read_fields(text *t, send_request *r)
{
    span name, value;
    int more = 1;
    if (!expect(t, '{'))
        return 0;
    for (int count = 0; more == 1; count++) {
        if (count == FIELDS_LIMIT || !string(t, &name) || !expect(t, ':') || !string(t, &value))
            return 0;
        if (!take_field(r, name, value))
            return 0;
        more = another(t);
    }
    return more == 0;
}

static int is_send(int64_t code)
{
    return code == SEND || code == SEND_V2 || code == SEND_BATCH;
}

/* The code must stand before the fields: it says which names they have. */
static int read_json(send_request *r, span header, u8 *scratch)
{
    enum { CODE = 1, FIELDS = 2, OPAQUE = 4, FLAGS = 8, VERSION = 16, LANGUAGE = 32, REMARK = 64, KIND = 128 };
    text t = {header.p, header.p + header.n, scratch};
    span name, unused;
    int64_t ignored;
    int seen = 0, member, more = 1;
    if (!expect(&t, '{'))
        return 0;
    while (more == 1) {
        if (!string(&t, &name) || !expect(&t, ':'))
            return 0;
        if (IS(name, "code")) {
            member = CODE;
            if (!integer(&t, &r->code) || !is_send(r->code))
                return 0;
        } else if (IS(name, "extFields")) {
            member = FIELDS;
            if (!(seen & CODE) || !read_fields(&t, r))
                return 0;
        } else if (IS(name, "opaque")) {
            member = OPAQUE;
            if (!integer(&t, &r->opaque))
                return 0;
        } else if (IS(name, "flag")) {
            member = FLAGS;
            if (!integer(&t, &r->flag))
                return 0;
        } else if (IS(name, "version")) {
            member = VERSION;
            if (!integer(&t, &ignored))
                return 0;
        } else {
            member = IS(name, "language") ? LANGUAGE
                : IS(name, "remark")      ? REMARK
                : IS(name, "serializeTypeCurrentRPC") ? KIND
                                                      : 0;
            if (!member || !string(&t, &unused))
                return 0;
        }
        if (seen & member)
            return 0;
        seen |= member;
        more = another(&t);
    }
    skip_blanks(&t);
    return more == 0 && t.p == t.end && seen & FIELDS;
}

/* -- binary ------------------------------------------------------------------------------------------------------- */

static int read_binary(send_request *r, span header)
{
    enum { HEAD = 21 };
    const u8 *p = header.p;
    if (header.n < HEAD)
        return 0;
    r->code = (int16_t)get16(p);
    r->opaque = (int32_t)get32(p + 5);
    r->flag = (int32_t)get32(p + 9);
    if (!is_send(r->code) || get32(p + 13) != 0) /* with a remark */
        return 0;
    if ((int64_t)get32(p + 17) != header.n - HEAD)
        return 0;
    const u8 *end = p + header.n;
    p += HEAD;
    for (int count = 0; p < end; count++) {
        span name, value;
        if (count == FIELDS_LIMIT || end - p < 2)
            return 0;
        name.n = get16(p);
        name.p = p + 2;
        if (name.n > 0x7FFF || end - name.p < name.n + 4)
            return 0;
        value.n = get32(name.p + name.n);
        value.p = name.p + name.n + 4;
        if (value.n > end - value.p)
            return 0;
        p = value.p + value.n;
        if (!is_ascii(name) || !is_utf8(value) || !take_field(r, name, value))
            return 0;
    }
    return 1;
}

int read_send(send_request *r, const u8 *frame, int64_t size, u8 *scratch)
{
    if (size < 4)
        return 0;
    uint32_t word = get32(frame);
    span header = {frame + 4, word & 0xFFFFFF};
    if (header.n > size - 4 || header.n > HEADER_LIMIT)
        return 0;
    memset(r, 0, sizeof *r);
    r->properties.p = header.p; /* none yet */
    r->encoding = (int)(word >> 24);
    if (r->encoding == JSON ? !read_json(r, header, scratch) : r->encoding != BINARY || !read_binary(r, header))
        return 0;
    r->body.p = header.p + header.n;
    r->body.n = size - 4 - header.n;
    return (r->seen & REQUIRED) == REQUIRED && (r->flag == 0 || r->flag == ONE_WAY);
}

static int begins(const u8 *p, int64_t n, const char *word, int64_t size)
{
    return n >= size && memcmp(p, word, (size_t)size) == 0;
}

#define BEGINS(p, n, literal) begins((p), (n), (literal), (int64_t)sizeof(literal) - 1)

int may_be_send(const u8 *frame, int64_t size)
{
    enum { CODE_AT = 12 };
    if (size < 6)
        return 0;
    if (frame[0] == BINARY)
        return is_send((int16_t)get16(frame + 4));
    if (frame[0] != JSON)
        return 0;
    if (!BEGINS(frame + 4, size - 4, "{\"code\":"))
        return 1; /* the code comes later */
    const u8 *code = frame + CODE_AT;
    int64_t n = size - CODE_AT;
    return BEGINS(code, n, "310,") || BEGINS(code, n, "320,") || BEGINS(code, n, "10,");
}
