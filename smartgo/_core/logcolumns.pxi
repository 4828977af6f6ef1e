# Columns of the log's records: see smartgo.spark.decoder. Included by sends.pyx.

cdef extern from "logcolumns.h":
    enum: LOG_COLUMNS, COLUMNS_REGIONS, WALK_BOUND, WALK_FULL, WALK_SHORT, WALK_ODD
    ctypedef struct log_columns:
        unsigned int wanted
        int checks, opens
        int64_t row_limit, capacity, rows, taken, stored_ms
        int64_t nulls[LOG_COLUMNS]
    ctypedef struct column_region:
        void **at
        int64_t size
        int column, role
    ctypedef struct column_walk:
        int64_t records, size
        int end
    void log_columns_begin()
    int column_regions(log_columns *columns, column_region *all)
    void empty_columns(log_columns *columns)
    void read_columns(log_columns *columns, span bytes, int64_t bound, int64_t base, span mask, column_walk *walk)

log_columns_begin()

cdef enum:
    ALIGNMENT = 64  # of regions, as Arrow likes it


cdef class LogColumns:
    """See L{smartgo.spark.decoder.ColumnWriter}."""

    cdef log_columns c
    cdef column_region regions[COLUMNS_REGIONS]
    cdef int64_t begins[COLUMNS_REGIONS]
    cdef int count
    cdef object block
    cdef readonly int64_t size
    cdef readonly list layout

    def __init__(self, unsigned int wanted, int64_t rows, int64_t capacity, bint checks, bint opens):
        if rows < 1 or capacity < 1 or capacity > 0x40000000 or rows > 0x10000000 or wanted >> LOG_COLUMNS:
            raise ValueError("columns, rows or bytes out of their range")
        self.c.wanted = wanted
        self.c.checks = checks
        self.c.opens = opens
        self.c.row_limit = rows
        self.c.capacity = capacity
        self.c.rows = 0
        self.count = column_regions(&self.c, self.regions)
        self.size = 0
        self.layout = []
        for i in range(self.count):
            self.begins[i] = self.size
            self.layout.append((self.regions[i].column, self.regions[i].role, self.size, self.regions[i].size))
            self.size += (self.regions[i].size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

    cdef int place(self, Py_buffer *block) except -1:
        cdef int i
        if block.len < self.size or <size_t>block.buf % 8:
            raise ValueError("the block does not fit the columns")
        for i in range(self.count):
            self.regions[i].at[0] = <u8*>block.buf + self.begins[i]
        return 0

    @property
    def rows(self):
        return self.c.rows

    @property
    def stored_ms(self):
        return self.c.stored_ms

    def nulls(self, int column):
        return self.c.nulls[column] if 0 <= column < LOG_COLUMNS else 0

    def empty(self, block):
        cdef Py_buffer memory
        PyObject_GetBuffer(block, &memory, PyBUF_WRITABLE)
        try:
            self.block = None
            self.place(&memory)
            empty_columns(&self.c)
            self.block = block
        finally:
            PyBuffer_Release(&memory)

    def read(self, view, int64_t at, int64_t bound, int64_t base, mask):
        cdef Py_buffer buffers[3]
        cdef int held = 0, i
        cdef column_walk walk
        cdef span bytes, chosen
        chosen.p = NULL
        chosen.n = 0
        try:
            PyObject_GetBuffer(self.block, &buffers[0], PyBUF_WRITABLE)
            held = 1
            PyObject_GetBuffer(view, &buffers[1], PyBUF_SIMPLE)
            held = 2
            if mask is not None:
                PyObject_GetBuffer(mask, &buffers[2], PyBUF_SIMPLE)
                held = 3
                chosen.p = <const u8*>buffers[2].buf
                chosen.n = buffers[2].len
            if at < 0 or at > buffers[1].len:
                raise ValueError("there is no such place in the view")
            self.place(&buffers[0])
            bytes.p = <const u8*>buffers[1].buf + at
            bytes.n = buffers[1].len - at
            read_columns(&self.c, bytes, bound, base, chosen, &walk)
        finally:
            for i in range(held):
                PyBuffer_Release(&buffers[i])
        return walk.records, walk.size, walk.end
