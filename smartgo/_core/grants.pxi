# Who may send what: part of the module of sends, as the runs of sends and of pulls ask it.

cdef extern from "sha1.h":
    void sha1_begin()
    void sha1_blocks(unsigned int *h, const u8 *p, int64_t count)
    void sha1_blocks_plain(unsigned int *h, const u8 *p, int64_t count)

cdef extern from "signature.h":
    enum: SHA1_DIGEST
    ctypedef struct signing_key:
        pass
    void signing_key_of(signing_key *key, span secret)
    void sign_parts(const signing_key *key, const span *parts, int64_t count, u8 *digest)
    span field_named(const ext_fields *fields, const char *name)
    bint is_signed(const ext_fields *fields, span body, const signing_key *key)

sha1_begin()

cdef enum:
    GRANTS = 4096  # keys and what they may use; one more empties the table


def hmac_sha1(bytes secret, list parts not None):
    """Return the HMAC-SHA1 of some bytes in a row; for tests."""
    cdef signing_key key
    cdef span text
    cdef span spans[64]
    cdef u8 digest[SHA1_DIGEST]
    cdef int i
    set_span(&text, secret)
    signing_key_of(&key, text)
    for i, part in enumerate(parts[:64]):
        set_span(&spans[i], part)
    sign_parts(&key, spans, min(len(parts), 64), digest)
    return PyBytes_FromStringAndSize(<char*>digest, SHA1_DIGEST)


def sha1_state(bytes blocks, bint plain=False):
    """Return the words of a SHA-1 behind whole blocks; for tests."""
    cdef unsigned int h[5]
    cdef span all
    h[:] = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0]
    set_span(&all, blocks)
    if plain:
        sha1_blocks_plain(h, all.p, all.n // 64)
    else:
        sha1_blocks(h, all.p, all.n // 64)
    return [h[i] for i in range(5)]


cdef class Grant:
    """A key that may send requests of a code for a topic and a group, and its secret."""

    cdef bytes access_key, topic, group
    cdef int64_t code
    cdef signing_key secret


cdef class RunGrants:
    """See L{smartgo.remoting.rungrants.NoRunGrants}."""

    cdef object learn
    cdef dict known
    cdef Grant last
    cdef bytes unsigned  # the key of the account that frames without a key are of; empty for none
    cdef bint is_unsigned  # whether there is one

    def __cinit__(self, learn):
        self.learn = learn
        self.known = {}
        self.unsigned = b""

    def forget(self):
        """See L{NoRunGrants.forget}."""
        self.last = None
        self.known.clear()

    def unsigned_as(self, str access_key not None):
        """See L{NoRunGrants.unsigned_as}."""
        self.is_unsigned = access_key != ""
        self.unsigned = access_key.encode() if self.is_unsigned else b""

    cdef int let_pass(self, int64_t code, span topic, span group, const ext_fields *fields, span body) except -1:
        """
        Tell whether a request is of somebody who may send it; 0: it is not, or that is not known.

        Without fields it names no key.
        """
        cdef span access_key
        cdef Grant grant = self.last
        cdef bint signed = False
        if fields != NULL:
            access_key = field_named(fields, b"AccessKey")
            signed = access_key.n > 0
        if not signed:
            set_span(&access_key, self.unsigned)
            if access_key.n == 0:
                return 0
        if not (grant is not None and grant.code == code and is_named(grant.topic, topic)
                and is_named(grant.group, group) and is_named(grant.access_key, access_key)):
            grant = self.grant_of(code, topic, group, access_key)
            if grant is None:
                return 0
            self.last = grant
        return not signed or is_signed(fields, body, &grant.secret)

    cdef Grant grant_of(self, int64_t code, span topic, span group, span access_key):
        """Find a grant, or learn it; C{None}: there is none."""
        cdef Grant grant
        cdef span secret
        names = (PyBytes_FromStringAndSize(<char*>access_key.p, access_key.n), code,
                 PyBytes_FromStringAndSize(<char*>topic.p, topic.n), PyBytes_FromStringAndSize(<char*>group.p, group.n))
        found = self.known.get(names)
        if found is not None:
            return <Grant>found
        learned = self.learn(names[0].decode(), code, names[2].decode(), names[3].decode())
        if learned is None:
            return None
        grant = Grant()
        grant.access_key, grant.code, grant.topic, grant.group = names
        set_span(&secret, <bytes?>learned)
        signing_key_of(&grant.secret, secret)
        if len(self.known) >= GRANTS:
            self.known.clear()
        self.known[names] = grant
        return grant
