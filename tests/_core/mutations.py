"""Small plausible bugs of the compiled core, by file: a text that is there once, and what a slip makes of it."""

from typing import NamedTuple


class Mutation(NamedTuple):
    """One small bug."""

    file: str
    old: str
    new: str


def _of(file: str, *pairs: tuple[str, str]) -> list[Mutation]:
    return [Mutation(file, old, new) for old, new in pairs]


MUTATIONS = [
    *_of(
        "pullheader.c",
        ("REQUIRED = 511", "REQUIRED = 255"),
        ("if (r->seen & field)", "if (0)"),
        ("&& c.flag == 0", ""),
        ("case MAX_SIZE: return read_number(value, 0,", "case MAX_SIZE: return read_number(value, INT32_LOW,"),
        (
            "case MAX_COUNT: return read_number(value, INT32_LOW, INT32_HIGH,",
            "case MAX_COUNT: return read_number(value, INT64_MIN, INT64_MAX,",
        ),
        ("r->max_size = -1", "r->max_size = 0"),
    ),
    *_of(
        "pulls.pxi",
        ("request.queue_id >= source.queues", "request.queue_id > source.queues"),
        ("source.subscribed and source.version >= request.version", "source.subscribed"),
        ("source.far if result[7] else source.near", "source.near if result[7] else source.far"),
        ("numbers[2] = result[2]", "numbers[2] = result[3]"),
        (" and request.commit_offset >= 0 and", " and"),
        ("request.sys_flag & COMMIT and", ""),
        ("min(max(request.max_count, 1), self.most_count)", "min(request.max_count, self.most_count)"),
        (" or size != self.limit_size", ""),
        (" and is_named(source.group_name, request.group)", ""),
        ('request.expression_type.n == 0 or is_text(request.expression_type, b"TAG")', "True"),
        ("link.out or link.unsent or not self.find", "not self.find"),
        ("or not lane.attached or lane.out_size:", "or not lane.attached:"),
        ("lane.link.wrote(data, max(sent, 0))", "lane.link.wrote(data, 0)"),
    ),
    *_of(
        "answers.c",
        ("    if (v < 0)\n        *o++ = '-';\n", ""),
        ("(uint32_t)(o - begin - 4 + body_size)", "(uint32_t)(o - begin - 4)"),
    ),
    *_of(
        "picking.c",
        ("codes[middle] <= code", "codes[middle] < code"),
        ("code < EXTENSION_LIMIT", "code <= EXTENSION_LIMIT"),
        ("\n        && get64(record + QUEUE_OFFSET_AT) == offset", "\n        "),
        ("found->size + size > request->max_size", "found->size + size >= request->max_size"),
        ("found->count >= request->max_count", "found->count > request->max_count"),
        ("physical < request->minimum", "physical <= request->minimum"),
        (" || size > log->end - physical", ""),
        ("checked = found->next_offset >= request->checked_until", "checked = 1"),
        ("run && run->end == physical", "run && run->end <= physical"),
        ("length <= 0 || ", ""),
    ),
    *_of(
        "header.c",
        ("end - p > 18", "end - p > 19"),
        (" || v > high", ""),
        ("c < 0xC2", "c < 0xC0"),
        (" || (c == 0xED && p[1] > 0x9F)", ""),
        ("end - p <= more", "end - p < more"),
        (" || (*first == '0' && p - begin > 1)", ""),
        ("        if (seen & member)\n            return 0;\n", ""),
        ("!(seen & CODE) || ", ""),
        ("(int64_t)get32(p + 17) != header.n - HEAD", "(int64_t)get32(p + 17) > header.n - HEAD"),
        ("v < 0x800)", "v <= 0x800)"),
        ("v < 0xE000", "v < 0xDC00"),
    ),
    *_of(
        "sends.pyx",
        ("if not queue.dropped:", "if True:"),
        ("        queue.c.stored_ms = log.now_ms\n", ""),
        ("        log.stored_ms = log.now_ms\n", ""),
        ("route.count += plan.count", "route.count += 1"),
        ("wanted[at - 1] > code", "wanted[at - 1] < code"),
        ("pulls is None or (run is not None and (run.out.size or run.late_count)) or", "pulls is None or"),
        (" or (self.answered and self.turns.begun):", ":"),
        ("log.end - log.base > content.len", "False"),
    ),
    *_of(
        "logcolumns.c",
        (" || sys_flag & (BORN_V6 | STORE_V6))", ")"),
        ("r->stored_ms <= 0", "r->stored_ms < 0"),
        ("length > TOPIC_LIMIT || ", ""),
        ("length != left || ", ""),
        ("if (!first.n)", "if (1)"),
        ("c == 0xED && p[1] > 0x9F", "0"),
        (" || !name.n || !value.n)", " || !name.n)"),
        ("if (!is_new(&c->names, first, pairs, name))", "if (0)"),
        ("if (c->opens && ", "if (0 && "),
        ("return !told || told", "return told"),
        ("get32(p + BORN_HOST_AT + 4) > PORT_LIMIT", "0"),
        ("if (!mask.p || mask.p[records])", "if (1)"),
    ),
]
