# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""
The compiled tails of log and queue, and the compiled run of sends: see their twins in Python.

All that is done to bytes is C beside this file; here are the objects of Python that it begins and ends with.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    enum: PyBUF_WRITABLE, PyBUF_SIMPLE
    ctypedef struct Py_buffer:
        void *buf
        Py_ssize_t len
    int PyObject_GetBuffer(object exporter, Py_buffer *view, int flags) except -1
    void PyBuffer_Release(Py_buffer *view)
    char *PyBytes_AsString(object o) except NULL
    Py_ssize_t PyBytes_Size(object o) except -1
    bytes PyBytes_FromStringAndSize(const char *p, Py_ssize_t n)

cdef extern from "bytes.h":
    ctypedef unsigned char u8
    ctypedef struct span:
        const u8 *p
        int64_t n

cdef extern from "crc32.h":
    void crc32_begin()
    unsigned int crc32_of(const u8 *p, size_t n)
    unsigned int crc32_by_tables(const u8 *p, size_t n)

cdef extern from "header.h":
    enum: CODE_LATER
    ctypedef struct ext_fields:
        pass
    int64_t early_code(const u8 *frame, int64_t size)

cdef extern from "sendheader.h":
    enum: SEND_BATCH, ONE_WAY, HEADER_LIMIT
    ctypedef struct send_request:
        int encoding
        int64_t code, opaque, flag, queue_id
        span topic, body
        int names_key
    int read_send(send_request *request, const u8 *frame, int64_t size, u8 *scratch, ext_fields *fields)
    int may_be_send(const u8 *frame, int64_t size)

cdef extern from "properties.h":
    enum: PROPERTIES_LIMIT
    ctypedef struct added_property:
        span pair
        int64_t name_size
    ctypedef struct special_names:
        const span *names
        int count

cdef extern from "layout.h":
    enum: UNIT_SIZE

cdef extern from "appending.h":
    ctypedef struct log_tail:
        int64_t end, torn, stored_ms, now_ms, base, limit, size
        u8 *at
    ctypedef struct queue_tail:
        int64_t next_offset, reserved, stored_ms, overhead, queue_id
        span topic_part
    ctypedef struct send_rules:
        span store_host
        added_property added
        special_names special
        int64_t body_limit, count_limit
        u8 *properties
    ctypedef struct append_plan:
        int64_t size, count, tag_code
        int wait
    int plan_message(const send_rules *, const log_tail *, const queue_tail *, const send_request *, span, append_plan *)
    void write_message(const send_rules *, const log_tail *, const queue_tail *, const send_request *, span,
                       const append_plan *, u8 *unit)
    int plan_batch(const send_rules *, const log_tail *, const queue_tail *, const send_request *, span, append_plan *)
    void write_batch(const send_rules *, const log_tail *, const queue_tail *, const send_request *, span,
                     const append_plan *, int64_t *offsets, int64_t *tag_codes, u8 *units)

cdef extern from "answers.h":
    ctypedef struct answer_pieces:
        span json[5]
        span binary[6]
        span id_prefix
    int64_t answer_room(const answer_pieces *pieces, int64_t count)
    u8 *put_answer(u8 *o, const answer_pieces *pieces, const send_request *request, const int64_t *offsets,
                   int64_t count, int64_t queue_offset)

cdef extern from "indexkeys.h":
    enum: INDEX_KEYS_LIMIT
    int index_keys_of(const u8 *p, int64_t room, int *hashes, int64_t *stored_ms)

cdef extern from "indexput.h":
    enum: INDEX_SLOT_SIZE, INDEX_ENTRY_SIZE
    ctypedef struct index_file:
        u8 *slots
        u8 *entries
        int64_t slot_count, begin_ms
    int64_t put_keys(const index_file *file, int64_t first, int64_t count, const int *hashes, const int64_t *offsets,
                     const int64_t *stored_ms)

cdef extern from "picking.h":
    ctypedef struct log_window:
        const u8 *at
        int64_t base, end
    ctypedef struct pick_request:
        span topic_part
        int64_t queue_id, offset, minimum, checked_until, max_count, max_size
        const int64_t *codes
        int64_t code_count
    ctypedef struct log_run:
        int64_t begin, end
    ctypedef struct picked:
        int64_t runs, count, size, next_offset, last
        int removing
    int pick_records(const pick_request *, const log_window *, const u8 *units, int64_t count, log_run *runs,
                     picked *found)
    int adjacent_records(const u8 *units, int64_t count, int64_t *first, int64_t *last, int64_t *size)

cdef extern from "sys/epoll.h" nogil:
    ctypedef union epoll_data:
        int fd
    cdef struct epoll_event:
        unsigned int events
        epoll_data data
    int epoll_wait(int epoll, epoll_event *events, int most, int timeout)

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int fd, void *data, size_t size, int flags)
    ssize_t send(int fd, const void *data, size_t size, int flags)
    enum: MSG_DONTWAIT, MSG_NOSIGNAL

cdef extern from "monotonic.h" nogil:
    int64_t now_us()

cdef extern from "errno.h" nogil:
    int errno
    enum: EAGAIN, EINTR

cdef extern from "bytes.h":
    unsigned int get32(const u8 *p)

crc32_begin()

cdef enum:
    ROUTES = 4096  # topics; one more empties the table
    QUEUES = 65536  # of a topic
    READ_SIZE = 65536  # bytes read from a socket before it is another one's turn
    SOCKETS = 128  # read in a turn
    ROOM_KEPT = 1024  # bytes for answers that a link keeps between two turns
    TOGETHER = 512  # frames whose answers wait for one another
    SHARE = 64  # frames of a link that are taken before it is another one's turn: FRAMES_A_TURN
    STRETCH = 16  # so many sends in a row are worth a write of their own
    CODES = 64  # tags of a filter
    KEPT = 512  # bytes that answers of a link that wait take beside themselves


cdef span NO_NAME
NO_NAME.p = <const u8*>b""
NO_NAME.n = 0


cdef int set_span(span *found, object data) except -1:
    """Point to the content of a bytes object; whoever calls this keeps the object."""
    found.p = <const u8*>PyBytes_AsString(data)
    found.n = PyBytes_Size(data)
    return 0


def crc32(bytes data, bint by_tables=False):
    """Return the CRC-32 of some bytes; for tests."""
    cdef span all
    set_span(&all, data)
    return crc32_by_tables(all.p, all.n) if by_tables else crc32_of(all.p, all.n)


def index_keys(view, starts, int64_t base):
    """See L{smartgo.store.index.runkeys.pure_index_keys}."""
    cdef Py_buffer records
    cdef int hashes[INDEX_KEYS_LIMIT]
    cdef int64_t at, stored, first = 0, step = 0, i, count = len(starts), done = 0, made = 0, room = 0
    cdef int found, k
    cdef int *hash_column = NULL
    cdef int64_t *columns = NULL  # offsets, and behind the room for them times
    if not count:
        return b"", b"", b"", 0
    if isinstance(starts, range):
        first, step = starts.start, starts.step
    PyObject_GetBuffer(view, &records, PyBUF_SIMPLE)
    try:
        # Where records have more keys than this is for, the others are left to Python.
        room = 4 * count + INDEX_KEYS_LIMIT
        hash_column = <int*>malloc(room * sizeof(int))
        columns = <int64_t*>malloc(room * 2 * sizeof(int64_t))
        if hash_column == NULL or columns == NULL:
            raise MemoryError
        for i in range(count):
            at = first + i * step if step else starts[i]
            if at < 0 or at > records.len or made + INDEX_KEYS_LIMIT > room:
                break
            found = index_keys_of(<const u8*>records.buf + at, records.len - at, hashes, &stored)
            if found < 0:
                break
            for k in range(found):
                hash_column[made] = hashes[k]
                columns[made] = base + at
                columns[room + made] = stored
                made += 1
            done += 1
        return (PyBytes_FromStringAndSize(<char*>hash_column, made * sizeof(int)),
                PyBytes_FromStringAndSize(<char*>columns, made * sizeof(int64_t)),
                PyBytes_FromStringAndSize(<char*>(columns + room), made * sizeof(int64_t)), done)
    finally:
        free(hash_column)
        free(columns)
        PyBuffer_Release(&records)


def index_put(view, int64_t slots_at, int64_t slots, int64_t first, int64_t begin_ms, columns):
    """See L{smartgo.store.index.runkeys.pure_index_put}."""
    cdef Py_buffer buffers[4]
    cdef int held = 0, i
    cdef int64_t count, unused = -1, entries_at = slots_at + slots * INDEX_SLOT_SIZE
    cdef index_file file
    hashes, offsets, stored = columns
    if isinstance(hashes, list) or slots < 1 or first < 1 or slots_at < 0:
        return None
    count = len(hashes)
    try:
        for i, one in enumerate((view, hashes, offsets, stored)):
            PyObject_GetBuffer(one, &buffers[i], PyBUF_SIMPLE if i else PyBUF_WRITABLE)
            held += 1
        if (buffers[1].len == count * sizeof(int) and buffers[2].len == count * sizeof(int64_t)
                and buffers[3].len == count * sizeof(int64_t)
                and entries_at + (first + count) * INDEX_ENTRY_SIZE <= buffers[0].len):
            file.slots = <u8*>buffers[0].buf + slots_at
            file.entries = <u8*>buffers[0].buf + entries_at
            file.slot_count = slots
            file.begin_ms = begin_ms
            unused = put_keys(&file, first, count, <const int*>buffers[1].buf, <const int64_t*>buffers[2].buf,
                              <const int64_t*>buffers[3].buf)
    except (BufferError, TypeError, ValueError):
        pass  # columns of another form
    finally:
        for i in range(held):
            PyBuffer_Release(&buffers[i])
    return None if unused < 0 else unused


cdef class LogTail:
    """See L{smartgo.store.tails.PureLogTail}."""

    cdef log_tail c
    cdef object _view
    # By a pointer: a buffer that the garbage collector knew of would let it clear the view while it is exported.
    cdef Py_buffer *_exported

    def __cinit__(self, *arguments, **named):
        self.c.limit = -1
        self._view = memoryview(b"")

    def __init__(self):
        """Make the tail of an empty log."""

    def __dealloc__(self):
        self.let_go()

    cdef void let_go(self) noexcept:
        cdef Py_buffer *exported = self._exported
        self._exported = NULL
        self.c.at = NULL
        self.c.size = 0
        if exported != NULL:
            PyBuffer_Release(exported)
            free(exported)

    @property
    def view(self):
        return self._view

    @view.setter
    def view(self, view):
        cdef Py_buffer *exported = NULL
        if len(view):
            exported = <Py_buffer*>malloc(sizeof(Py_buffer))
            if exported == NULL:
                raise MemoryError
            try:
                PyObject_GetBuffer(view, exported, PyBUF_WRITABLE)
            except BaseException:
                free(exported)
                raise
        self.let_go()
        self._view = view
        self._exported = exported
        if exported != NULL:
            self.c.at = <u8*>exported.buf
            self.c.size = exported.len

    @property
    def end(self):
        return self.c.end

    @end.setter
    def end(self, int64_t value):
        self.c.end = value

    @property
    def torn(self):
        return self.c.torn

    @torn.setter
    def torn(self, int64_t value):
        self.c.torn = value

    @property
    def stored_ms(self):
        return self.c.stored_ms

    @stored_ms.setter
    def stored_ms(self, int64_t value):
        self.c.stored_ms = value

    @property
    def now_ms(self):
        return self.c.now_ms

    @now_ms.setter
    def now_ms(self, int64_t value):
        self.c.now_ms = value

    @property
    def base(self):
        return self.c.base

    @base.setter
    def base(self, int64_t value):
        self.c.base = value

    @property
    def limit(self):
        return self.c.limit

    @limit.setter
    def limit(self, int64_t value):
        self.c.limit = value


cdef class QueueTail:
    """See L{smartgo.store.tails.PureQueueTail}."""

    cdef queue_tail c
    cdef bytes _topic_part
    cdef public list pending, codes, staged
    cdef public object delay_ms
    cdef public bint dropped

    def __cinit__(self, *arguments, **named):
        self.topic_part = b""
        self.pending = []
        self.codes = []
        self.staged = []

    def __init__(self):
        """Make the tail of an empty queue."""

    @property
    def topic_part(self):
        return self._topic_part

    @topic_part.setter
    def topic_part(self, bytes value not None):
        self._topic_part = value
        set_span(&self.c.topic_part, value)

    @property
    def next_offset(self):
        return self.c.next_offset

    @next_offset.setter
    def next_offset(self, int64_t value):
        self.c.next_offset = value

    @property
    def reserved(self):
        return self.c.reserved

    @reserved.setter
    def reserved(self, int64_t value):
        self.c.reserved = value

    @property
    def stored_ms(self):
        return self.c.stored_ms

    @stored_ms.setter
    def stored_ms(self, int64_t value):
        self.c.stored_ms = value

    @property
    def overhead(self):
        return self.c.overhead

    @overhead.setter
    def overhead(self, int64_t value):
        self.c.overhead = value

    @property
    def queue_id(self):
        return self.c.queue_id

    @queue_id.setter
    def queue_id(self, int64_t value):
        self.c.queue_id = value


def pick_units(QueueTail queue not None, int64_t offset, units, codes, limit, window, int64_t minimum,
               int64_t checked_until):
    """See L{smartgo.store.queues.picking.pure_pick_units}."""
    cdef pick_request request
    cdef log_window log
    cdef picked found
    cdef int64_t wanted[CODES + 1]
    cdef int64_t count, code, i, at
    cdef Py_buffer content, packed
    cdef bint has_content = False, has_packed = False
    cdef log_run *runs = NULL
    request.topic_part = queue.c.topic_part
    request.queue_id = queue.c.queue_id
    request.offset = offset
    request.minimum = minimum
    request.checked_until = checked_until
    request.max_count, request.max_size = limit
    request.codes = NULL
    if codes is not None:
        if len(codes) > CODES:
            return None
        count = 0
        for one in codes:
            if not -0x80000000 <= one <= 0x7FFFFFFF:
                return None
            code = one
            at = count
            while at and wanted[at - 1] > code:
                wanted[at] = wanted[at - 1]
                at -= 1
            wanted[at] = code
            count += 1
        request.codes = wanted
        request.code_count = count
    view, base, end = window
    log.base = base
    log.end = end
    try:
        PyObject_GetBuffer(view, &content, PyBUF_SIMPLE)
        has_content = True
        PyObject_GetBuffer(units, &packed, PyBUF_SIMPLE)
        has_packed = True
        log.at = <const u8*>content.buf
        count = packed.len // UNIT_SIZE
        if count < 1 or log.end - log.base > content.len:
            return None
        runs = <log_run*>malloc(count * sizeof(log_run))
        if runs == NULL:
            raise MemoryError
        if not pick_records(&request, &log, <const u8*>packed.buf, count, runs, &found):
            return None
        parts = [view[runs[i].begin - log.base : runs[i].end - log.base] for i in range(found.runs)]
        return parts, found.count, found.size, found.next_offset, found.last, bool(found.removing)
    finally:
        free(runs)
        if has_packed:
            PyBuffer_Release(&packed)
        if has_content:
            PyBuffer_Release(&content)


def adjacent_units(units):
    """See L{smartgo.store.queues.picking.pure_adjacent_units}."""
    cdef Py_buffer packed
    cdef int64_t first, last, size
    PyObject_GetBuffer(units, &packed, PyBUF_SIMPLE)
    try:
        if packed.len < UNIT_SIZE:
            return None
        if not adjacent_records(<const u8*>packed.buf, packed.len // UNIT_SIZE, &first, &last, &size):
            return None
        return first, last, size
    finally:
        PyBuffer_Release(&packed)


cdef bint is_named(bytes name, span asked) noexcept:
    return len(name) == asked.n and memcmp(PyBytes_AsString(name), asked.p, asked.n) == 0


include "grants.pxi"


cdef class Route:
    """The queues of a topic that sends are known for, and what was stored in it since the last L{SendRun.drain}."""

    cdef bytes name
    cdef str topic
    cdef list queues
    cdef int64_t count, size, calls


cdef struct written:
    u8 *data
    int64_t size, room


cdef class SendRun:
    """See L{smartgo.broker.sendrun.PureSendRun}."""

    cdef LogTail log
    cdef object find, read_clock
    cdef dict routes
    cdef Route last
    cdef list counted
    cdef bint later
    cdef send_rules rules
    cdef answer_pieces pieces
    cdef list kept  # the objects whose bytes are pointed to
    cdef span *special
    cdef u8 *scratch
    cdef written out  # answers
    cdef written late  # those that wait for a flush or a slave
    cdef int64_t late_count  # requests that wait, the answers to some of which nobody wants
    cdef object code  # the last tag code, as an object
    cdef int64_t code_value
    cdef RunGrants grants

    def __cinit__(self, LogTail log not None, find, rules, pieces, RunGrants grants=None):
        cdef int i
        self.log = log
        self.find = find
        self.grants = grants
        self.read_clock = log.read_clock
        self.routes = {}
        self.counted = []
        self.later = rules.later
        self.kept = [rules.store_host, rules.added, pieces.id_prefix, *rules.special, *pieces.json, *pieces.binary]
        set_span(&self.rules.store_host, rules.store_host)
        set_span(&self.rules.added.pair, rules.added)
        self.rules.added.name_size = rules.added.index(b"\x01")
        self.rules.body_limit = rules.body_limit
        self.rules.count_limit = rules.count_limit
        self.special = <span*>malloc(sizeof(span) * (len(rules.special) + 1))
        self.scratch = <u8*>malloc(HEADER_LIMIT)
        self.rules.properties = <u8*>malloc(PROPERTIES_LIMIT + self.rules.added.pair.n + 1)
        if self.special == NULL or self.scratch == NULL or self.rules.properties == NULL:
            raise MemoryError
        for i, name in enumerate(rules.special):
            set_span(&self.special[i], name)
        self.rules.special.names = self.special
        self.rules.special.count = len(rules.special)
        json, binary = pieces.json, pieces.binary
        if len(json) != 5 or len(binary) != 6:
            raise ValueError("an answer has 5 pieces in JSON and 6 in binary")
        for i in range(5):
            set_span(&self.pieces.json[i], json[i])
        for i in range(6):
            set_span(&self.pieces.binary[i], binary[i])
        set_span(&self.pieces.id_prefix, pieces.id_prefix)
        self.code = 0

    def __dealloc__(self):
        free(self.special)
        free(self.scratch)
        free(self.rules.properties)
        free(self.out.data)
        free(self.late.data)

    def forget(self):
        """See L{PureSendRun.forget}."""
        self.last = None
        self.routes.clear()

    def drain(self):
        """See L{PureSendRun.drain}."""
        cdef Route route
        found = []
        for route in self.counted:
            found.append((route.topic, route.count, route.size, route.calls))
            route.count = route.size = route.calls = 0
        self.counted.clear()
        return found

    def take(self, list frames not None, Py_ssize_t begin, bytes born_host not None, list out not None, int64_t room,
             Py_ssize_t limit):
        """See L{PureSendRun.take}."""
        cdef Py_ssize_t at = begin, stop = len(frames)
        cdef span host, frame
        set_span(&host, born_host)
        if begin < 0:
            raise IndexError("begin")
        if stop - begin > limit:
            stop = begin + limit
        self.out.size = 0
        try:
            while at < stop and self.out.size <= room:
                set_span(&frame, frames[at])
                if not self.one(frame.p, frame.n, host, out):
                    break
                at += 1
        except Exception:
            if at == begin:
                raise
            # It comes again when the caller goes on at that frame; what was taken before it is not lost.
        finally:
            if self.out.size:
                out.append(PyBytes_FromStringAndSize(<char*>self.out.data, self.out.size))
        return at - begin

    cdef int begin(self) noexcept:
        """Forget the answers that were handed over."""
        self.out.size = self.late.size = self.late_count = 0
        return 0

    cdef int one(self, const u8 *frame, int64_t size, span born_host, list stored) except -1:
        """
        Take a frame; 0: it was not, and nothing is changed.

        Where answers wait and C{stored} is a list, it gets a L{StoredSend}; else the answer goes where its like go.
        """
        cdef send_request request
        cdef append_plan plan
        cdef QueueTail queue
        cdef LogTail log = self.log
        cdef written *out
        cdef u8 unit[UNIT_SIZE]
        cdef ext_fields all_fields
        cdef bint guarded = self.grants is not None
        cdef bint unsigned = guarded and self.grants.is_unsigned
        cdef ext_fields *fields = &all_fields if guarded and not unsigned else NULL
        cdef int64_t offset = log.c.end, first
        if not read_send(&request, frame, size, self.scratch, fields):
            return 0
        if unsigned and request.names_key:  # it is judged by its signature, for which all fields are needed
            fields = &all_fields
            if not read_send(&request, frame, size, self.scratch, fields):
                return 0
        queue = self.queue_of(&request)
        if queue is None:
            return 0
        first = queue.c.next_offset
        if request.code == SEND_BATCH:
            return self.batch(&request, fields, queue, born_host, stored)
        if not plan_message(&self.rules, &log.c, &queue.c, &request, born_host, &plan):
            return 0
        if self.grants is not None and not self.grants.let_pass(request.code, request.topic, NO_NAME, fields, request.body):
            return 0
        if not log.c.now_ms:
            self.read_clock()
        out = self.room_for(&request, plan.wait, 1, stored)
        write_message(&self.rules, &log.c, &queue.c, &request, born_host, &plan, unit)
        code = self.code_of(plan.tag_code)
        self.stage(queue, PyBytes_FromStringAndSize(<char*>unit, UNIT_SIZE))
        queue.codes.append(code)
        self.move(queue, &plan)
        if out != NULL:
            self.answer(out, &request, &offset, 1, first)
        elif self.later and stored is not None:
            stored.append((request.encoding, request.opaque, request.flag, bool(plan.wait), self.last.topic,
                           request.queue_id, (offset, log.c.end, first, log.c.stored_ms, (offset,))))
        return 1

    cdef int batch(self, send_request *request, const ext_fields *fields, QueueTail queue, span born_host,
                   list stored) except -1:
        """Take a batch; 0: it was not, and nothing is changed."""
        cdef append_plan plan
        cdef LogTail log = self.log
        cdef written *out
        cdef int64_t *offsets
        cdef int64_t *codes
        cdef u8 *units
        cdef int64_t i, offset = log.c.end, first = queue.c.next_offset
        if not plan_batch(&self.rules, &log.c, &queue.c, request, born_host, &plan):
            return 0
        if self.grants is not None and not self.grants.let_pass(request.code, request.topic, NO_NAME, fields, request.body):
            return 0
        if not log.c.now_ms:
            self.read_clock()
        out = self.room_for(request, plan.wait, plan.count, stored)
        offsets = <int64_t*>malloc(plan.count * (2 * sizeof(int64_t) + UNIT_SIZE))
        if offsets == NULL:
            raise MemoryError
        try:
            codes = offsets + plan.count
            units = <u8*>(codes + plan.count)
            write_batch(&self.rules, &log.c, &queue.c, request, born_host, &plan, offsets, codes, units)
            third = [self.code_of(codes[i]) for i in range(plan.count)]
            self.stage(queue, PyBytes_FromStringAndSize(<char*>units, UNIT_SIZE * plan.count))
            queue.codes += third
            self.move(queue, &plan)
            if out != NULL:
                self.answer(out, request, offsets, plan.count, first)
            elif self.later and stored is not None:
                stored.append((request.encoding, request.opaque, request.flag, bool(plan.wait), self.last.topic,
                               request.queue_id,
                               (offset, log.c.end, first, log.c.stored_ms, [offsets[i] for i in range(plan.count)])))
        finally:
            free(offsets)
        return 1

    cdef QueueTail queue_of(self, const send_request *request):
        """The queue that a request may be appended to as it is; C{None}: there is none."""
        cdef Route route = self.last
        cdef QueueTail queue
        cdef int64_t queue_id = request.queue_id
        cdef const u8 *name = request.topic.p
        cdef int64_t size = request.topic.n
        if queue_id < 0 or queue_id >= QUEUES or size > 127:
            return None
        if route is None or len(route.name) != size or memcmp(PyBytes_AsString(route.name), name, size) != 0:
            key = PyBytes_FromStringAndSize(<char*>name, size)
            found = self.routes.get(key)
            if found is None:
                return self.learn(key, queue_id)
            route = self.last = <Route>found
        if queue_id < len(route.queues):
            found = route.queues[queue_id]
            if found is not None:
                queue = <QueueTail>found
                if not queue.dropped:
                    return queue
        return self.learn(route.name, queue_id)

    cdef QueueTail learn(self, bytes name, int64_t queue_id):
        """Ask for a queue, and keep it."""
        cdef Route route
        cdef QueueTail queue
        if not name.isascii():
            return None
        topic = name.decode("ascii")
        found = self.find(topic, queue_id)
        if found is None:
            return None
        queue = <QueueTail?>found
        route = self.routes.get(name)
        if route is None:
            if len(self.routes) >= ROUTES:
                self.forget()
            route = Route()
            route.name = name
            route.topic = topic
            route.queues = []
            self.routes[name] = route
        self.last = route
        while len(route.queues) <= queue_id:
            route.queues.append(None)
        route.queues[queue_id] = queue
        return queue

    cdef object code_of(self, int64_t value):
        if value != self.code_value:
            self.code = value
            self.code_value = value
        return self.code

    cdef int stage(self, QueueTail queue, bytes units) except -1:
        if not queue.pending:
            queue.staged.append(queue)
        queue.pending.append(units)
        return 0

    cdef int move(self, QueueTail queue, const append_plan *plan) except -1:
        """Move the ends of log and queue, and count."""
        cdef log_tail *log = &self.log.c
        cdef Route route = self.last
        log.end += plan.size
        log.stored_ms = log.now_ms
        queue.c.next_offset += plan.count
        queue.c.stored_ms = log.now_ms
        if not route.calls:
            self.counted.append(route)
        route.calls += 1
        route.count += plan.count
        route.size += plan.size
        return 0

    cdef written *room_for(self, const send_request *request, bint wait, int64_t count, list stored) except? NULL:
        """Make room for one more answer; return where it goes. C{NULL}: there is none, or none yet."""
        cdef written *out
        cdef int64_t wanted
        cdef u8 *data
        if self.later and stored is not None:
            return NULL
        out = &self.late if self.later and wait else &self.out
        if not request.flag & ONE_WAY:
            wanted = out.size + answer_room(&self.pieces, count)
            if wanted > out.room:
                data = <u8*>realloc(out.data, wanted * 2)
                if data == NULL:
                    raise MemoryError
                out.data = data
                out.room = wanted * 2
        return out

    cdef void answer(self, written *out, const send_request *request, const int64_t *offsets, int64_t count,
                     int64_t queue_offset) noexcept:
        cdef u8 *end
        if out == &self.late:
            self.late_count += 1
        if not request.flag & ONE_WAY:
            end = put_answer(out.data + out.size, &self.pieces, request, offsets, count, queue_offset)
            out.size = end - out.data


cdef class Lane:
    """One link in the hub."""

    cdef int fd
    cdef object link
    cdef tuple sources
    cdef bytes host
    cdef u8 *out  # answers that leave at the end of the turn
    cdef int64_t out_size, out_room
    cdef bytes kept  # what was read, and waits for its share of this turn
    cdef bint attached, gathers, answers

    def __dealloc__(self):
        free(self.out)


cdef class KeptAnswers:
    """
    The answers to sends of a link that wait for a flush or a slave: one L{KeptAnswers<smartgo.net.hub.KeptAnswers>}.

    @ivar count: of how many requests.
    @ivar size: about how many bytes are kept for them.
    """

    cdef object link, source
    cdef Lane lane
    cdef bytes data
    cdef readonly int64_t count, size

    held = False

    def forget(self):
        """See L{smartgo.net.hub.KeptAnswers.forget}."""
        self.link = self.lane = self.data = self.source = None

    def cancel(self):
        """See L{smartgo.net.hub.KeptAnswers.cancel}."""

    def give_up(self):
        """See L{smartgo.net.hub.KeptAnswers.give_up}."""
        link, data, source = self.link, self.data, self.source
        if link is not None and link.done(self):
            self.forget()
            link.put(source.given_up(data))


cdef class Hub  # below


cdef class KeptGroup:
    """The answers of one turn of the hub, of any number of links; called when they may leave."""

    cdef Hub hub
    cdef list kept

    def __call__(self, weaker):
        hub, self.hub = self.hub, None
        kept, self.kept = self.kept, None
        if hub is not None:
            (<Hub>hub).release(kept, weaker)


include "pulls.pxi"


cdef class Hub:
    """See L{smartgo.net.hub.PureHub}."""

    cdef object make_poller, poller, timers, turns
    cdef dict lanes
    cdef list answering, behind  # lanes with answers, and those with bytes that wait for their share
    cdef int epoll
    cdef u8 *buffer
    cdef int64_t waiting  # frames that were taken, and whose answers have not left
    cdef int64_t share  # of a link, in frames
    cdef tuple sources  # asked last in this turn, and what they said
    cdef SendRun run
    cdef object sender  # the source of the run of sends
    cdef PullRun pulls
    cdef int watched  # see IPoller.watched
    cdef int64_t stay  # microseconds
    cdef int64_t taken_us  # when frames were taken last
    cdef list keeping  # answers of this turn that wait for a flush or a slave
    cdef object keeper  # the source of the run that they are of
    cdef int64_t keeping_end  # of the last record that they are about
    cdef bint turning  # whether all answers leave soon by themselves
    cdef bint woken  # whether C{turn} will be called
    cdef bint answered  # whether answers have left since the reactor called
    cdef bint passed  # whether anything was done in Python since then: it may have left work to the reactor

    def __cinit__(self, make_poller, timers, double stay=0.002):
        self.make_poller = make_poller
        self.timers = timers
        self.lanes = {}
        self.answering = []
        self.behind = []
        self.keeping = []
        self.epoll = self.watched = -1
        self.stay = <int64_t>(stay * 1e6)
        self.buffer = <u8*>malloc(READ_SIZE)
        if self.buffer == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.buffer)

    def __len__(self):
        return len(self.lanes)

    def attach(self, link, handle, tuple sources not None):
        """See L{PureHub.attach}."""
        cdef Lane lane
        try:
            if self.poller is None:
                self.poller = self.make_poller(self.ready)
                if self.poller is None:
                    return None  # the handle may well be no socket
                self.epoll = self.poller.fileno()
                self.watched = self.poller.watched()
            fd = handle.fileno()
            self.poller.add(fd)
        except OSError:
            self.leave_if_empty()
            return None
        lane = Lane()
        lane.fd = fd
        lane.link = link
        lane.sources = sources
        lane.host = link.host
        lane.gathers = True  # perhaps
        lane.attached = True
        self.lanes[fd] = lane
        return lane

    def detach(self, Lane lane not None):
        """See L{PureHub.detach}."""
        lane.attached = False
        self.hand_over(lane)  # the link may be about to write its last words
        del self.lanes[lane.fd]
        if self.poller is not None:
            self.poller.remove(lane.fd)
            self.leave_if_empty()

    cdef int leave_if_empty(self) except -1:
        """Free the descriptor where there is nobody to be read."""
        if self.poller is not None and not self.lanes:
            poller, self.poller = self.poller, None
            self.epoll = -1
            poller.close()
        return 0

    def ready(self):
        """
        Read every link that can be read, then answer all.

        Where frames come in quick succession, read again, and wait for more of them, until C{stay} is over or the
        reactor has anything else to do: that spares its turns, and the runs end once, behind all answers.
        """
        cdef epoll_event events[SOCKETS]
        cdef int count
        cdef int64_t more, left, taken = 0, begin = now_us(), stay = 0
        if self.epoll < 0:
            return
        timers = self.timers
        began = timers.clock.seconds()
        if began > timers.overdue:
            timers.stood_still(began)
        self.turns = timers.turns
        self.turns.began_at = began
        self.sources = None
        self.passed = self.answered = False
        if begin - self.taken_us < self.stay:
            stay = <int64_t>(min(self.stay * 1e-6, self.poller.spare()) * 1e6)
        try:
            more = self.read_all(events, epoll_wait(self.epoll, events, SOCKETS, 0))
            while more:
                taken += more
                self.taken_us = now_us()
                left = begin + stay - self.taken_us
                if left <= 0 or self.passed or self.epoll < 0:
                    break
                if self.watched >= 0 and (self.awaited() or not self.wait(left)):
                    break
                count = epoll_wait(self.epoll, events, SOCKETS, 0)
                if count <= 0:
                    break
                more = self.read_all(events, count)
        finally:
            self.end_runs()
        if taken:
            timers.note_runs(began, taken)

    cdef int end_runs(self) except -1:
        """End the runs, and forget what they are of: whatever is told of their messages may change it."""
        self.sources = self.sender = self.run = self.pulls = None
        if self.turns.begun:
            self.turns.end_runs()
        return 0

    cdef bint wait(self, int64_t most_us) noexcept:
        """Wait until anything is ready; tell whether it is for the hub alone."""
        cdef epoll_event ready[2]
        cdef int count, watched = self.watched, most = <int>((most_us + 999) // 1000)
        with nogil:
            count = epoll_wait(watched, ready, 2, most)
        return count == 1 and ready[0].data.fd == self.epoll

    cdef bint awaited(self) except -1:
        """Tell whether anybody waits for what was taken, so that the runs are to end now."""
        return self.sources is None or self.sender is None or self.sender.awaited()

    cdef int64_t read_all(self, epoll_event *events, int count) except -1:
        """Read each of these links once, and answer; return how many frames were taken."""
        cdef Lane lane
        cdef int i
        cdef int64_t taken = 0
        self.waiting = 0
        self.share = SHARE if count > 1 else READ_SIZE
        self.turning = True
        try:
            for i in range(count):
                found = self.lanes.get(events[i].data.fd)
                if found is None:
                    continue
                lane = <Lane>found
                try:
                    taken += self.read(lane)
                except Exception:
                    self.passed = True
                    lane.link.broke()
                if self.waiting >= TOGETHER:
                    self.answer_all()
            self.ask_about_kept()
            self.answer_all()
            while self.behind:
                taken += self.go_round()
        finally:
            self.turning = False
        return taken

    def turn(self):
        """Write the answers that may leave now: see L{WokenLink<smartgo.net.turns.WokenLink>}."""
        self.woken = False
        self.answer_all()

    def flush(self):
        """Write the answers that may leave now."""
        self.answer_all()

    cdef int ask_about_kept(self) except -1:
        """Ask when the answers that this turn has kept may leave."""
        cdef KeptGroup group
        cdef KeptAnswers one
        if not self.keeping:
            return 0
        keeper, self.keeper = self.keeper, None
        kept, self.keeping = self.keeping, []
        group = KeptGroup()
        group.hub = self
        group.kept = kept
        try:
            keeper.when_durable(self.keeping_end, group)
        except Exception:
            self.passed = True
            for one in kept:
                if one.link is not None:
                    one.link.broke()
        return 0

    cdef int release(self, list kept, weaker) except -1:
        """Let answers leave, at the end of this turn; C{weaker} makes others of them."""
        cdef KeptAnswers one
        cdef Lane lane
        cdef span data
        for one in kept:
            link, lane, answers = one.link, one.lane, one.data
            if link is None or not link.done(one):
                continue
            one.forget()
            if not answers:
                continue
            try:
                if weaker is not None:
                    answers = weaker(answers)
                if lane.attached:
                    set_span(&data, answers)
                    self.put(lane, data.p, data.n)
                else:
                    link.put(answers)
            except Exception:
                link.broke()
        if self.answering and not self.turning and not self.woken:
            self.woken = True
            self.timers.turns.wake(self)
        return 0

    cdef int ask(self, tuple sources) except -1:
        """Ask what takes frames now."""
        if sources is self.sources:
            return 0
        self.sources = sources
        self.run = self.sender = self.pulls = None
        for source in sources:
            found = source.ready_run()
            if isinstance(found, PullRun):
                self.pulls = found
            elif found is not None:
                self.run = <SendRun?>found
                self.sender = source
        return 0

    cdef int64_t go_round(self) except -1:
        """Give a share to each lane whose bytes wait for it; return how many frames were taken."""
        cdef Lane lane
        cdef bytes kept
        cdef span data
        cdef int64_t taken = 0
        behind, self.behind = self.behind, []
        for one in behind:
            lane = <Lane>one
            kept, lane.kept = lane.kept, None
            set_span(&data, kept)
            try:
                taken += self.serve(lane, data.p, data.n)
            except Exception:
                self.passed = True
                lane.link.broke()
            if self.waiting >= TOGETHER:
                self.answer_all()
        self.ask_about_kept()
        self.answer_all()
        return taken

    cdef int64_t read(self, Lane lane) except -1:
        """Read a link once; return how many frames were taken."""
        cdef ssize_t size = recv(lane.fd, self.buffer, READ_SIZE, MSG_DONTWAIT)
        if size > 0:
            return self.serve(lane, self.buffer, size)
        if size == 0 or (errno != EAGAIN and errno != EINTR):
            self.passed = True
            lane.link.give_back()  # its answers still leave at the end of the turn
        return 0

    cdef int64_t serve(self, Lane lane, const u8 *data, int64_t size) except -1:
        """
        Let a share of what was read be taken; return how many frames were.

        What is not taken goes to the link: where many sends follow it, by itself, else with all that follows. Nobody
        reads these bytes again: they go to the link also when it has left the hub.
        """
        cdef int64_t at = 0, taken = 0, missing, end, least = 1
        if lane.gathers and lane.attached:
            missing = lane.link.missing
            at = size if missing < 0 or missing > size else missing
            if at:
                self.pass_on(lane, data, at)
            if at == size:
                return 0
            lane.gathers = False
        while lane.attached:
            taken += self.take(lane, data, &at, size, self.share - taken)
            if at == size:
                return taken
            if taken >= self.share:
                lane.kept = PyBytes_FromStringAndSize(<char*>data + at, size - at)
                self.behind.append(lane)
                return taken
            end = size if self.run is None else self.stretch(data, at, size, least)
            if end == size:
                break
            self.pass_on(lane, data + at, end - at)
            at = end
            least *= 2  # so that many frames that are never taken do not go one by one
        lane.gathers = True
        self.pass_on(lane, data + at, size - at)
        return taken

    cdef int64_t stretch(self, const u8 *data, int64_t at, int64_t size, int64_t least) noexcept:
        """Return where a stretch of sends begins, behind as many frames at least; C{size}: nowhere."""
        cdef int64_t length, begin = at, alike = 0
        while size - at >= 4:
            length = get32(data + at)
            if length > size - at - 4:
                break
            if least > 0 or not may_be_send(data + at + 4, length):
                least -= 1
                alike = 0
                begin = at + 4 + length
            else:
                alike += 1
                if alike == STRETCH:
                    return begin
            at += 4 + length
        return size

    cdef int64_t take(self, Lane lane, const u8 *data, int64_t *at, int64_t size, int64_t most) except -1:
        """Let whole frames be taken, up to the first that is not; return how many, and in C{at} what is left."""
        cdef SendRun run
        cdef PullRun pulls
        cdef const u8 *frame
        cdef span host
        cdef int64_t length, taken = 0, sends = 0, spare = 1
        self.ask(lane.sources)
        run, pulls = self.run, self.pulls
        set_span(&host, lane.host)
        if run is not None:
            run.begin()
            if run.later:
                spare = lane.link.spare
        try:
            while taken < most and lane.attached and size - at[0] >= 4 and (run is None or run.late_count < spare):
                frame = data + at[0] + 4
                length = get32(data + at[0])
                if length > size - at[0] - 4:
                    break
                if run is not None and run.one(frame, length, host, None):
                    sends += 1
                elif pulls is None or (run is not None and (run.out.size or run.late_count)) or (self.answered and self.turns.begun):
                    break  # who has an answer may ask for what was stored, and that is not readable yet
                elif pulls.one(lane, frame, length):
                    self.passed = True
                else:
                    break
                at[0] += 4 + length
                taken += 1
        except Exception:
            pass  # the link goes on at that frame, and meets it again
        if sends:
            run_ended = self.sender.run_ended
            if run_ended not in self.turns.begun:
                self.turns.begun.append(run_ended)
            self.waiting += sends
            if run.out.size:
                self.put(lane, run.out.data, run.out.size)
        if taken:
            lane.link.took(taken)
        if sends and run.late_count:
            self.keep(lane, run)
        return taken

    cdef int keep(self, Lane lane, SendRun run) except -1:
        """Keep answers of a run until what they are about is on the disk, or where else it has to be."""
        cdef KeptAnswers one = KeptAnswers()
        if self.keeper is not self.sender:
            self.ask_about_kept()
            self.keeper = self.sender
        one.link = lane.link
        one.lane = lane
        one.source = self.sender
        one.count = run.late_count
        one.size = KEPT + run.late.size
        one.data = PyBytes_FromStringAndSize(<char*>run.late.data, run.late.size)
        self.keeping.append(one)
        self.keeping_end = run.log.c.end
        lane.link.begun(one)  # which may be one too many
        return 0

    cdef int put(self, Lane lane, const u8 *data, int64_t size) except -1:
        """Put answers to those that leave at the end of the turn."""
        cdef int64_t wanted = lane.out_size + size
        cdef u8 *out
        if wanted > lane.out_room:
            out = <u8*>realloc(lane.out, wanted)
            if out == NULL:
                raise MemoryError
            lane.out = out
            lane.out_room = wanted
        memcpy(lane.out + lane.out_size, data, size)
        lane.out_size = wanted
        if not lane.answers:
            lane.answers = True
            self.answering.append(lane)
        return 0

    cdef int pass_on(self, Lane lane, const u8 *data, int64_t size) except -1:
        """Give bytes to the link, behind the answers to what came before them."""
        self.passed = True
        if self.answered and self.turns.begun:
            self.turns.end_runs()  # who has an answer may ask for what was stored
        self.hand_over(lane)
        lane.link.dataReceived(PyBytes_FromStringAndSize(<char*>data, size))
        self.sources = None  # whatever that was, the same may be refused now
        return 0

    cdef int hand_over(self, Lane lane) except -1:
        """Put the answers of a lane to what the link writes next."""
        if lane.out_size:
            lane.link.out.append(PyBytes_FromStringAndSize(<char*>lane.out, lane.out_size))
            self.empty(lane)
        return 0

    cdef int empty(self, Lane lane) except -1:
        """Forget answers that have left, and keep no large room for the next ones: there may be many lanes."""
        lane.out_size = 0
        if lane.out_room > ROOM_KEPT:
            free(lane.out)
            lane.out = NULL
            lane.out_room = 0
        return 0

    cdef int answer_all(self) except -1:
        """Write all answers."""
        cdef Lane lane
        self.waiting = 0
        answering = self.answering
        if answering:
            self.answering = []
            self.answered = True
        for one in answering:
            (<Lane>one).answers = False
        for one in answering:
            lane = <Lane>one
            try:
                self.write(lane)
            except Exception:
                self.passed = True
                lane.link.broke()
        return 0

    cdef int write(self, Lane lane) except -1:
        cdef ssize_t sent
        link = lane.link
        if not lane.attached or link.out or link.unsent:
            self.passed = True
            self.hand_over(lane)
            link.flush()
            return 0
        if not lane.out_size:
            return 0
        sent = send(lane.fd, lane.out, lane.out_size, MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent != lane.out_size:
            data = PyBytes_FromStringAndSize(<char*>lane.out, lane.out_size)
            self.empty(lane)
            self.passed = True
            link.wrote(data, max(sent, 0))
            return 0
        return self.empty(lane)


include "logcolumns.pxi"
