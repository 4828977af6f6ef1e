/* Connections with their buffers and the requests they have in flight. */
#ifndef SMARTGO_LOAD_CONNECTION_H
#define SMARTGO_LOAD_CONNECTION_H

#include <stddef.h>
#include <stdint.h>

struct slot {
    uint32_t opaque;
    int lane;
    int busy;
    uint64_t sent_ns;
    long long offset; /* pulls: where this slot reads next */
};

struct connection {
    int fd;
    int wants_out;
    uint32_t sequence;
    struct slot *slots;
    int *free_slots;
    int free_count;
    int *fresh; /* written to out but not yet stamped with the time of sending */
    int fresh_count;
    unsigned char *in;
    size_t in_size;
    size_t in_room;
    unsigned char *out;
    size_t out_start;
    size_t out_size;
    size_t out_room;
    uint64_t last_read_ns;
    uint64_t next_beat_ns;
};

/* Zeroed memory, or the end of the process. */
void *room(size_t count, size_t size);
/* Let `buffer` hold `wanted` bytes, keeping what it holds. */
void reserve(unsigned char **buffer, size_t *size, size_t wanted);
/* Dial all of them, non-blocking from then on, and have `epoll` watch them; ends the process when one fails. */
struct connection *connections_open(int epoll, int lane_count);
/* Send what is waiting, as far as the socket takes it now. Returns 0, or the errno that ended the connection. */
int connection_flush(int epoll, struct connection *connection);

#endif
