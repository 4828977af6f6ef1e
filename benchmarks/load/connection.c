#include "connection.h"

#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

void *room(size_t count, size_t size)
{
    void *made = calloc(count == 0 ? 1 : count, size);
    if (made == NULL) {
        usage_error("out of memory");
    }
    return made;
}

void reserve(unsigned char **buffer, size_t *size, size_t wanted)
{
    if (wanted > *size) {
        size_t larger = *size * 2 > wanted ? *size * 2 : wanted;
        *buffer = realloc(*buffer, larger);
        if (*buffer == NULL) {
            usage_error("out of memory");
        }
        *size = larger;
    }
}

static void watch(int epoll, struct connection *connection, int out, int operation)
{
    struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = connection};
    if (epoll_ctl(epoll, operation, connection->fd, &event) != 0) {
        usage_error("epoll_ctl: %s", strerror(errno));
    }
    connection->wants_out = out;
}

static int dial(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd < 0) {
        usage_error("socket: %s", strerror(errno));
    }
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
        fprintf(stderr, "load: cannot connect to %s:%s: %s\n", options.host, options.port, strerror(errno));
        exit(3);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

struct connection *connections_open(int epoll, int lane_count)
{
    struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *address;
    int error = getaddrinfo(options.host, options.port, &wanted, &address);
    if (error != 0) {
        usage_error("%s:%s: %s", options.host, options.port, gai_strerror(error));
    }
    struct connection *made = room((size_t)options.connections, sizeof *made);
    for (int i = 0; i < options.connections; i++) {
        struct connection *connection = &made[i];
        size_t width = (size_t)options.outstanding;
        connection->fd = dial(address);
        connection->slots = room(width, sizeof *connection->slots);
        connection->free_slots = room(width, sizeof *connection->free_slots);
        connection->fresh = room(width, sizeof *connection->fresh);
        for (int slot = 0; slot < options.outstanding; slot++) {
            connection->slots[slot].lane = (i * options.outstanding + slot) % lane_count;
            connection->slots[slot].offset = options.from;
            connection->free_slots[connection->free_count++] = options.outstanding - 1 - slot;
        }
        watch(epoll, connection, 0, EPOLL_CTL_ADD);
    }
    freeaddrinfo(address);
    return made;
}

int connection_flush(int epoll, struct connection *connection)
{
    while (connection->out_start < connection->out_size) {
        ssize_t sent = send(connection->fd, connection->out + connection->out_start,
                            connection->out_size - connection->out_start, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno != EAGAIN) {
                return errno;
            }
            if (!connection->wants_out) {
                watch(epoll, connection, 1, EPOLL_CTL_MOD);
            }
            return 0;
        }
        connection->out_start += (size_t)sent;
    }
    connection->out_start = connection->out_size = 0;
    if (connection->wants_out) {
        watch(epoll, connection, 0, EPOLL_CTL_MOD);
    }
    return 0;
}
