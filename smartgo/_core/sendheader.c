#include "sendheader.h"

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
static int take_field(void *request, int64_t code, span name, span value)
{
    send_request *r = request;
    int64_t unused;
    unsigned field = code == SEND ? field_of_name(name) : name.n == 1 ? field_of_letter(name.p[0]) : 0;
    if (!field) {
        if (IS(name, "AccessKey"))
            r->names_key = 1;
        return 1;
    }
    if (r->seen & field)
        return 0;
    r->seen |= field;
    switch (field) {
    case TOPIC: r->topic = value; return 1;
    case PROPERTIES: r->properties = value; return 1;
    case QUEUE_ID: return read_number(value, INT32_LOW, INT32_HIGH, &r->queue_id);
    case SYS_FLAG: return read_number(value, INT32_LOW, INT32_HIGH, &r->sys_flag);
    case BORN: return read_number(value, INT64_MIN, INT64_MAX, &r->born_ms);
    case FLAG: return read_number(value, INT32_LOW, INT32_HIGH, &r->message_flag);
    case RECONSUMED: return read_number(value, INT32_LOW, INT32_HIGH, &r->reconsumed);
    case TEMPLATE_QUEUES:
    case MAX_RECONSUMED: return read_number(value, INT32_LOW, INT32_HIGH, &unused);
    default: return 1;
    }
}

static int is_send(int64_t code)
{
    return code == SEND || code == SEND_V2 || code == SEND_BATCH;
}

int read_send(send_request *r, const u8 *frame, int64_t size, u8 *scratch, ext_fields *fields)
{
    static const header_reader reader = {is_send, take_field};
    command c;
    memset(r, 0, sizeof *r);
    r->properties.p = frame; /* none yet */
    if (!read_command(&c, frame, size, scratch, &reader, r, fields))
        return 0;
    r->encoding = c.encoding;
    r->code = c.code;
    r->opaque = c.opaque;
    r->flag = c.flag;
    r->body = c.body;
    return (r->seen & REQUIRED) == REQUIRED && (r->flag == 0 || r->flag == ONE_WAY);
}

int may_be_send(const u8 *frame, int64_t size)
{
    int64_t code = early_code(frame, size);
    return code == CODE_LATER || is_send(code);
}
