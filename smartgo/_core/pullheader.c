#include "pullheader.h"

/* One bit a field; the required ones are the first nine. */
enum {
    GROUP = 1,
    TOPIC = 2,
    QUEUE_ID = 4,
    QUEUE_OFFSET = 8,
    MAX_COUNT = 16,
    SYS_FLAG = 32,
    COMMIT_OFFSET = 64,
    SUSPEND = 128,
    VERSION = 256,
    REQUIRED = 511,
    SUBSCRIPTION = 512,
    EXPRESSION_TYPE = 1024,
    MAX_SIZE = 2048,
    REQUEST_SOURCE = 4096,
};

static unsigned field_of_name(span name)
{
    switch (name.n) {
    case 5: return IS(name, "topic") ? TOPIC : 0;
    case 7: return IS(name, "queueId") ? QUEUE_ID : IS(name, "sysFlag") ? SYS_FLAG : 0;
    case 10: return IS(name, "maxMsgNums") ? MAX_COUNT : IS(name, "subVersion") ? VERSION : 0;
    case 11: return IS(name, "queueOffset") ? QUEUE_OFFSET : IS(name, "maxMsgBytes") ? MAX_SIZE : 0;
    case 12: return IS(name, "commitOffset") ? COMMIT_OFFSET : IS(name, "subscription") ? SUBSCRIPTION : 0;
    case 13: return IS(name, "consumerGroup") ? GROUP : IS(name, "requestSource") ? REQUEST_SOURCE : 0;
    case 14: return IS(name, "expressionType") ? EXPRESSION_TYPE : 0;
    case 20: return IS(name, "suspendTimeoutMillis") ? SUSPEND : 0;
    default: return 0;
    }
}

/* Take one ext field; 0: not understood. Fields of other names mean nothing to a pull. */
static int take_field(void *request, int64_t code, span name, span value)
{
    pull_request *r = request;
    int64_t unused;
    unsigned field = field_of_name(name);
    (void)code;
    if (!field)
        return 1;
    if (r->seen & field)
        return 0;
    r->seen |= field;
    switch (field) {
    case GROUP: r->group = value; return 1;
    case TOPIC: r->topic = value; return 1;
    case SUBSCRIPTION: r->subscription = value; return 1;
    case EXPRESSION_TYPE: r->expression_type = value; return 1;
    case QUEUE_ID: return read_number(value, INT32_LOW, INT32_HIGH, &r->queue_id);
    case QUEUE_OFFSET: return read_number(value, INT64_MIN, INT64_MAX, &r->queue_offset);
    case MAX_COUNT: return read_number(value, INT32_LOW, INT32_HIGH, &r->max_count);
    case SYS_FLAG: return read_number(value, INT32_LOW, INT32_HIGH, &r->sys_flag);
    case COMMIT_OFFSET: return read_number(value, INT64_MIN, INT64_MAX, &r->commit_offset);
    case SUSPEND: return read_number(value, INT64_MIN, INT64_MAX, &r->suspend_ms);
    case VERSION: return read_number(value, INT64_MIN, INT64_MAX, &r->version);
    case MAX_SIZE: return read_number(value, 0, INT32_HIGH, &r->max_size);
    default: return read_number(value, INT32_LOW, INT32_HIGH, &unused);
    }
}

static int is_pull(int64_t code)
{
    return code == PULL || code == LITE_PULL;
}

int read_pull(pull_request *r, const u8 *frame, int64_t size, u8 *scratch, ext_fields *fields)
{
    static const header_reader reader = {is_pull, take_field};
    command c;
    memset(r, 0, sizeof *r);
    r->max_size = -1;
    r->subscription.p = r->expression_type.p = frame;
    if (!read_command(&c, frame, size, scratch, &reader, r, fields))
        return 0;
    r->encoding = c.encoding;
    r->opaque = c.opaque;
    r->code = c.code;
    r->body = c.body;
    return (r->seen & REQUIRED) == REQUIRED && c.flag == 0;
}
