/*
 * The load generator: closed-loop clients of a RocketMQ broker on one thread and one epoll.
 *
 * Every connection keeps a fixed number of requests in flight and replaces each answered one at once. After a
 * warm-up it measures for a while (or until a number of messages), waits for what is in flight, and prints one line
 * of JSON. The CPU time of the broker is read from /proc at both ends of the same window the messages are counted in.
 *
 * Exit status: 0 all well (answers with an error code are counted, not fatal), 2 bad usage, 3 the run broke off.
 */
#include "answer.h"
#include "bytes.h"
#include "connection.h"
#include "cpu.h"
#include "histogram.h"
#include "options.h"
#include "request.h"
#include "tally.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum {
    READ_ROOM = 256 * 1024,
    READ_LITTLE = 4096, /* with thousands of idle connections */
    BEAT_SECONDS = 30,
    PACE_MS = 2, /* between looks whether another message is due, where there is a rate */
    GLANCES = 16, /* one in so many bare successes is read in full */
    HOPELESS = 200, /* refusals before the first success that end the run */
};

static char **topics;
static int topic_count;
static struct template *lanes;
static int lane_count;
static int next_lane;
static int slot_bits;
static unsigned char *payload;
static size_t payload_size;
static size_t one_item;
static struct stamp stamp;
static uint64_t now_ns;
static uint64_t start_ns;

static int issuing = 1; /* until the window ends */
static int measuring;
static int in_flight;
static unsigned long long issued_messages;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void look_at_clock(void)
{
    static uint64_t stamped_ns;
    now_ns = clock_ns(CLOCK_MONOTONIC);
    if (now_ns - stamped_ns >= 200000) {
        stamped_ns = now_ns;
        stamp_set(&stamp, (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000));
    }
}

/* ---- requests ---- */

static int messages_per_request(void)
{
    return options.mode == MODE_BATCH ? options.batch : options.mode == MODE_SEND ? 1 : 0;
}

static int may_issue(void)
{
    if (options.rate > 0 && (double)issued_messages >= options.rate * (double)(now_ns - start_ns) / 1e9) {
        return 0;
    }
    return issuing && (options.count == 0 || options.mode == MODE_PULL ||
                       issued_messages < (unsigned long long)options.count);
}

static void issue(struct connection *connection)
{
    int index = connection->free_slots[--connection->free_count];
    struct slot *slot = &connection->slots[index];
    if (options.mode != MODE_PULL) {
        slot->lane = next_lane;
        next_lane = next_lane + 1 == lane_count ? 0 : next_lane + 1;
    }
    struct template *lane = &lanes[slot->lane];
    slot->opaque = (connection->sequence++ << slot_bits | (uint32_t)index) & 0x7FFFFFFFu;
    slot->busy = 1;
    reserve(&connection->out, &connection->out_room, connection->out_size + request_bound(lane, payload_size));
    if (options.mode == MODE_BATCH && !options.bare) {
        items_restamp(payload, one_item, options.batch, (size_t)options.size, &stamp);
    }
    connection->out_size += request_write(lane, connection->out + connection->out_size, slot->opaque, slot->offset,
                                          &stamp, payload, payload_size);
    connection->fresh[connection->fresh_count++] = index;
    issued_messages += (unsigned long long)messages_per_request();
    if (measuring) {
        tally.body_bytes += payload_size;
    }
    in_flight++;
}

static void flush_out(int epoll, struct connection *connection)
{
    if (connection->fresh_count > 0) {
        look_at_clock();
        for (int i = 0; i < connection->fresh_count; i++) {
            connection->slots[connection->fresh[i]].sent_ns = now_ns;
        }
        connection->fresh_count = 0;
    }
    int error = connection_flush(epoll, connection);
    if (error != 0) {
        tally_failure("sending failed: %s", strerror(error));
    }
}

/* ---- answers ---- */

/* How many messages a successful answer stands for; -1 when it does not say what it must. */
static int judge(struct slot *slot, const struct answer *answer)
{
    switch (options.mode) {
    case MODE_SEND:
    case MODE_BATCH:
        return answer->queue_offset < 0 ? -1 : messages_per_request();
    case MODE_PULL: {
        int queue = slot->lane % options.queues;
        int count = records_check(answer->body, answer->body_size, queue, slot->offset);
        if (count <= 0 || answer->next_offset != slot->offset + count) {
            return -1;
        }
        slot->offset = answer->next_offset < answer->max_offset ? answer->next_offset : answer->min_offset;
        return count;
    }
    default:
        return 0;
    }
}

static struct slot *settle(struct connection *connection, uint32_t opaque)
{
    uint32_t index = opaque & ((1u << slot_bits) - 1);
    if (index >= (uint32_t)options.outstanding || !connection->slots[index].busy ||
        connection->slots[index].opaque != opaque) {
        tally_failure("answer with opaque %" PRIu32 " to a request that was not made", opaque);
        return NULL;
    }
    connection->slots[index].busy = 0;
    connection->free_slots[connection->free_count++] = (int)index;
    in_flight--;
    return &connection->slots[index];
}

static void succeeded(const struct slot *slot, int count, size_t body_size)
{
    tally.total_messages += (unsigned long long)count;
    if (measuring) {
        tally.good_answers++;
        tally.good_messages += (unsigned long long)count;
        tally.body_bytes += body_size;
        histogram_add(&tally.latencies, now_ns - slot->sent_ns);
    }
}

static void refused(struct slot *slot, const struct answer *answer)
{
    tally.total_bad++;
    tally.bad_answers += (unsigned long long)measuring;
    if (options.mode == MODE_PULL) {
        slot->offset = answer->min_offset > 0 ? answer->min_offset : 0;
    } else {
        issued_messages -= (unsigned long long)messages_per_request(); /* --count counts what was stored */
    }
    if (tally.total_bad >= HOPELESS && tally.total_messages == 0) {
        tally_failure("the broker refuses: code %d, remark %s", answer->code, tally.codes[0].remark);
    }
}

static void answered(struct connection *connection, const unsigned char *frame, size_t size)
{
    static unsigned glances;
    struct answer answer;
    uint32_t opaque;
    /* bodies are checked all, the ext fields of bare successes now and then: reading them costs as much as the rest */
    if (glances++ % GLANCES != 0 && options.mode != MODE_PULL && answer_glance(frame, size, &opaque) == 0) {
        struct slot *slot = settle(connection, opaque);
        if (slot != NULL) {
            tally.glanced++;
            succeeded(slot, messages_per_request(), 0);
        }
        return;
    }
    const char *wrong = answer_parse(frame, size, &answer);
    if (wrong != NULL) {
        tally_failure("unreadable answer: %s", wrong);
        return;
    }
    if (!answer.is_response) {
        return; /* the broker asks or tells something; nothing here needs it */
    }
    if (!answer.has_opaque) {
        tally_failure("answer without an opaque");
        return;
    }
    struct slot *slot = settle(connection, answer.opaque);
    if (slot == NULL) {
        return;
    }
    tally_code(&answer);
    if (answer.code != 0) {
        refused(slot, &answer);
        return;
    }
    int count = judge(slot, &answer);
    if (count < 0) {
        tally_failure("answer with code 0 but %s", options.mode == MODE_PULL
                                                       ? "its records or offsets are not those asked for"
                                                       : "no queueOffset");
        return;
    }
    succeeded(slot, count, answer.body_size);
}

static void read_in(struct connection *connection)
{
    for (;;) {
        size_t ahead = options.mode == MODE_IDLE ? READ_LITTLE : READ_ROOM;
        reserve(&connection->in, &connection->in_room, connection->in_size + ahead);
        size_t asked = connection->in_room - connection->in_size;
        ssize_t got = recv(connection->fd, connection->in + connection->in_size, asked, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        if (got <= 0) {
            tally_failure("the broker closed a connection after %llu messages%s%s", tally.total_messages,
                      got < 0 ? ": " : "", got < 0 ? strerror(errno) : "");
            return;
        }
        look_at_clock();
        connection->last_read_ns = now_ns;
        connection->in_size += (size_t)got;
        size_t at = 0;
        while (connection->in_size - at >= 4) {
            size_t size = load_u32(connection->in + at);
            if (size < 4 || size > FRAME_LIMIT) {
                tally_failure("frame of %zu bytes announced", size);
                return;
            }
            if (connection->in_size - at - 4 < size) {
                break;
            }
            answered(connection, connection->in + at + 4, size);
            at += 4 + size;
            if (tally.failure[0] != '\0') {
                return;
            }
        }
        connection->in_size -= at;
        memmove(connection->in, connection->in + at, connection->in_size);
        if ((size_t)got < asked) {
            return;
        }
    }
}

static void refill(int epoll, struct connection *connection)
{
    while (connection->free_count > 0 && may_issue()) {
        issue(connection);
    }
    if (connection->out_size > 0) {
        flush_out(epoll, connection);
    }
}

/* ---- set-up ---- */

static void spread_topic(void)
{
    const char *name = topics[0];
    size_t size = strlen(name) + 8;
    if (topic_count > 1 || size > 127) {
        usage_error("--spread needs one short name of a topic");
    }
    topic_count = options.spread;
    topics = room((size_t)topic_count, sizeof *topics);
    for (int i = 0; i < topic_count; i++) {
        topics[i] = room(size, 1);
        snprintf(topics[i], size, "%s-%d", name, i);
    }
}

static void split_topics(void)
{
    topics = room(strlen(options.topics) / 2 + 1, sizeof *topics);
    for (char *name = strtok(options.topics, ","); name != NULL; name = strtok(NULL, ",")) {
        if (strpbrk(name, "\"\\") != NULL || strlen(name) > 127) {
            usage_error("not a topic name: %s", name);
        }
        topics[topic_count++] = name;
    }
    if (topic_count == 0) {
        usage_error("--topics names none");
    }
    if (options.spread > 0) {
        spread_topic();
    }
}

static void make_lanes(void)
{
    if (options.mode == MODE_IDLE) {
        lane_count = 1;
        lanes = room(1, sizeof *lanes);
        if (template_heart_beat(&lanes[0], options.binary)) {
            usage_error("heart-beat does not fit");
        }
        return;
    }
    lanes = room((size_t)topic_count * (size_t)options.queues, sizeof *lanes);
    for (int topic = 0; topic < topic_count; topic++) {
        for (int queue = 0; queue < options.queues; queue++) {
            struct template *lane = &lanes[lane_count++];
            int bad = options.mode == MODE_PULL
                          ? template_pull(lane, options.binary, topics[topic], queue, options.group, options.batch)
                          : template_send(lane, options.mode == MODE_BATCH ? CODE_SEND_BATCH : CODE_SEND,
                                          options.binary, topics[topic], queue, options.group, options.tag,
                                          options.broker);
            if (bad) {
                usage_error("names too long for a request header");
            }
        }
    }
}

static void make_payload(void)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t size = (size_t)options.size;
    unsigned char *body = room(size, 1);
    uint32_t state = 12345;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        body[i] = (unsigned char)letters[(state >> 16) % (sizeof letters - 1)];
    }
    if (options.mode == MODE_BATCH) {
        const char *tag = options.bare ? NULL : options.tag;
        one_item = item_size(tag, size);
        payload_size = one_item * (size_t)options.batch;
        payload = room(payload_size, 1);
        for (int i = 0; i < options.batch; i++) {
            item_write(payload + one_item * (size_t)i, tag, body, size);
        }
        free(body);
    } else if (options.mode == MODE_SEND) {
        payload = body;
        payload_size = size;
    } else {
        free(body);
        static const char *beat = "{\"clientID\":\"127.0.0.1@load\",\"consumerDataSet\":[],"
                                  "\"producerDataSet\":[{\"groupName\":\"bench\"}]}";
        payload = (unsigned char *)strdup(options.mode == MODE_IDLE ? beat : "");
        payload_size = strlen((char *)payload);
    }
    if (payload_size > FRAME_LIMIT - HEAD_LIMIT) {
        usage_error("a request of %zu bytes exceeds the frame limit", payload_size);
    }
}

/* ---- the run ---- */

static struct window look(void)
{
    struct window here = {0};
    if (options.pid != 0 &&
        (process_cpu(options.pid, &here.server) != 0 || main_thread_cpu(options.pid, &here.server_main) != 0)) {
        tally_failure("the broker's process %d is gone", options.pid);
    }
    look_at_clock();
    here.ns = now_ns;
    here.own = own_cpu();
    return here;
}

static void turn(int epoll, int timeout_ms)
{
    struct epoll_event events[256];
    int count = epoll_wait(epoll, events, 256, timeout_ms);
    for (int i = 0; i < count && tally.failure[0] == '\0'; i++) {
        struct connection *connection = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
            read_in(connection);
        }
        if (tally.failure[0] == '\0') {
            if (events[i].events & EPOLLOUT) {
                flush_out(epoll, connection);
            }
            if (options.mode != MODE_IDLE) {
                refill(epoll, connection);
            }
        }
    }
    look_at_clock();
}

static void complain_of_silence(const struct connection *connections)
{
    for (int i = 0; i < options.connections; i++) {
        const struct connection *connection = &connections[i];
        if (connection->free_count == options.outstanding) {
            continue;
        }
        uint64_t heard = connection->last_read_ns;
        for (int slot = 0; slot < options.outstanding; slot++) {
            if (connection->slots[slot].busy && connection->slots[slot].sent_ns > heard) {
                heard = connection->slots[slot].sent_ns;
            }
        }
        if ((double)(now_ns - heard) / 1e9 > options.timeout) {
            tally_failure("no answer for %.0f s on a connection with %d requests in flight", options.timeout,
                      options.outstanding - connection->free_count);
            return;
        }
    }
}

static void beat_where_due(int epoll, struct connection *connections)
{
    for (int i = 0; i < options.connections && issuing; i++) {
        struct connection *connection = &connections[i];
        if (now_ns >= connection->next_beat_ns && connection->free_count > 0) {
            /* spread over the period, as clients that started at different times are */
            connection->next_beat_ns =
                connection->next_beat_ns == 0
                    ? now_ns + (uint64_t)BEAT_SECONDS * 1000000000u * (uint64_t)(i + 1) / (uint64_t)options.connections
                    : connection->next_beat_ns + (uint64_t)BEAT_SECONDS * 1000000000u;
            issue(connection);
            flush_out(epoll, connection);
        }
    }
}

static void run(int epoll, struct connection *connections)
{
    look_at_clock();
    start_ns = now_ns;
    uint64_t checked = now_ns;
    uint64_t warm = start_ns + (uint64_t)(options.warm_up * 1e9);
    uint64_t end = warm + (uint64_t)(options.seconds * 1e9);
    if (options.mode != MODE_IDLE) {
        for (int i = 0; i < options.connections; i++) {
            refill(epoll, &connections[i]);
        }
    }
    while (tally.failure[0] == '\0') {
        if (options.mode == MODE_IDLE) {
            beat_where_due(epoll, connections);
        }
        if (!measuring && issuing && (now_ns >= warm || options.count > 0)) {
            tally.from = look();
            measuring = 1;
        }
        int done = now_ns >= end;
        if (options.count > 0) {
            done = tally.total_messages >= (unsigned long long)options.count &&
                   (options.mode == MODE_PULL || in_flight == 0);
        }
        if (measuring && done) {
            tally.to = look();
            measuring = issuing = 0;
        }
        if (!issuing && in_flight == 0) {
            break;
        }
        turn(epoll, options.rate > 0 ? PACE_MS : 20);
        for (int i = 0; options.rate > 0 && i < options.connections && tally.failure[0] == '\0'; i++) {
            refill(epoll, &connections[i]);
        }
        if (now_ns - checked > 1000000000u) {
            checked = now_ns;
            complain_of_silence(connections);
        }
    }
    if (measuring) {
        tally.to = look();
        measuring = 0;
    }
}

int main(int count, char **arguments)
{
    read_options(count, arguments);
    while (1 << slot_bits < options.outstanding) {
        slot_bits++;
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    split_topics();
    make_lanes();
    make_payload();
    look_at_clock();
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct connection *connections = connections_open(epoll, lane_count);
    run(epoll, connections);
    tally_print();
    return tally.failure[0] == '\0' ? 0 : 3;
}
