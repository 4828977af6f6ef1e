#include "request.h"

#include "bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VERSION_WORD 409
#define KEY_DIGITS 32
#define ITEM_HEAD 20 /* size, magic, CRC, flag, body length */

static const char HEX[] = "0123456789ABCDEF";

static size_t digits(unsigned char *out, unsigned long long value)
{
    unsigned char reversed[20];
    size_t size = 0;
    do {
        reversed[size++] = (unsigned char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    for (size_t i = 0; i < size; i++) {
        out[i] = reversed[size - 1 - i];
    }
    return size;
}

/* ---- UNIQ_KEY: address (8 digits), pid (4), loader hash (8), ms since the month began (8), counter (4) ---- */

void stamp_set(struct stamp *stamp, int64_t wall_ms)
{
    static int64_t month_ms;
    static int64_t month_end_ms;
    if (wall_ms >= month_end_ms) {
        time_t now = (time_t)(wall_ms / 1000);
        struct tm date;
        localtime_r(&now, &date);
        date.tm_mday = 1;
        date.tm_hour = date.tm_min = date.tm_sec = 0;
        date.tm_isdst = -1;
        month_ms = (int64_t)mktime(&date) * 1000;
        date.tm_mon += 1;
        date.tm_isdst = -1;
        month_end_ms = (int64_t)mktime(&date) * 1000;
    }
    snprintf(stamp->born, sizeof stamp->born, "%013lld", (long long)wall_ms);
    snprintf(stamp->time, sizeof stamp->time, "%08X", (unsigned)(wall_ms - month_ms));
}

static void key_start(char *key)
{
    snprintf(key, KEY_DIGITS + 1, "7F000001%04X05FFD2B2%08X%04X", (unsigned)getpid() & 0xFFFFu, 0u, 0u);
}

static void key_patch(unsigned char *key, struct stamp *stamp)
{
    uint32_t counter = stamp->counter++;
    memcpy(key + 20, stamp->time, 8);
    key[28] = (unsigned char)HEX[counter >> 12 & 15];
    key[29] = (unsigned char)HEX[counter >> 8 & 15];
    key[30] = (unsigned char)HEX[counter >> 4 & 15];
    key[31] = (unsigned char)HEX[counter & 15];
}

/* ---- templates ---- */

static int append(struct template *made, const void *data, size_t size)
{
    if (made->head_size + size > sizeof made->head) {
        return -1;
    }
    memcpy(made->head + made->head_size, data, size);
    made->head_size += size;
    return 0;
}

__attribute__((format(printf, 2, 3))) static int append_text(struct template *made, const char *format, ...)
{
    size_t room = sizeof made->head - made->head_size;
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf((char *)made->head + made->head_size, room, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= room) {
        return -1;
    }
    made->head_size += (size_t)size;
    return 0;
}

/* The 8 bytes of both length words, and for a binary header its 21 fixed bytes. */
static void start(struct template *made, int code, int binary)
{
    memset(made, 0, sizeof *made);
    made->binary = binary;
    made->head_size = 8;
    if (binary) {
        unsigned char *fixed = made->head + 8;
        store_u16(fixed, (unsigned)code);
        fixed[2] = 0; /* JAVA */
        store_u16(fixed + 3, VERSION_WORD);
        made->head_size += 21; /* opaque at 5, flag at 9, remark length at 13, ext length at 17 */
    }
}

static int field(struct template *made, const char *name, const char *value)
{
    unsigned char sizes[4];
    store_u16(sizes, (unsigned)strlen(name));
    if (append(made, sizes, 2) || append(made, name, strlen(name))) {
        return -1;
    }
    store_u32(sizes, (uint32_t)strlen(value));
    return append(made, sizes, 4) || append(made, value, strlen(value)) ? -1 : 0;
}

static size_t find(const struct template *made, const char *text)
{
    const unsigned char *at = memmem(made->head, made->head_size, text, strlen(text));
    return at == NULL ? 0 : (size_t)(at - made->head);
}

static void json_tail(struct template *made)
{
    made->tail_size = (size_t)snprintf(made->tail, sizeof made->tail,
                                       ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":%d}", VERSION_WORD);
}

int template_send(struct template *made, int code, int binary, const char *topic, int queue, const char *group,
                  const char *tag, const char *broker)
{
    static const char born[] = "1000000000000";
    int batch = code == CODE_SEND_BATCH;
    char key[KEY_DIGITS + 1];
    char number[16];
    key_start(key);
    snprintf(number, sizeof number, "%d", queue);
    start(made, code, binary);
    if (binary) {
        char properties[256];
        if (batch) {
            snprintf(properties, sizeof properties, "WAIT\001true");
        } else {
            int size = snprintf(properties, sizeof properties, "UNIQ_KEY\001%s\002WAIT\001true\002TAGS\001%s", key, tag);
            if (size < 0 || (size_t)size >= sizeof properties) {
                return -1;
            }
        }
        const char *fields[][2] = {{"a", group},  {"b", topic}, {"c", "TBW102"}, {"d", "4"},     {"e", number},
                                   {"f", "0"},    {"g", born},  {"h", "0"},      {"i", properties}, {"j", "0"},
                                   {"k", "false"}, {"l", "0"},  {"m", batch ? "true" : "false"}, {"n", broker}};
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            if (field(made, fields[i][0], fields[i][1])) {
                return -1;
            }
        }
        store_u32(made->head + 8 + 17, (uint32_t)(made->head_size - 8 - 21));
    } else {
        int bad = append_text(made,
                              "{\"code\":%d,\"extFields\":{\"a\":\"%s\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"4\","
                              "\"e\":\"%s\",\"f\":\"0\",\"g\":\"%s\",\"h\":\"0\",\"i\":\"",
                              code, group, topic, number, born);
        if (batch) {
            bad |= append_text(made, "WAIT\\u0001true");
        } else {
            bad |= append_text(made, "UNIQ_KEY\\u0001%s\\u0002WAIT\\u0001true\\u0002TAGS\\u0001%s", key, tag);
        }
        bad |= append_text(made,
                           "\",\"j\":\"0\",\"k\":\"false\",\"l\":\"0\",\"m\":\"%s\",\"n\":\"%s\"},\"flag\":0,"
                           "\"language\":\"JAVA\",\"opaque\":",
                           batch ? "true" : "false", broker);
        if (bad) {
            return -1;
        }
        json_tail(made);
    }
    made->born_at = find(made, born);
    made->key_at = batch ? 0 : find(made, key);
    return made->born_at != 0 && (batch || made->key_at != 0) ? 0 : -1;
}

int template_pull(struct template *made, int binary, const char *topic, int queue, const char *group, int count)
{
    char queue_text[16];
    char count_text[16];
    snprintf(queue_text, sizeof queue_text, "%d", queue);
    snprintf(count_text, sizeof count_text, "%d", count);
    start(made, CODE_PULL, binary);
    made->has_offset = 1;
    const char *fields[][2] = {{"queueId", queue_text},   {"maxMsgNums", count_text},
                               {"sysFlag", "4"},          {"suspendTimeoutMillis", "15000"},
                               {"commitOffset", "0"},     {"topic", topic},
                               {"expressionType", "TAG"}, {"subscription", "*"},
                               {"subVersion", "1"},       {"consumerGroup", group}};
    size_t number = sizeof fields / sizeof fields[0];
    if (binary) {
        for (size_t i = 0; i < number; i++) {
            if (field(made, fields[i][0], fields[i][1])) {
                return -1;
            }
        }
        static const unsigned char name[] = "\000\013queueOffset";
        return append(made, name, sizeof name - 1);
    }
    int bad = append_text(made, "{\"code\":%d,\"extFields\":{", CODE_PULL);
    for (size_t i = 0; i < number; i++) {
        bad |= append_text(made, "\"%s\":\"%s\",", fields[i][0], fields[i][1]);
    }
    bad |= append_text(made, "\"queueOffset\":\"");
    made->middle_size = (size_t)snprintf(made->middle, sizeof made->middle,
                                         "\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":");
    json_tail(made);
    return bad ? -1 : 0;
}

int template_heart_beat(struct template *made, int binary)
{
    start(made, CODE_HEART_BEAT, binary);
    if (binary) {
        return 0;
    }
    json_tail(made);
    return append_text(made, "{\"code\":%d,\"flag\":0,\"language\":\"JAVA\",\"opaque\":", CODE_HEART_BEAT);
}

size_t request_bound(const struct template *from, size_t body_size)
{
    return from->head_size + from->middle_size + from->tail_size + 64 + body_size;
}

size_t request_write(const struct template *from, unsigned char *out, uint32_t opaque, long long offset,
                     struct stamp *stamp, const unsigned char *body, size_t body_size)
{
    memcpy(out, from->head, from->head_size);
    if (from->born_at != 0) {
        memcpy(out + from->born_at, stamp->born, 13);
    }
    if (from->key_at != 0) {
        key_patch(out + from->key_at, stamp);
    }
    unsigned char *at = out + from->head_size;
    if (from->binary) {
        store_u32(out + 8 + 5, opaque);
        if (from->has_offset) {
            size_t size = digits(at + 4, (unsigned long long)offset);
            store_u32(at, (uint32_t)size);
            at += 4 + size;
            store_u32(out + 8 + 17, (uint32_t)(at - out - 8 - 21));
        }
    } else {
        if (from->has_offset) {
            at += digits(at, (unsigned long long)offset);
            memcpy(at, from->middle, from->middle_size);
            at += from->middle_size;
        }
        at += digits(at, opaque);
        memcpy(at, from->tail, from->tail_size);
        at += from->tail_size;
    }
    size_t header_size = (size_t)(at - out) - 8;
    store_u32(out, (uint32_t)(4 + header_size + body_size));
    store_u32(out + 4, (uint32_t)header_size | (from->binary ? 1u << 24 : 0));
    memcpy(at, body, body_size);
    return 8 + header_size + body_size;
}

/* ---- batch items: size, magic 0, CRC 0, flag 0, body, properties ---- */

static int item_properties(char *out, size_t room, const char *tag)
{
    if (tag == NULL) {
        return 0;
    }
    char key[KEY_DIGITS + 1];
    key_start(key);
    return snprintf(out, room, "UNIQ_KEY\001%s\002WAIT\001true\002TAGS\001%s", key, tag);
}

size_t item_size(const char *tag, size_t body_size)
{
    return ITEM_HEAD + body_size + 2 + (size_t)item_properties(NULL, 0, tag);
}

void item_write(unsigned char *out, const char *tag, const unsigned char *body, size_t body_size)
{
    char properties[512];
    size_t size = item_size(tag, body_size);
    int properties_size = item_properties(properties, sizeof properties, tag);
    memset(out, 0, ITEM_HEAD);
    store_u32(out, (uint32_t)size);
    store_u32(out + 16, (uint32_t)body_size);
    memcpy(out + ITEM_HEAD, body, body_size);
    store_u16(out + ITEM_HEAD + body_size, (unsigned)properties_size);
    memcpy(out + ITEM_HEAD + body_size + 2, properties, (size_t)properties_size);
}

void items_restamp(unsigned char *items, size_t one, int count, size_t body_size, struct stamp *stamp)
{
    unsigned char *key = items + ITEM_HEAD + body_size + 2 + strlen("UNIQ_KEY\001");
    for (int i = 0; i < count; i++, key += one) {
        key_patch(key, stamp);
    }
}
