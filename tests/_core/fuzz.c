/*
 * The C part of the core under hostile bytes: one frame is read, planned, written and answered.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -Ismartgo/_core -Itests/_core tests/_core/fuzz.c smartgo/_core/[a-r]*.c \
 *       smartgo/_core/sendheader.c smartgo/_core/sha1.c smartgo/_core/signature.c -o /tmp/fuzz
 *   python -m tests._core.seeds SEEDS && /tmp/fuzz -max_total_time=3600 SEEDS
 *
 * Without clang, all seeds as they are, and then inputs from a mutator of its own that knows no coverage (arguments:
 * how many inputs, the first random number):
 *
 *   gcc -g -O1 -DALONE -fsanitize=address,undefined -fno-sanitize-recover=undefined ... -o /tmp/fuzz
 *   python -m tests._core.seeds | /tmp/fuzz 1000000 1
 */
#include "answers.h"
#include "appending.h"
#include "crc32.h"
#include "indexkeys.h"
#include "indexput.h"
#include "picking.h"
#include "pullheader.h"
#include "signature.h"

#include "fuzzmain.h"

#define SPAN(literal) ((span){(const u8 *)(literal), (int64_t)sizeof(literal) - 1})
enum { FILE_SIZE = 1 << 17 };

static u8 *file, *scratch, *properties;

/* What lies before the end is never touched, and the records end where the plan says. */
static void append(const send_rules *rules, log_tail *log, queue_tail *queue, const send_request *request, span host)
{
    append_plan plan;
    int64_t begin = log->end - log->base, offset = log->end;
    int batch = request->code == SEND_BATCH;
    memset(file, 0x55, FILE_SIZE);
    if (!(batch ? plan_batch : plan_message)(rules, log, queue, request, host, &plan)) {
        for (int i = 0; i < FILE_SIZE; i++)
            check(file[i] == 0x55, "nothing is written for what is not taken");
        return;
    }
    check(plan.count >= 1 && plan.count <= rules->count_limit && plan.size > 0, "a plan has messages");
    check(log->end + plan.size <= log->limit, "records end before the limit");
    int64_t *offsets = malloc((size_t)plan.count * sizeof *offsets), *codes = malloc((size_t)plan.count * sizeof *codes);
    u8 *units = malloc((size_t)plan.count * UNIT_SIZE);
    if (batch) {
        write_batch(rules, log, queue, request, host, &plan, offsets, codes, units);
    } else {
        write_message(rules, log, queue, request, host, &plan, units);
        offsets[0] = offset;
    }
    for (int64_t i = 0; i < begin; i++)
        check(file[i] == 0x55, "what is before the end stays");
    for (int64_t i = begin + plan.size; i < FILE_SIZE; i++)
        check(file[i] == 0x55, "nothing is written behind the records");
    int64_t at = begin;
    for (int64_t i = 0; i < plan.count; i++) {
        check(offsets[i] == log->base + at, "records lie back to back");
        check(get32(units + UNIT_SIZE * i + 8) == get32(file + at), "a unit has the size of its record");
        at += get32(file + at);
    }
    check(at == begin + plan.size, "sizes add up");
    answer_pieces pieces = {
        {SPAN("a"), SPAN("b"), SPAN("c"), SPAN("d"), SPAN("e")},
        {SPAN("12345"), SPAN("12345678"), SPAN("c"), SPAN("d"), SPAN("e"), SPAN("f")},
        SPAN("0A00000100002A9F"),
    };
    int64_t room = answer_room(&pieces, plan.count);
    u8 *answer = malloc((size_t)room);
    u8 *end = put_answer(answer, &pieces, request, offsets, plan.count, queue->next_offset);
    check(end - answer <= room && get32(answer) == (uint32_t)(end - answer - 4), "an answer has its length");
    free(answer);
    free(units);
    free(codes);
    free(offsets);
}

/* Pick with the bytes as units, and with what follows the first of them as the log. */
static void pick(const u8 *data, int64_t size)
{
    static const int64_t codes[] = {-7, 0, 1, 2, 3, 5, 8, 13, 21, 34};
    int64_t first, last, all, count = size / 2 / UNIT_SIZE;
    if (count < 1)
        return;
    log_run *runs = malloc((size_t)count * sizeof *runs);
    int64_t room = size - count * UNIT_SIZE;
    u8 *log_file = malloc((size_t)room);
    memcpy(log_file, data + count * UNIT_SIZE, (size_t)room);
    log_window log = {log_file, 0, room};
    for (int way = 0; way < 4; way++) {
        pick_request request = {.topic_part = SPAN("\001T"), .queue_id = 0, .checked_until = way, .max_count = 4 * way + 1, .max_size = 400};
        picked found;
        if (way & 1) {
            request.codes = codes;
            request.code_count = 10;
        }
        if (!pick_records(&request, &log, data, count, runs, &found))
            continue;
        int64_t bytes = 0;
        check(found.runs <= found.count && found.count <= count && found.next_offset <= count, "no more is picked than there is");
        for (int64_t i = 0; i < found.runs; i++) {
            check(runs[i].begin >= 0 && runs[i].begin < runs[i].end && runs[i].end <= room, "a run lies within the log");
            bytes += runs[i].end - runs[i].begin;
        }
        check(bytes == found.size && (found.count < 2 || found.size <= 400), "sizes of runs add up");
    }
    if (adjacent_records(data, count, &first, &last, &all))
        check(all > 0 && (count > 1 || first == last), "records side by side have a size");
    free(log_file);
    free(runs);
}

/* Put keys into an index file whose slots and keys are what the bytes say. */
static void put(const u8 *data, int64_t size)
{
    enum { KEY = 20 };
    if (size < 6)
        return;
    int64_t slot_count = 1 + data[0] % 32, first = 1 + data[1] % 4, begin_ms = (int32_t)get32(data + 2), i;
    if (size - 6 < slot_count * INDEX_SLOT_SIZE)
        return;
    const u8 *slots_from = data + 6, *keys = slots_from + slot_count * INDEX_SLOT_SIZE;
    int64_t count = (data + size - keys) / KEY, all = first + count, leads = 0;
    size_t slots_size = (size_t)(slot_count * INDEX_SLOT_SIZE), entries_size = (size_t)(all * INDEX_ENTRY_SIZE);
    u8 *slots = malloc(slots_size), *entries = malloc(entries_size);
    int32_t *hashes = malloc((size_t)(count + 1) * sizeof *hashes);
    int64_t *offsets = malloc((size_t)(count + 1) * sizeof *offsets), *stored = malloc((size_t)(count + 1) * sizeof *stored);
    int negative = 0;
    for (i = 0; i < count; i++) {
        hashes[i] = (int32_t)get32(keys + i * KEY);
        offsets[i] = get64(keys + i * KEY + 4);
        stored[i] = get64(keys + i * KEY + 12);
        negative |= hashes[i] < 0;
    }
    memcpy(slots, slots_from, slots_size);
    memset(entries, 0x55, entries_size);
    index_file file = {slots + 1, entries, slot_count, begin_ms};
    check(put_keys(&file, first, count, hashes, offsets, stored) == -1, "slots that are not aligned are left alone");
    file.slots = slots;
    int64_t unused = put_keys(&file, first, count, hashes, offsets, stored);
    check((unused == -1) == (negative != 0) && unused <= count, "keys are put unless a hash is negative");
    if (negative)
        check(!memcmp(slots, slots_from, slots_size), "no slot changes for keys that are not put");
    for (i = 0; i < (negative ? all : first) * INDEX_ENTRY_SIZE; i++)
        check(entries[i] == 0x55, "entries before the first one stay");
    for (i = 0; i < count && !negative; i++) {
        const u8 *entry = entries + (first + i) * INDEX_ENTRY_SIZE, *slot = slots + hashes[i] % slot_count * INDEX_SLOT_SIZE;
        check(get32(entry) == (uint32_t)hashes[i] && get64(entry + 4) == offsets[i], "an entry says its key");
        check(get32(entry + 12) <= 0x7FFFFFFF, "seconds are not negative");
        check(get32(entry + 16) <= first + i, "an entry leads to one before it");
        check(get32(slot) >= first + i && get32(slot) < all, "a slot leads to the last of its entries");
        leads += !get32(entry + 16);
    }
    check(negative || leads == unused, "as many slots were free as entries lead nowhere");
    free(stored);
    free(offsets);
    free(hashes);
    free(entries);
    free(slots);
}

static int lies(span text, const u8 *frame, int64_t size)
{
    const u8 *p = text.p, *end = p + text.n;
    return text.n >= 0 && ((p >= frame && end <= frame + size) || (p >= scratch && end <= scratch + HEADER_LIMIT));
}

/* All ext fields lie where they may, in order; with the right signature a request is signed, with any other it is not. */
static void verify(ext_fields *fields, span body, const u8 *frame, int64_t size)
{
    static u8 text[28];
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    signing_key key;
    u8 digest[SHA1_DIGEST + 1] = {0}, *all = malloc((size_t)size + HEADER_LIMIT), *end = all;
    int at = -1, later = 0;
    signing_key_of(&key, SPAN("a secret"));
    check(fields->count <= FIELDS_LIMIT, "there are so many fields");
    for (int i = 0; i < fields->count; i++) {
        span name = fields->at[i].name, value = fields->at[i].value;
        check(lies(name, frame, size) && lies(value, frame, size), "a field lies where it may");
        if (i) {
            span before = fields->at[i - 1].name;
            int64_t n = before.n < name.n ? before.n : name.n;
            int differs = memcmp(before.p, name.p, (size_t)n);
            check(differs < 0 || (!differs && before.n < name.n), "fields are in the order of their names");
        }
        if (IS(name, "Signature"))
            at = i;
        else if (IS(name, "_UNIQUE_KEY_QUERY"))
            later = 1;
        else
            end = put_span(end, value);
    }
    check(!is_signed(fields, body, &key), "nobody knows the secret");
    end = put_span(end, body);
    span whole = {all, end - all};
    sign_parts(&key, &whole, 1, digest);
    for (int i = 0; i < 28; i++) {
        const u8 *p = digest + i / 4 * 3;
        text[i] = (u8)digits[(((uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]) >> (18 - i % 4 * 6)) & 63];
    }
    text[27] = '=';
    if (at >= 0) {
        fields->at[at].value = (span){text, 28};
        check(is_signed(fields, body, &key) == !later, "the right signature is right");
        text[size % 28] ^= 1;
        check(!is_signed(fields, body, &key), "a wrong signature is not");
    }
    free(all);
}

/* Both ways through a block lead to the same state. */
static void hash(const u8 *data, int64_t size)
{
    uint32_t one[5] = {1, 2, 3, 4, 5}, other[5] = {1, 2, 3, 4, 5};
    sha1_blocks(one, data, size / SHA1_BLOCK);
    sha1_blocks_plain(other, data, size / SHA1_BLOCK);
    check(!memcmp(one, other, sizeof one), "both ways to a hash lead to the same one");
}

/* A pull's texts lie in its frame or in the scratch space, and its answer's head has its length. */
static void pull(const u8 *frame, int64_t size)
{
    static const found_pieces pieces = {
        {SPAN("a"), SPAN("b"), SPAN("c"), SPAN("d"), SPAN("e"), SPAN("f")},
        {SPAN("12345"), SPAN("12345678"), SPAN("c"), SPAN("d"), SPAN("e"), SPAN("f")},
    };
    pull_request request;
    ext_fields fields;
    if (!read_pull(&request, frame, size, scratch, NULL))
        return;
    span texts[] = {request.group, request.topic, request.subscription, request.expression_type};
    for (int i = 0; i < 4; i++)
        check(lies(texts[i], frame, size), "a text lies where it may");
    if (read_pull(&request, frame, size, scratch, &fields))
        verify(&fields, request.body, frame, size);
    int64_t numbers[] = {request.queue_offset, request.commit_offset, INT64_MIN, INT64_MAX}, room = found_room(&pieces);
    u8 *head = malloc((size_t)room);
    u8 *end = put_found(head, &pieces, request.encoding, request.opaque, numbers, 1000);
    check(end - head <= room && get32(head) == (uint32_t)(end - head - 4 + 1000), "a head has its length");
    check((get32(head + 4) & 0xFFFFFF) == (uint32_t)(end - head - 8), "a header has its length");
    free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const span special[] = {{(const u8 *)"DELAY", 5}, {(const u8 *)"TRAN_MSG", 8}};
    if (!file) {
        crc32_begin();
        sha1_begin();
        file = malloc(FILE_SIZE);
        scratch = malloc(HEADER_LIMIT);
        properties = malloc(PROPERTIES_LIMIT + 16);
    }
    send_rules rules = {SPAN("\x0A\0\0\1\0\0\x2A\x9F"), {SPAN("CLUSTER\001c1"), 7}, {special, 2}, 4096, 8, properties};
    log_tail log = {.end = 1100, .now_ms = 1700000000000, .base = 1000, .limit = 1000 + FILE_SIZE - 8, .at = file, .size = FILE_SIZE};
    queue_tail queue = {.next_offset = 7, .reserved = 20, .overhead = 92, .queue_id = 1, .topic_part = SPAN("\001T")};
    /* A copy of its own length, so that reading past it is noticed. */
    u8 *frame = malloc(size ? size : 1);
    memcpy(frame, data, size);
    send_request request;
    int32_t hashes[INDEX_KEYS_LIMIT];
    int64_t stored_ms;
    may_be_send(frame, (int64_t)size);
    pick(frame, (int64_t)size);
    put(frame, (int64_t)size);
    check(crc32_of(frame, size) == crc32_by_tables(frame, size), "both ways to a CRC lead to the same one");
    hash(frame, (int64_t)size);
    pull(frame, (int64_t)size);
    check(index_keys_of(frame, (int64_t)size, hashes, &stored_ms) <= INDEX_KEYS_LIMIT, "a record has so many keys");
    ext_fields fields;
    if (read_send(&request, frame, (int64_t)size, scratch, &fields))
        verify(&fields, request.body, frame, (int64_t)size);
    if (read_send(&request, frame, (int64_t)size, scratch, NULL)) {
        append(&rules, &log, &queue, &request, SPAN("\x0A\0\0\2\0\0\x9C\x40"));
        append(&rules, &log, &queue, &request, SPAN("\x20\1\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\1\0\0\x9C\x40"));
        rules.store_host = SPAN("\x20\1\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\2\0\0\x2A\x9F");
        append(&rules, &log, &queue, &request, SPAN("\x0A\0\0\2\0\0\x9C\x40"));
        log.limit = log.end + 150;
        append(&rules, &log, &queue, &request, SPAN("\x0A\0\0\2\0\0\x9C\x40"));
    }
    free(frame);
    return 0;
}
