#include "cpu.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct cpu own_cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct cpu){(double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6,
                        (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6};
}

static int cpu_in(const char *path, struct cpu *spent)
{
    char stat[1024];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t size = read(fd, stat, sizeof stat - 1);
    close(fd);
    if (size <= 0) {
        return -1;
    }
    stat[size] = '\0';
    unsigned long user;
    unsigned long system;
    const char *after_name = strrchr(stat, ')'); /* the name itself may hold anything */
    if (after_name == NULL ||
        sscanf(after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) {
        return -1;
    }
    double tick = (double)sysconf(_SC_CLK_TCK);
    *spent = (struct cpu){(double)user / tick, (double)system / tick};
    return 0;
}

int process_cpu(int pid, struct cpu *spent)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return cpu_in(path, spent);
}

int main_thread_cpu(int pid, struct cpu *spent)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, pid);
    return cpu_in(path, spent);
}
