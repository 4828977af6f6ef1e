/* What harnesses share: a check, and with ALONE a main function with a mutator of its own, for want of libFuzzer. */
#include <stdio.h>
#include <stdlib.h>

#include "bytes.h"

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef ALONE
static uint64_t state;

static uint32_t chance(uint32_t below)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(state >> 33) % below;
}

/* Seeds from standard input, each behind its length. */
int main(int count, char **words)
{
    static u8 seeds[1 << 20], input[1 << 17];
    static size_t begins[4096], sizes[4096];
    size_t all = fread(seeds, 1, sizeof seeds, stdin), known = 0;
    long inputs = count > 1 ? atol(words[1]) : 1000;
    state = count > 2 ? (uint64_t)atol(words[2]) : 1;
    for (size_t at = 0; at + 4 <= all && known < 4096; at += 4 + sizes[known - 1]) {
        begins[known] = at + 4;
        sizes[known++] = get32(seeds + at);
    }
    check(known > 0, "there are seeds");
    for (size_t seed = 0; seed < known; seed++)
        LLVMFuzzerTestOneInput(seeds + begins[seed], sizes[seed]);
    for (long i = 0; i < inputs; i++) {
        size_t seed = chance((uint32_t)known), size = sizes[seed];
        memcpy(input, seeds + begins[seed], size);
        for (uint32_t changes = chance(5); changes && size; changes--) {
            size_t at = chance((uint32_t)size), other = chance((uint32_t)known), part;
            switch (chance(6)) {
            case 0: input[at] = (u8)chance(256); break;
            case 1: input[at] ^= (u8)(1 << chance(8)); break;
            case 2: size = at; break;
            case 3: input[at] = (u8)"\0\1\2\177\200\377\"\\{}0-9"[chance(13)]; break;
            case 4: /* a piece is cut out */
                part = chance((uint32_t)(size - at) + 1);
                memmove(input + at, input + at + part, size - at - part);
                size -= part;
                break;
            default: /* a piece of another frame is put over this one */
                part = chance((uint32_t)sizes[other] + 1);
                if (at + part > sizeof input)
                    break;
                memcpy(input + at, seeds + begins[other], part);
                size = at + part > size ? at + part : size;
            }
        }
        LLVMFuzzerTestOneInput(input, size);
    }
    printf("%zu seeds, %ld inputs\n", known, inputs);
    return 0;
}
#endif
