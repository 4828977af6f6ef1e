#include "header.h"

int read_number(span s, int64_t low, int64_t high, int64_t *value)
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
    return read_number((span){begin, p - begin}, INT32_LOW, INT32_HIGH, value);
}

/* Behind a member: 1 where another follows, 0 at the end of the object, -1 where neither. */
static int another(text *t)
{
    skip_blanks(t);
    if (t->p >= t->end || (*t->p != ',' && *t->p != '}'))
        return -1;
    return *t->p++ == ',';
}

/* What is known while a header is read. */
typedef struct {
    command *c;
    const header_reader *reader;
    void *request;
    ext_fields *fields; /* NULL: nobody wants all of them */
} reading;

static int is_before(span a, span b)
{
    int64_t n = a.n < b.n ? a.n : b.n;
    int differs = n ? memcmp(a.p, b.p, (size_t)n) : 0;
    return differs ? differs < 0 : a.n < b.n;
}

/* Take one ext field; 0: not understood. The order of bytes in UTF-8 is that of the characters. */
static int take_one(const reading *r, span name, span value)
{
    ext_fields *f = r->fields;
    if (!r->reader->take_field(r->request, r->c->code, name, value))
        return 0;
    if (!f)
        return 1;
    int at = f->count;
    if (at == FIELDS_LIMIT)
        return 0;
    while (at > 0 && is_before(name, f->at[at - 1].name))
        at--;
    if (at > 0 && !is_before(f->at[at - 1].name, name)) /* the same name */
        return 0;
    memmove(f->at + at + 1, f->at + at, (size_t)(f->count - at) * sizeof *f->at);
    f->at[at] = (ext_field){name, value};
    f->count++;
    return 1;
}

static int read_fields(text *t, const reading *r)
{
    span name, value;
    int more = 1;
    if (!expect(t, '{'))
        return 0;
    for (int count = 0; more == 1; count++) {
        if (count == FIELDS_LIMIT || !string(t, &name) || !expect(t, ':') || !string(t, &value))
            return 0;
        if (!take_one(r, name, value))
            return 0;
        more = another(t);
    }
    return more == 0;
}

/* The code must stand before the fields: it says which names they have. */
static int read_json(const reading *r, span header, u8 *scratch)
{
    enum { CODE = 1, FIELDS = 2, OPAQUE = 4, FLAGS = 8, VERSION = 16, LANGUAGE = 32, REMARK = 64, KIND = 128 };
    command *c = r->c;
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
            if (!integer(&t, &c->code) || !r->reader->has_code(c->code))
                return 0;
        } else if (IS(name, "extFields")) {
            member = FIELDS;
            if (!(seen & CODE) || !read_fields(&t, r))
                return 0;
        } else if (IS(name, "opaque")) {
            member = OPAQUE;
            if (!integer(&t, &c->opaque))
                return 0;
        } else if (IS(name, "flag")) {
            member = FLAGS;
            if (!integer(&t, &c->flag))
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

static int read_binary(const reading *r, span header)
{
    enum { HEAD = 21 };
    command *c = r->c;
    const u8 *p = header.p;
    if (header.n < HEAD)
        return 0;
    c->code = (int16_t)get16(p);
    c->opaque = (int32_t)get32(p + 5);
    c->flag = (int32_t)get32(p + 9);
    if (!r->reader->has_code(c->code) || get32(p + 13) != 0) /* with a remark */
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
        if (!is_ascii(name) || !is_utf8(value) || !take_one(r, name, value))
            return 0;
    }
    return 1;
}

int read_command(command *c, const u8 *frame, int64_t size, u8 *scratch, const header_reader *reader, void *request,
                 ext_fields *fields)
{
    if (size < 4)
        return 0;
    reading r = {c, reader, request, fields};
    if (fields)
        fields->count = 0;
    uint32_t word = get32(frame);
    span header = {frame + 4, word & 0xFFFFFF};
    if (header.n > size - 4 || header.n > HEADER_LIMIT)
        return 0;
    memset(c, 0, sizeof *c);
    c->encoding = (int)(word >> 24);
    c->body.p = header.p + header.n;
    c->body.n = size - 4 - header.n;
    return c->encoding == JSON ? read_json(&r, header, scratch) : c->encoding == BINARY && read_binary(&r, header);
}

int64_t early_code(const u8 *frame, int64_t size)
{
    static const char begin[] = "{\"code\":";
    enum { CODE_AT = 4 + sizeof begin - 1, DIGITS = 6 };
    int64_t code = 0;
    if (size < 6)
        return CODE_NONE;
    if (frame[0] == BINARY)
        return get16(frame + 4);
    if (frame[0] != JSON)
        return CODE_NONE;
    if (size < CODE_AT || memcmp(frame + 4, begin, sizeof begin - 1) != 0)
        return CODE_LATER;
    for (const u8 *p = frame + CODE_AT; p < frame + size && p < frame + CODE_AT + DIGITS; p++) {
        if (*p == ',' && p > frame + CODE_AT)
            return code;
        if (*p < '0' || *p > '9')
            break;
        code = code * 10 + (*p - '0');
    }
    return CODE_NONE;
}
