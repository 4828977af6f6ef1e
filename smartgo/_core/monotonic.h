/* A clock in microseconds that is never set. */
#ifndef SMARTGO_MONOTONIC_H
#define SMARTGO_MONOTONIC_H

#include <stdint.h>
#include <time.h>

static inline int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
