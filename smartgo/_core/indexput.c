#include "indexput.h"

static uint32_t slot_value(const u8 *slot)
{
    return get32(slot);
}

/* In one piece, and behind all that was written before: others read along. */
static void set_slot(u8 *slot, uint32_t value)
{
    uint32_t stored;
    put32((u8 *)&stored, value);
    __atomic_store_n((uint32_t *)(void *)slot, stored, __ATOMIC_RELEASE);
}

static u8 *slot_of(const index_file *file, int32_t hash)
{
    return file->slots + hash % file->slot_count * INDEX_SLOT_SIZE;
}

static uint32_t seconds_since(int64_t begin_ms, int64_t stored_ms)
{
    if (begin_ms <= 0 || stored_ms <= begin_ms)
        return 0;
    int64_t seconds = (stored_ms - begin_ms) / 1000;
    return seconds < 0x7FFFFFFF ? (uint32_t)seconds : 0x7FFFFFFF;
}

int64_t put_keys(const index_file *file, int64_t first, int64_t count, const int32_t *hashes, const int64_t *offsets,
                 const int64_t *stored_ms)
{
    int64_t unused = 0;
    if ((uintptr_t)file->slots % INDEX_SLOT_SIZE)
        return -1;
    for (int64_t i = 0; i < count; i++)
        if (hashes[i] < 0)
            return -1;
    /* What leads nowhere goes first: later it could not be told from what these keys write. */
    for (int64_t i = 0; i < count; i++) {
        u8 *slot = slot_of(file, hashes[i]);
        uint32_t found = slot_value(slot);
        if (found > (uint64_t)first)
            set_slot(slot, 0);
    }
    u8 *o = file->entries + first * INDEX_ENTRY_SIZE;
    for (int64_t i = 0; i < count; i++) {
        u8 *slot = slot_of(file, hashes[i]);
        uint32_t previous = slot_value(slot);
        unused += !previous;
        o = put32(o, (uint32_t)hashes[i]);
        o = put64(o, (uint64_t)offsets[i]);
        o = put32(o, seconds_since(file->begin_ms, stored_ms[i]));
        o = put32(o, previous);
        set_slot(slot, (uint32_t)(first + i));
    }
    return unused;
}
