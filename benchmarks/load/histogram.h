/*
 * Times in nanoseconds, counted in buckets 1/32 wide relative to their value: a quantile is at most 3 % too high.
 */
#ifndef SMARTGO_LOAD_HISTOGRAM_H
#define SMARTGO_LOAD_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_STEPS = 32, HISTOGRAM_BUCKETS = 60 * HISTOGRAM_STEPS };

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t total;
    uint64_t max;
};

void histogram_add(struct histogram *histogram, uint64_t ns);
/* The smallest bucket's upper edge that `share` (0..1) of the times do not exceed; 0 when there are none. */
uint64_t histogram_quantile(const struct histogram *histogram, double share);

#endif
