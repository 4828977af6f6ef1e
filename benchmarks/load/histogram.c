#include "histogram.h"

static unsigned bucket_of(uint64_t ns)
{
    if (ns < 2 * HISTOGRAM_STEPS) {
        return (unsigned)ns;
    }
    unsigned shift = 58 - (unsigned)__builtin_clzll(ns); /* leaves 6 bits, the highest set */
    return (shift + 1) * HISTOGRAM_STEPS + (unsigned)(ns >> shift) - HISTOGRAM_STEPS;
}

static uint64_t upper_edge(unsigned bucket)
{
    if (bucket < 2 * HISTOGRAM_STEPS) {
        return bucket;
    }
    unsigned shift = bucket / HISTOGRAM_STEPS - 1;
    return ((uint64_t)(bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
    unsigned bucket = bucket_of(ns);
    histogram->counts[bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1]++;
    histogram->total++;
    if (ns > histogram->max) {
        histogram->max = ns;
    }
}

uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->total + 0.5);
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS && histogram->total > 0; bucket++) {
        seen += histogram->counts[bucket];
        if (seen >= wanted && seen > 0) {
            uint64_t edge = upper_edge(bucket);
            return edge < histogram->max ? edge : histogram->max;
        }
    }
    return histogram->max;
}
