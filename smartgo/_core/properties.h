/* A message's properties: from what a client sent to what is stored. */
#ifndef SMARTGO_PROPERTIES_H
#define SMARTGO_PROPERTIES_H

#include "bytes.h"

enum { PROPERTIES_LIMIT = 32767, NAMES_LIMIT = 24 };

/* The one property that is put into every message: NAME 0x01 VALUE. */
typedef struct {
    span pair;
    int64_t name_size;
} added_property;

/* Names that make a message one that is not plain. */
typedef struct {
    const span *names;
    int count;
} special_names;

/*
 * Write properties in stored form: one is added, WAIT dropped where asked for, in the order of a Java hash map.
 *
 * out has room for text.n + added.pair.n + 1 bytes.
 * tag_code: the Java hash of TAGS, 0 without it. tagged: whether there is TAGS. wait: whether the client waits.
 * Return 1, or 0 where the text is out of the ordinary.
 */
int store_properties(span text, const added_property *added, const special_names *special, int drop_wait, u8 *out,
                     int64_t *size, int64_t *tag_code, int *tagged, int *wait);

/* The tag code of properties in stored form; 0: out of the ordinary. */
int stored_tag_code(span stored, int64_t *tag_code);

#endif
