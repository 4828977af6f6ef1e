/* The signature of a request: see smartgo.schema.signature. */
#ifndef SMARTGO_SIGNATURE_H
#define SMARTGO_SIGNATURE_H

#include "header.h"
#include "sha1.h"

/* A secret, as HMAC-SHA1 begins with it: the states behind the first block of the inner and of the outer hash. */
typedef struct {
    uint32_t inner[5], outer[5];
} signing_key;

void signing_key_of(signing_key *key, span secret);

/* HMAC-SHA1 of some parts in a row. */
void sign_parts(const signing_key *key, const span *parts, int64_t count, u8 *digest);

/* The value of a field; n is -1 where there is none. */
span field_named(const ext_fields *fields, const char *name);

/*
 * Whether the field Signature is that of all other fields and the body under a key.
 *
 * How long it takes does not depend on what is wrong. Not understood, and so 0, is a request to which a client has added
 * a field after it was signed.
 */
int is_signed(const ext_fields *fields, span body, const signing_key *key);

#endif
