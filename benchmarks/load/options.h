/* What the command line asked for. */
#ifndef SMARTGO_LOAD_OPTIONS_H
#define SMARTGO_LOAD_OPTIONS_H

enum mode { MODE_SEND, MODE_BATCH, MODE_PULL, MODE_IDLE };
extern const char *const MODES[];

struct options {
    enum mode mode;
    const char *host;
    const char *port;
    char *topics;
    int queues;
    int connections;
    int outstanding;
    int size;
    int batch;
    double warm_up;
    double seconds;
    long long count;
    double rate;
    double timeout;
    int binary;
    int bare;
    long long from;
    int spread; /* topics made of the one name; 0: the names as they are */
    int pid;
    const char *group;
    const char *tag;
    const char *broker;
};

extern struct options options;

/* Fill `options`; ends the process with status 2 when the command line is wrong, with 0 after --help. */
void read_options(int count, char **arguments);
/* Say on standard error why the run cannot begin, and end the process with status 2. */
__attribute__((format(printf, 1, 2), noreturn)) void usage_error(const char *format, ...);

#endif
