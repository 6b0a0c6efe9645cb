// The signal handler of a timer writes to a file while the program reads another file.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static int out;
static volatile long handled;

static void handle(int signal) {
    handled += write(out, "x", 1);
}

int main(int count, char **arguments) {
    char data[64];
    struct itimerval each = {{0, 100}, {0, 100}}, none = {{0, 0}, {0, 0}};
    int file = open(arguments[1], O_RDONLY);
    out = open(arguments[2], O_WRONLY | O_CREAT, 0600);
    signal(SIGALRM, handle);
    setitimer(ITIMER_REAL, &each, 0);
    long reads = 0;
    while (reads < 200000)
        reads += pread(file, data, sizeof data, 0) == sizeof data;
    setitimer(ITIMER_REAL, &none, 0);
    printf("%ld %ld\n", reads, handled);
    return 0;
}
