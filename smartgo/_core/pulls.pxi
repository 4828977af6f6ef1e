# The compiled run of pulls: part of the module of sends, as the hub gives frames to both.

cdef extern from "pullheader.h":
    enum: PULL, LITE_PULL, COMMIT, OWN_SUBSCRIPTION
    ctypedef struct pull_request:
        int encoding
        int64_t code, opaque, queue_id, queue_offset, max_count, sys_flag, commit_offset, version, max_size
        span group, topic, subscription, expression_type, body
    int read_pull(pull_request *request, const u8 *frame, int64_t size, u8 *scratch, ext_fields *fields)

cdef extern from "answers.h":
    enum: FOUND_NUMBERS
    ctypedef struct found_pieces:
        span json[6]
        span binary[6]
    int64_t found_room(const found_pieces *pieces)
    u8 *put_found(u8 *o, const found_pieces *pieces, int encoding, int64_t opaque, const int64_t *numbers,
                  int64_t body_size)

cdef extern from "sys/uio.h" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "sys/socket.h" nogil:
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int fd, const msghdr *message, int flags)

cdef extern from "string.h" nogil:
    void *memset(void *p, int c, size_t n)

cdef enum:
    SOURCES = 4096  # groups and topics; one more empties the table
    PARTS = 64  # pieces of an answer; a system has a limit to how many it gathers


cdef class Source:
    """A L{PullSource<smartgo.broker.pullrun.PullSource>}, as a run of pulls keeps it."""

    cdef bytes group_name, topic_name
    cdef object group, topic, filter
    cdef int64_t queues, near, far, version
    cdef bint subscribed


cdef class PullRun:
    """See L{smartgo.broker.pullrun.NoPullRun}."""

    cdef object learn, find_filter, read, count, commit, status, make_limit
    cdef dict sources
    cdef Source last
    cdef found_pieces pieces
    cdef list kept  # the objects whose bytes are pointed to
    cdef u8 *scratch
    cdef u8 *head  # of the answer
    cdef int64_t head_size, body_size
    cdef list parts  # the body of the answer
    cdef int64_t most_count, most_size
    cdef object limit  # of the last read
    cdef int64_t limit_count, limit_size
    cdef RunGrants grants

    def __cinit__(self, work, RunGrants grants=None):
        cdef int i
        self.grants = grants
        self.learn = work.learn
        self.find_filter = work.find_filter
        self.read = work.read
        self.count = work.count
        self.commit = work.commit
        self.status = work.status
        self.make_limit = type(work.limit)
        self.most_count, self.most_size = work.limit
        self.sources = {}
        json, binary = work.pieces
        self.kept = [*json, *binary]
        if len(json) != FOUND_NUMBERS + 2 or len(binary) != FOUND_NUMBERS + 2:
            raise ValueError("an answer has as many pieces as numbers, and two more")
        for i in range(FOUND_NUMBERS + 2):
            set_span(&self.pieces.json[i], json[i])
            set_span(&self.pieces.binary[i], binary[i])
        self.scratch = <u8*>malloc(HEADER_LIMIT)
        self.head = <u8*>malloc(found_room(&self.pieces))
        if self.scratch == NULL or self.head == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.scratch)
        free(self.head)

    def forget(self):
        """See L{NoPullRun.forget}."""
        self.last = None
        self.sources.clear()

    def answer(self, bytes frame not None):
        """See L{NoPullRun.answer}."""
        cdef span all
        set_span(&all, frame)
        if not self.find(all.p, all.n):
            return None
        parts, self.parts = self.parts, None
        return b"".join([PyBytes_FromStringAndSize(<char*>self.head, self.head_size), *parts])

    cdef int find(self, const u8 *frame, int64_t size) except -1:
        """Find what a pull asks for, and write the answer's head; 0: it is not taken, and nothing is changed."""
        cdef pull_request request
        cdef Source source
        cdef int64_t numbers[FOUND_NUMBERS]
        cdef ext_fields all_fields
        cdef ext_fields *fields = NULL if self.grants is None else &all_fields
        cdef int64_t count, body_size
        if not read_pull(&request, frame, size, self.scratch, fields):
            return 0
        source = self.source_of(&request)
        if source is None or request.queue_id < 0 or request.queue_id >= source.queues:
            return 0
        if fields != NULL and not self.grants.let_pass(request.code, request.topic, request.group, fields, request.body):
            return 0
        if request.sys_flag & OWN_SUBSCRIPTION:
            try:
                filter = self.own_filter(&request)
            except Exception:
                return 0
        elif source.subscribed and source.version >= request.version:
            filter = source.filter
        else:
            return 0
        result = <tuple>self.read(source.topic, request.queue_id, request.queue_offset, self.limit_of(&request), filter)
        if result[0] is not self.status:
            return 0
        parts = <list?>result[4]
        if len(parts) > PARTS:
            return 0
        numbers[0] = source.far if result[7] else source.near
        numbers[1] = result[1]
        numbers[2] = result[2]
        numbers[3] = result[3]
        count = result[5]
        body_size = result[6]
        if request.sys_flag & COMMIT and request.commit_offset >= 0 and self.commit is not None:
            self.commit(source.group, source.topic, request.queue_id, request.commit_offset)
        self.count(source.group, source.topic, count, body_size, request.queue_id)
        self.head_size = put_found(self.head, &self.pieces, request.encoding, request.opaque, numbers, body_size) - self.head
        self.body_size = body_size
        self.parts = parts
        return 1

    cdef Source source_of(self, const pull_request *request):
        """What is known of a pull's group and topic; C{None}: nothing that lets it be taken."""
        cdef Source source = self.last
        if source is not None and is_named(source.topic_name, request.topic) and is_named(source.group_name, request.group):
            return source
        group = PyBytes_FromStringAndSize(<char*>request.group.p, request.group.n)
        topic = PyBytes_FromStringAndSize(<char*>request.topic.p, request.topic.n)
        found = self.sources.get((group, topic))
        if found is None:
            known = self.learn(group.decode(), topic.decode())
            if known is None:
                return None
            source = Source()
            source.group_name = group
            source.topic_name = topic
            source.group, source.topic, source.queues, source.near, source.far, version, source.filter = known
            source.subscribed = version is not None
            if source.subscribed:
                source.version = version
            if len(self.sources) >= SOURCES:
                self.sources.clear()
            found = self.sources[group, topic] = source
        self.last = <Source>found
        return self.last

    cdef object own_filter(self, const pull_request *request):
        """The filter of the subscription that comes with a pull. @raise RequestRefused: there can be none."""
        cdef span text = request.subscription
        if request.expression_type.n == 0 or is_text(request.expression_type, b"TAG"):
            if text.n == 0 or is_text(text, b"*"):
                return None
            return self.find_filter(None, PyBytes_FromStringAndSize(<char*>text.p, text.n).decode())
        raise ValueError("another type of expression")

    cdef object limit_of(self, const pull_request *request):
        """How much the answer to a pull may have."""
        cdef int64_t count = min(max(request.max_count, 1), self.most_count)
        cdef int64_t size = self.most_size
        if request.max_size >= 0:
            size = min(size, max(request.max_size, 1))
        if self.limit is None or count != self.limit_count or size != self.limit_size:
            self.limit = self.make_limit(count, size)
            self.limit_count = count
            self.limit_size = size
        return self.limit

    cdef int one(self, Lane lane, const u8 *frame, int64_t size) except -1:
        """
        Answer a frame of a lane that has nothing unsent; 0: it is not taken, and nothing is changed.

        The answer leaves at once, straight from the log's pages.
        """
        cdef int64_t code = early_code(frame, size)
        if (code != PULL and code != LITE_PULL and code != CODE_LATER) or not lane.attached or lane.out_size:
            return 0
        link = lane.link
        if link.out or link.unsent or not self.find(frame, size):
            return 0
        try:
            self.write(lane)
        except Exception:
            link.broke()
        return 1

    cdef int write(self, Lane lane) except -1:
        """Write head and parts of the answer; what the socket does not take goes to the link."""
        cdef Py_buffer held[PARTS]
        cdef iovec pieces[PARTS + 1]
        cdef msghdr message
        cdef ssize_t sent
        cdef int count = 0, i
        parts, self.parts = self.parts, None
        memset(&message, 0, sizeof(message))
        pieces[0].iov_base = self.head
        pieces[0].iov_len = self.head_size
        try:
            for part in parts:
                PyObject_GetBuffer(part, &held[count], PyBUF_SIMPLE)
                count += 1
                pieces[count].iov_base = held[count - 1].buf
                pieces[count].iov_len = held[count - 1].len
            message.msg_iov = pieces
            message.msg_iovlen = count + 1
            sent = sendmsg(lane.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
        finally:
            for i in range(count):
                PyBuffer_Release(&held[i])
        if sent != self.head_size + self.body_size:
            data = b"".join([PyBytes_FromStringAndSize(<char*>self.head, self.head_size), *parts])
            lane.link.wrote(data, max(sent, 0))
        return 0


cdef bint is_text(span found, bytes wanted) noexcept:
    return is_named(wanted, found)
