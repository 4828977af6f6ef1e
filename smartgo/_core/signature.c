#include "signature.h"

enum { BASE64_SIZE = 28 };

#define ACCESS_SIGNATURE "Signature"
#define ADDED_LATER "_UNIQUE_KEY_QUERY"

static void first_block(uint32_t *h, const u8 *secret, u8 pad)
{
    u8 block[SHA1_BLOCK];
    sha1 s;
    sha1_init(&s);
    for (int i = 0; i < SHA1_BLOCK; i++)
        block[i] = secret[i] ^ pad;
    sha1_blocks(s.h, block, 1);
    memcpy(h, s.h, sizeof s.h);
}

void signing_key_of(signing_key *key, span secret)
{
    u8 whole[SHA1_BLOCK] = {0};
    if (secret.n > SHA1_BLOCK) {
        sha1 s;
        sha1_init(&s);
        sha1_add(&s, secret);
        sha1_end(&s, whole);
    } else {
        put_span(whole, secret);
    }
    first_block(key->inner, whole, 0x36);
    first_block(key->outer, whole, 0x5C);
}

static void begin(sha1 *s, const uint32_t *h)
{
    memcpy(s->h, h, sizeof s->h);
    s->size = SHA1_BLOCK;
}

static void end(sha1 *s, const signing_key *key, u8 *digest)
{
    u8 inner[SHA1_DIGEST];
    sha1_end(s, inner);
    begin(s, key->outer);
    sha1_add(s, (span){inner, SHA1_DIGEST});
    sha1_end(s, digest);
}

void sign_parts(const signing_key *key, const span *parts, int64_t count, u8 *digest)
{
    sha1 s;
    begin(&s, key->inner);
    for (int64_t i = 0; i < count; i++)
        sha1_add(&s, parts[i]);
    end(&s, key, digest);
}

span field_named(const ext_fields *fields, const char *name)
{
    int64_t n = (int64_t)strlen(name);
    for (int i = 0; i < fields->count; i++)
        if (same(fields->at[i].name, name, n))
            return fields->at[i].value;
    return (span){NULL, -1};
}

static void write_base64(u8 *o, const u8 *digest)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    u8 padded[SHA1_DIGEST + 1] = {0};
    memcpy(padded, digest, SHA1_DIGEST);
    for (const u8 *p = padded; p < padded + sizeof padded; p += 3) {
        uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        for (int by = 18; by >= 0; by -= 6)
            *o++ = (u8)digits[v >> by & 63];
    }
    o[-1] = '=';
}

int is_signed(const ext_fields *fields, span body, const signing_key *key)
{
    span said = {NULL, -1}, parts[FIELDS_LIMIT + 1];
    int64_t count = 0;
    for (int i = 0; i < fields->count; i++) {
        const ext_field *one = &fields->at[i];
        if (IS(one->name, ACCESS_SIGNATURE))
            said = one->value;
        else if (IS(one->name, ADDED_LATER))
            return 0;
        else
            parts[count++] = one->value;
    }
    if (said.n != BASE64_SIZE)
        return 0;
    parts[count++] = body;
    u8 digest[SHA1_DIGEST], right[BASE64_SIZE], differs = 0;
    sign_parts(key, parts, count, digest);
    write_base64(right, digest);
    for (int i = 0; i < BASE64_SIZE; i++)
        differs |= (u8)(said.p[i] ^ right[i]);
    return !differs;
}
